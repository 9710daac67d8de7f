"""Three clinics with synthetic patients who got different doses of a drug: a file each.

    python examples/drug-response/make_data.py drug-response

writes drug-response/north.csv and so on, and a copy of study.toml. Blood pressure falls by 1.5 for
each milligram, rises by 0.4 with each year of age, and varies by 6.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CLINICS = {"north": 900, "south": 1100, "west": 1000}
EFFECTS = {"dose": -1.5, "age": 0.4}
START, SPREAD = 120.0, 6.0


def patients(size: int, seed: int) -> np.ndarray:
    """Dose in milligrams, age and pressure: (size, 3)."""
    generator = np.random.default_rng(seed)
    ages = np.clip(generator.normal(58, 13, size), 18, 90)
    rows = np.column_stack([generator.uniform(0, 10, size), ages])
    pressure = START + rows @ list(EFFECTS.values()) + SPREAD * generator.normal(size=size)
    return np.column_stack([rows, np.clip(pressure, 80, 200)]).round(2)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, size) in enumerate(CLINICS.items(), start=1):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*EFFECTS, "pressure"])
            writer.writerows(patients(size, seed).tolist())
        print(f"{folder / name}.csv: {size} patients")
    (folder / "study.toml").write_text((HERE / "study.toml").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "drug-response"))
