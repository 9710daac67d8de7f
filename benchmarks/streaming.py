"""Statistics of a table that does not fit into memory, beside DuckDB without privacy.

    python benchmarks/streaming.py [--rows 50000000] [--columns 20] [--smoke]

A party with so many records in one Parquet file answers a study of the mean and the standard
deviation of every column: policy, ledger, streaming, noise, certificate. A process of its own each,
of which the wall-clock time and the largest resident memory are measured. DuckDB computes avg and
stddev_pop of the same columns, with as many threads as there are cores. Answers are compared.

Our time is said twice: all of `unisono.deployment.local_run`, and without the one pass over the
file's bytes by which a copy of the records is recognised (SHA-256).
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet

GROUP = 2**20
LOW, HIGH = 0.0, 200.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--smoke", action="store_true", help="1,000,000 rows of 20 columns")
    parser.add_argument("--folder", type=Path, help="keep the table here, and use it again")
    parser.add_argument("--measure", choices=("ours", "duckdb"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    rows = 1_000_000 if asked.smoke else asked.rows
    if asked.measure:
        found = (ours if asked.measure == "ours" else peer)(asked.folder, rows, asked.columns)
        found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        written(folder, rows, asked.columns)
        found = {name: measured(folder, rows, asked.columns, name) for name in ("ours", "duckdb")}
    far = np.abs(np.array(found["ours"].pop("means")) - np.array(found["duckdb"].pop("means")))
    size = f"{rows:,} rows of {asked.columns} columns"
    print(f"{size}; largest difference of a mean {far.max():.3g} (bounds {LOW:g} to {HIGH:g})")
    for name, one in found.items():
        shown = ", ".join(f"{key} {value:.2f}" for key, value in one.items())
        print(f"{name:7} {shown}")
    print(f"ratio of times {found['ours']['seconds'] / found['duckdb']['seconds']:.2f}")


def written(folder: Path, rows: int, columns: int) -> None:
    """A table of measurements, a hundredth of them missing, in row groups of 2^20."""
    path = folder / "clinic.parquet"
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    schema = pyarrow.schema([(f"x{n}", pyarrow.float32()) for n in range(columns)])
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for begin in range(0, rows, GROUP):
            generator = np.random.default_rng(begin)
            size = min(GROUP, rows - begin)
            made = [
                pyarrow.array(
                    np.round(generator.normal(60 + 3 * n, 12, size), 1).astype(np.float32),
                    mask=generator.random(size) < 0.01,
                )
                for n in range(columns)
            ]
            writer.write_table(pyarrow.Table.from_arrays(made, schema=schema))


def measured(folder: Path, rows: int, columns: int, name: str) -> dict:
    said = ["--rows", rows, "--columns", columns, "--folder", folder, "--measure", name]
    command = [sys.executable, __file__, *map(str, said)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def ours(folder: Path, rows: int, columns: int) -> dict:
    import warnings

    from unisono.deployment.local_run import RunPlace, prepare
    from unisono.studies import data_set

    warnings.simplefilter("ignore")
    study = folder / "study.toml"
    declared = "".join(
        f'x{n} = {{ kind = "number", bounds = [{LOW}, {HIGH}], missing = "drop record" }}\n'
        for n in range(columns)
    )
    asked = "".join(
        f'[[model.questions]]\nask = "{ask}"\ncolumn = "x{n}"\n'
        for n in range(columns)
        for ask in ("mean", "standard deviation")
    )
    study.write_text(
        f'title = "Many records"\n[data.columns]\n{declared}[[parties]]\nname = "clinic"\n'
        f"records = {rows}\n[privacy]\nepsilon = 1.0\ndelta = 1e-10\n"
        f'[trust]\nmode = "local"\n[model]\nname = "statistics"\n{asked}'
    )
    begin = time.perf_counter()
    data_set.digest(folder / "clinic.parquet")
    hashed = time.perf_counter() - begin
    with tempfile.TemporaryDirectory(dir=folder) as output:
        place = RunPlace(
            study, {"clinic": folder / "clinic.parquet"}, Path(output) / "run", None, None, 1
        )
        task = prepare(place)
        with task.opened() as books:
            shown = task.run(books, lambda progress: None)
    seconds = time.perf_counter() - begin
    answers = {one["name"]: one for one in shown["answers"]}
    own = [answers[f"mean of x{n}"] for n in range(columns)]
    width = max(one["interval"][1] - one["interval"][0] for one in own)
    return {
        "seconds": seconds,
        "without_hash": seconds - hashed,
        "widest_interval": width,
        "means": [one["value"] for one in own],
    }


def peer(folder: Path, rows: int, columns: int) -> dict:
    import duckdb

    asked = ", ".join(f"avg(x{n}), stddev_pop(x{n})" for n in range(columns))
    begin = time.perf_counter()
    query = f"SELECT {asked} FROM '{folder}/clinic.parquet'"
    found = duckdb.connect().execute(query).fetchall()[0]
    return {"seconds": time.perf_counter() - begin, "means": list(found[::2])}


if __name__ == "__main__":
    main()
