"""Three hospitals with synthetic stays: a file each.

    python examples/odds/make_data.py odds

writes odds/north.csv and so on, and a copy of study.toml. Nobody's stay is in them. A number after
the folder makes other stays.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# Hospital: stays, mean age.
HOSPITALS = {"north": (5000, 66), "south": (3500, 61), "west": (1500, 70)}
SEVERITIES = ("mild", "moderate", "severe")
# Log-odds of coming back within 30 days; a patient of 65 years, mild illness, has about 1 in 7.
INTERCEPT = -1.8 - 0.03 * 65
EFFECTS = {
    "age": 0.03,
    "earlier_stays": 0.25,
    "sex=male": 0.0,
    "lives_alone": 0.4,
    "severity=moderate": 0.5,
    "severity=severe": 0.9,
}


def stays(size: int, mean_age: float, seed: int) -> list[list[object]]:
    """Age, sex, severity, earlier stays, whether somebody lives alone, and whether they came back:
    older people live alone more often, so that the two have to be told apart."""
    generator = np.random.default_rng(seed)
    ages = np.clip(generator.normal(mean_age, 14, size), 18, 100).astype(int)
    male = generator.random(size) < 0.48
    severity = generator.choice(3, size, p=[0.5, 0.35, 0.15])
    earlier = np.minimum(generator.poisson(0.8, size), 6)
    alone = generator.random(size) < 1 / (1 + np.exp(-(ages - 70) / 15))
    scores = (
        INTERCEPT
        + EFFECTS["age"] * ages
        + EFFECTS["earlier_stays"] * earlier
        + EFFECTS["sex=male"] * male
        + EFFECTS["lives_alone"] * alone
        + np.array([0.0, EFFECTS["severity=moderate"], EFFECTS["severity=severe"]])[severity]
    )
    back = generator.random(size) < 1 / (1 + np.exp(-scores))
    columns = (
        ages.tolist(),
        np.where(male, "male", "female").tolist(),
        [SEVERITIES[place] for place in severity],
        earlier.tolist(),
        np.where(alone, "true", "false").tolist(),
        np.where(back, "yes", "no").tolist(),
    )
    return [list(row) for row in zip(*columns, strict=True)]


def main(folder: Path, first: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ["age", "sex", "severity", "earlier_stays", "lives_alone", "back"]
    for seed, (name, (size, mean_age)) in enumerate(HOSPITALS.items(), start=first):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(stays(size, mean_age, seed))
        print(f"{folder / name}.csv: {size} stays")
    (folder / "study.toml").write_text((HERE / "study.toml").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "odds"), *map(int, sys.argv[2:3]))
