"""Statistics of a table that does not fit into memory, beside DuckDB without privacy.

    python benchmarks/streaming.py [--rows 50000000] [--columns 20] [--folder FOLDER] [--smoke]

A party with so many records in one Parquet file answers a study of the mean and the standard
deviation of every column: policy, ledger, streaming, noise, certificate. A process of its own each,
of which the wall-clock time and the largest resident memory are measured. DuckDB computes avg and
stddev_pop of the same columns, with as many threads as there are cores. Answers are compared.

Our time is said twice: all of `unisono.deployment.local_run`, and without the one pass over the
file's bytes by which a copy of the records is recognised (SHA-256).
"""

import argparse
import importlib.util
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

import figures

SCORECARD = figures.Benchmark(quick=("--rows", "4000000"), seconds=3600)

GROUP = 2**20
LOW, HIGH = 0.0, 200.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="keep the table here, and use it again")
    parser.add_argument("--measure", choices=("ours", "duckdb"), help=argparse.SUPPRESS)
    asked = figures.options(parser, smoke, peers=("duckdb",))
    if asked.measure:
        found = (ours if asked.measure == "ours" else peer)(asked.folder, asked.rows, asked.columns)
        found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        written(folder, asked.rows, asked.columns)
        compared(folder, asked.rows, asked.columns)


def compared(folder: Path, rows: int, columns: int) -> None:
    own = measured(folder, rows, columns, "ours")
    size = f"{rows:,} rows of {columns} columns"
    print(f"{size}: {own['seconds']:.1f} s ({own['without_hash']:.1f} s without the hash)")
    print(f"largest resident memory {own['peak_mb']:.0f} MB")
    print(f"widest interval of a mean {own['widest']:.3g} (bounds {LOW:g} to {HIGH:g})")
    figures.report(f"statistics of {size}, memory", own["peak_mb"], "MB", aim=1000, lower=True)
    if importlib.util.find_spec("duckdb") is None:
        figures.missing("DuckDB", "pip install 'unisono[duckdb]'")
        return
    other = measured(folder, rows, columns, "duckdb")
    far = np.abs(np.array(own["means"]) - np.array(other["means"])).max()
    ratio = own["seconds"] / other["seconds"]
    print(f"DuckDB without privacy {other['seconds']:.1f} s, {other['peak_mb']:.0f} MB")
    print(f"ratio of times {ratio:.2f}; means differ by at most {far:.3g}")
    figures.report(
        f"statistics of {size}",
        ratio,
        "times as long",
        aim=3,
        peer="DuckDB",
        lower=True,
        ratio=True,
    )


def smoke() -> dict[str, float]:
    """A small table, streamed all the same."""
    from unisono.studies import build

    before, build.STREAMED = build.STREAMED, 0
    try:
        with tempfile.TemporaryDirectory() as scratch:
            written(Path(scratch), 70_000, 2)
            return {"streamed rows": 70_000, "seconds": ours(Path(scratch), 70_000, 2)["seconds"]}
    finally:
        build.STREAMED = before


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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of missing and clipped values, as they should be
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
        "widest": width,
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
