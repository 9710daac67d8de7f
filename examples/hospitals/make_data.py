"""Five hospitals from scikit-learn's breast cancer records: a folder each, with data and policy.

    python examples/hospitals/make_data.py hospitals

writes hospitals/north/records.csv, hospitals/north/policy.toml and so on, and a copy of
study.toml. The records are public; a real hospital brings its own file and writes its own policy.
"""

import csv
import shutil
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

HERE = Path(__file__).parent
NAMES = ("north", "south", "east", "west", "centre")
COLUMNS = (
    "mean radius", "mean texture", "mean smoothness", "mean concavity", "mean symmetry",
    "worst radius", "worst texture", "worst smoothness", "worst concave points", "worst symmetry",
)  # fmt: skip


def main(folder: Path) -> None:
    records = load_breast_cancer()
    places = [list(records.feature_names).index(name) for name in COLUMNS]
    header = [*(name.replace(" ", "_") for name in COLUMNS), "diagnosis"]
    order = np.random.default_rng(2024).permutation(len(records.data))
    for name, mine in zip(NAMES, np.array_split(order, len(NAMES)), strict=True):
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        with open(home / "records.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            for row in mine:
                diagnosis = str(records.target_names[records.target[row]])
                writer.writerow([*map(float, records.data[row, places]), diagnosis])
        policy = (HERE / "policy.toml").read_text()
        (home / "policy.toml").write_text(policy.replace('name = "north"', f'name = "{name}"'))
        print(f"{home}: {len(mine)} records")
    shutil.copy(HERE / "study.toml", folder / "study.toml")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "hospitals"))
