"""Five post offices with scikit-learn's handwritten digits: a file each, and a public test file.

    python examples/digits/make_data.py digits

writes digits/north.csv and so on, digits/test.csv and a copy of study.toml. The 1,797 digits of
8 x 8 pixels are public; every fifth is kept for the test.
"""

import csv
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

HERE = Path(__file__).parent
NAMES = ("north", "south", "east", "west", "centre")


def write(path: Path, rows: np.ndarray, labels: np.ndarray) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"p{k}" for k in range(rows.shape[1])), "digit"])
        writer.writerows(
            [*row.astype(int).tolist(), int(label)] for row, label in zip(rows, labels, strict=True)
        )
    print(f"{path}: {len(rows)} digits")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rows, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(2024).permutation(len(rows))
    test, training = order[::5], np.delete(order, np.s_[::5])
    for name, mine in zip(NAMES, np.array_split(training, len(NAMES)), strict=True):
        write(folder / f"{name}.csv", rows[mine], labels[mine])
    write(folder / "test.csv", rows[test], labels[test])
    (folder / "study.toml").write_text((HERE / "study.toml").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "digits"))
