"""The data sets of the accuracy benchmarks, scaled by public knowledge only.

Adult comes from the folder in the environment variable UNISONO_DATA (files `adult.data.gz` and
`adult.test.gz` of the UCI archive), MNIST from the same folder (the four `*-ubyte.gz` files);
breast_cancer and digits ship with scikit-learn. Every bound and category stands here as a
constant from the documentation of the data: nothing is read from training records.
"""

import gzip
import os
from pathlib import Path

import numpy as np

from unisono.experiments.datasets import MissingData, PublicDataset, adult

__all__ = [
    "MissingData",
    "PublicDataset",
    "adult",
    "breast_cancer",
    "data_folder",
    "digits",
    "mnist",
]


def data_folder(argument: str | None = None) -> Path:
    """Where the data lie: the argument, UNISONO_DATA, or a folder beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    return Path(argument or os.environ.get("UNISONO_DATA") or beside)


_MNIST_SIDE = 28
_MNIST_BOUNDS = (0.0, 1.0)  # grey levels 0 .. 255 over 255


def mnist(folder: Path) -> PublicDataset:
    """Ten handwritten digits with the official split: rows of 28 x 28 grey levels in [0, 1]."""
    train, test = (
        _idx(folder / f"{part}-images-idx3-ubyte.gz", header=16)
        .reshape(-1, _MNIST_SIDE**2)
        .astype(np.float32)
        / 255
        for part in ("train", "t10k")
    )
    train_labels, test_labels = (
        _idx(folder / f"{part}-labels-idx1-ubyte.gz", header=8) for part in ("train", "t10k")
    )
    bounds = np.repeat(np.array(_MNIST_BOUNDS)[:, None], _MNIST_SIDE**2, axis=1)
    return PublicDataset("mnist", train, train_labels, test, test_labels, bounds)


def _idx(path: Path, header: int) -> np.ndarray:
    """The bytes of an IDX file behind its header (a magic number and the lengths of its axes)."""
    if not path.exists():
        raise MissingData(
            f"{path.name} is not in {path.parent}: download MNIST's four gzipped IDX files and "
            "set UNISONO_DATA to their folder"
        )
    with gzip.open(path, "rb") as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


# Ranges printed in scikit-learn's description of breast_cancer ("Summary Statistics"): mean,
# standard error and worst of ten measurements.
_BREAST_CANCER = (
    (6.981, 28.11),
    (9.71, 39.28),
    (43.79, 188.5),
    (143.5, 2501.0),
    (0.053, 0.163),
    (0.019, 0.345),
    (0.0, 0.427),
    (0.0, 0.201),
    (0.106, 0.304),
    (0.05, 0.097),
    (0.112, 2.873),
    (0.36, 4.885),
    (0.757, 21.98),
    (6.802, 542.2),
    (0.002, 0.031),
    (0.002, 0.135),
    (0.0, 0.396),
    (0.0, 0.053),
    (0.008, 0.079),
    (0.001, 0.03),
    (7.93, 36.04),
    (12.02, 49.54),
    (50.41, 251.2),
    (185.2, 4254.0),
    (0.071, 0.223),
    (0.027, 1.058),
    (0.0, 1.252),
    (0.0, 0.291),
    (0.156, 0.664),
    (0.055, 0.208),
)
_DIGITS_BOUNDS = (0.0, 16.0)  # its description: counts of 0 to 16 lit pixels


def breast_cancer() -> PublicDataset:
    """Every fifth record is for testing; values are clipped to the (rounded) published ranges."""
    from sklearn.datasets import load_breast_cancer

    rows, labels = load_breast_cancer(return_X_y=True)
    low, high = bounds = np.array(_BREAST_CANCER).T
    return _every_fifth("breast_cancer", np.clip(rows, low, high), labels, bounds)


def digits() -> PublicDataset:
    """Ten classes of 8 x 8 images; every fifth record is for testing."""
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    bounds = np.repeat(np.array(_DIGITS_BOUNDS)[:, None], rows.shape[1], axis=1)
    return _every_fifth("digits", rows, labels, bounds)


def _every_fifth(
    name: str, rows: np.ndarray, labels: np.ndarray, bounds: np.ndarray
) -> PublicDataset:
    held = np.arange(len(rows)) % 5 == 0
    return PublicDataset(name, rows[~held], labels[~held], rows[held], labels[held], bounds)
