"""Four tax offices with synthetic incomes: a file each.

    python examples/incomes/make_data.py incomes

writes incomes/coast.csv and so on, and a copy of study.toml. Nobody's income is in them.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
# Office: people, median income, part that lives in a city.
OFFICES = {
    "coast": (2000, 36_000, 0.7),
    "hills": (1200, 29_000, 0.2),
    "lakes": (1500, 33_000, 0.4),
    "plain": (1800, 31_000, 0.5),
}


def people(size: int, median: float, city: float, seed: int) -> list[list[object]]:
    """Age, place and income; in cities people earn a fifth more, and nobody above 180,000."""
    generator = np.random.default_rng(seed)
    ages = np.clip(generator.normal(46, 15, size), 18, 95).astype(int)
    urban = generator.random(size) < city
    incomes = median * np.exp(0.5 * generator.normal(size=size)) * np.where(urban, 1.2, 1.0)
    incomes = np.minimum(incomes, 180_000)
    places = np.where(urban, "urban", "rural")
    return [
        list(row)
        for row in zip(ages.tolist(), places.tolist(), incomes.round(0).tolist(), strict=True)
    ]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, (size, median, city)) in enumerate(OFFICES.items(), start=1):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "place", "income"])
            writer.writerows(people(size, median, city, seed))
        print(f"{folder / name}.csv: {size} people")
    (folder / "study.toml").write_text((HERE / "study.toml").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "incomes"))
