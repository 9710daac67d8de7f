"""Five tables as people have them: odd cells, odd words, odd separators, nothing cleaned.

    python examples/tables/make_data.py tables

writes for each table a folder with study.toml, a file of records and a policy for each of three
parties, and public.csv to test the result on. **The records are made up**, by this file, in the
shape of tables that many people know: free light chains and mortality (flchain), a survey among
students, visits to doctors, shares of words in e-mails (spambase), and bands of satellite pictures
(satimage). No package that Unisono needs ships these, and nothing here is downloaded.
"""

import datetime
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
PARTIES = {"north": 1200, "south": 900, "west": 1500}
PUBLIC = 600
Row = list[str]
Random = np.random.Generator


def chains(random: Random, public: bool) -> Iterator[Row]:
    """As a laboratory in Germany exports it: semicolons, decimal commas, Latin-1, creatinine
    missing in 17 of 100 records, in three spellings."""
    yield ["alter", "geschlecht", "kappa", "kreatinin", "mgus", "probe vom", "verstorben"]
    while True:
        age, man = float(np.clip(random.normal(64, 10), 50, 100)), random.random() < 0.45
        kappa = random.lognormal(0.2 + 0.008 * (age - 64), 0.5)
        creatinine = random.lognormal(0.05 + 0.1 * man, 0.25)
        died = random.random() < 1 / (1 + np.exp(3.2 - 0.12 * (age - 64) - 0.8 * kappa))
        missing = random.random() < 0.17
        spelled = random.choice(["", "NA", "nicht gemessen"])
        day = datetime.date(1995, 1, 1) + datetime.timedelta(days=int(random.integers(3000)))
        yield [
            f"{age:.1f}".replace(".", ","),
            str(random.choice(["m", "männlich"]) if man else "w"),
            f"{kappa:.3f}".replace(".", ","),
            str(spelled) if missing else f"{creatinine:.2f}".replace(".", ","),
            "ja" if random.random() < 0.02 else "nein",
            day.strftime("%d.%m.%Y"),
            "1" if died else "0",
        ]


def survey(random: Random, public: bool) -> Iterator[Row]:
    """As a spreadsheet saves "Unicode text": UTF-16, tabs; answers on a scale of five, yes and no
    in several spellings, and people who would rather not say."""
    scale = ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"]
    yield ["Timestamp", "I enjoy statistics", "Hours per week", "Owns a laptop", "Faculty"]
    while True:
        mood = int(np.clip(random.normal(2.4, 1.1), 0, 4))
        hours = str(int(random.poisson(4 + 2 * mood)))
        moment = datetime.datetime(2024, 4, 1) + datetime.timedelta(hours=int(random.integers(900)))
        yield [
            moment.strftime("%m/%d/%Y %H:%M"),
            scale[mood] if random.random() < 0.93 else "",
            hours if random.random() < 0.95 else "no idea",
            str(random.choice(["Yes", "yes", "Y", "no", ""], p=[0.5, 0.2, 0.1, 0.15, 0.05])),
            str(
                random.choice(["science", "arts", "law", "Theatre, film"], p=[0.5, 0.3, 0.15, 0.05])
            ),
        ]


def visits(random: Random, public: bool) -> Iterator[Row]:
    """Counts with a long tail, quotes where none are needed, incomes that some do not tell."""
    yield ["id", "visits", "age", "chronic", "insurance", "income"]
    number = 0
    while True:
        number += 1
        age, ill = int(random.integers(18, 91)), int(random.poisson(0.8))
        count = int(random.negative_binomial(2, 2 / (2 + np.exp(0.3 + 0.5 * ill + 0.012 * age))))
        insurance = random.choice(
            ["public", "private", "none", "military"], p=[0.6, 0.3, 0.07, 0.03]
        )
        income = f"{random.lognormal(10.2, 0.7):.0f}" if public or random.random() < 0.9 else "?"
        yield [f'"P-{number:05}"', str(count), str(age), str(ill), f'"{insurance}"', income]


WORDS = ("make", "address", "all", "free", "money", "credit", "you", "your", "hp", "george")


def words(random: Random, public: bool) -> Iterator[Row]:
    """Percent of the words of an e-mail: mostly 0, at times large."""
    yield [*(f"share of {word}" for word in WORDS), "longest run of capitals", "spam"]
    odds = np.array([1.2, 0.9, 0.7, 2.5, 2.2, 1.8, 1.0, 1.4, -2.5, -3.0])
    while True:
        spam = random.random() < 0.4
        rate = np.exp(np.where(spam, odds, -odds) / 2) * 0.25
        shares = np.where(
            random.random(len(WORDS)) < rate, random.exponential(1.2, len(WORDS)), 0.0
        )
        capitals = int(random.lognormal(4.2 if spam else 2.8, 1.0)) + 1
        yield [*(f"{share:.2f}" for share in shares), str(capitals), "TRUE" if spam else "FALSE"]


BANDS = {
    "red soil": (62, 95, 108, 88),
    "cotton crop": (48, 40, 113, 118),
    "grey soil": (87, 105, 110, 87),
    "damp grey soil": (77, 90, 95, 75),
    "soil with vegetation": (60, 62, 83, 69),
}


def bands(random: Random, public: bool) -> Iterator[Row]:
    """Brightness from 0 to 255 in four bands, and what grows there; bars between cells."""
    yield ["green", "red", "near infrared 1", "near infrared 2", "ground"]
    names = list(BANDS)
    while True:
        ground = names[int(random.choice(len(names), p=[0.3, 0.15, 0.3, 0.15, 0.1]))]
        seen = np.clip(random.normal(BANDS[ground], 7), 0, 255).astype(int)
        cells = [str(value) for value in seen]
        if not public and random.random() < 0.03:
            cells[int(random.integers(4))] = "NaN"
        yield [*cells, ground]


# Each with what stands between cells, and how text is encoded.
TABLES: dict[str, tuple[Callable[[Random, bool], Iterator[Row]], str, str]] = {
    "chains": (chains, ";", "latin-1"),
    "survey": (survey, "\t", "utf-16"),
    "visits": (visits, ",", "utf-8"),
    "words": (words, ",", "utf-8"),
    "bands": (bands, "|", "utf-8"),
}


def main(folder: Path) -> None:
    for number, (name, (rows, separator, encoding)) in enumerate(TABLES.items()):
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        (home / "study.toml").write_text((HERE / f"{name}.toml").read_text())
        if name == "chains":
            (home / "codebook.csv").write_text((HERE / "codebook.csv").read_text())
        for place, (party, size) in enumerate({**PARTIES, "public": PUBLIC}.items()):
            made = rows(np.random.default_rng((2024, number, place)), party == "public")
            lines = [separator.join(next(made)) for _ in range(size + 1)]
            (home / f"{party}.csv").write_bytes("\r\n".join([*lines, ""]).encode(encoding))
        for party in PARTIES:
            policy = (HERE / "policy.toml").read_text().replace("PARTY", party)
            (home / f"{party}.policy.toml").write_text(policy)
        print(f"{home}: {sum(PARTIES.values())} records of three parties, and {PUBLIC} public ones")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tables"))
