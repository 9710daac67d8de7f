"""Five hospitals from scikit-learn's breast cancer records: a folder each, with data and policy.

    python examples/hospitals/make_data.py hospitals

writes hospitals/north/records.csv, hospitals/north/policy.toml and so on, public.csv to test the
result on, and study.toml. All of these records are public; a real hospital brings its own file and
writes its own policy.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

HERE = Path(__file__).parent
NAMES = ("north", "south", "east", "west", "centre")
PUBLIC = 114  # records that play the part of published ones
COLUMNS = (
    "mean radius",
    "mean texture",
    "mean smoothness",
    "mean concavity",
    "mean symmetry",
    "worst radius",
    "worst texture",
    "worst smoothness",
    "worst concave points",
    "worst symmetry",
)


def main(folder: Path) -> None:
    order = np.random.default_rng(2024).permutation(569)
    for name, mine in zip(NAMES, np.array_split(order[PUBLIC:], len(NAMES)), strict=True):
        home = folder / name
        write(home / "records.csv", mine)
        policy = (HERE / "policy.toml").read_text()
        (home / "policy.toml").write_text(policy.replace('name = "north"', f'name = "{name}"'))
        print(f"{home}: {len(mine)} records")
    write(folder / "public.csv", order[:PUBLIC])
    (folder / "study.toml").write_text((HERE / "study.toml").read_text())


def write(path: Path, rows: np.ndarray) -> None:
    """Some of scikit-learn's records as a CSV file."""
    records = load_breast_cancer()
    places = [list(records.feature_names).index(name) for name in COLUMNS]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(name.replace(" ", "_") for name in COLUMNS), "diagnosis"])
        for row in rows:
            diagnosis = str(records.target_names[records.target[row]])
            writer.writerow([*map(float, records.data[row, places]), diagnosis])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals"))
