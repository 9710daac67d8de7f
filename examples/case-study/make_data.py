"""Ten workers with synthetic measurements on one line: a file each, and the studies.

    python examples/case-study/make_data.py case-study

The case study of chapter 4 of Sharma's thesis (2019), with more records for each worker: y = θ x
plus normal errors of standard deviation 0.5. Here θ is 2, and there are 100 records in each file.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
WORKERS, RECORDS = 10, 100
SLOPE, SPREAD = 2.0, 0.5


def measurements(size: int, seed: int) -> np.ndarray:
    """x and y: (size, 2)."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-3, 3, size)
    y = np.clip(SLOPE * x + SPREAD * generator.normal(size=size), -8, 8)
    return np.column_stack([x, y]).round(3)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, WORKERS + 1):
        with open(folder / f"worker{number}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["x", "y"])
            writer.writerows(measurements(RECORDS, number).tolist())
    print(f"{folder}: {WORKERS} files of {RECORDS} records")
    for study in sorted(HERE.glob("*.toml")):
        (folder / study.name).write_text(study.read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "case-study"))
