"""Authorisations a second, against the disk's own limit in the same run.

    python benchmarks/ledger.py [folder]

The limit is a loop of plain appends of lines of the same length, each with fdatasync, to a file
beside the ledger; repetitions are interleaved and the best of each is compared.

Between the two lies what any Python program must do for such a line before it waits for the disk:
lock the file against other processes, see that it is still the one of its name and as long as it
was left, draw a secret, write the entry as JSON and chain it by its hash (`necessary`). The
processor time of each is printed as well, which does not depend on the disk. No ledger in Python
can reach more of the disk's rate than wait / (wait + necessary): at ten microseconds of necessary
work, .9 needs a disk that takes ninety for a wait.
"""

import argparse
import fcntl
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import figures
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER

SCORECARD = figures.Benchmark(quick=())

COUNT, REPEATS = 300, 7
AIM = 0.9


def plain(path: Path, line: bytes) -> float:
    """Appends and fdatasyncs a second of the bare disk."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    start = time.perf_counter()
    for _ in range(COUNT):
        os.write(descriptor, line)
        os.fdatasync(descriptor)
    elapsed = time.perf_counter() - start
    os.close(descriptor)
    return COUNT / elapsed


def necessary(path: Path, line: bytes) -> float:
    """The same with the least that Python must do for a line of a ledger, and nothing else."""
    descriptor, name = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), str(path)
    document = json.loads(line)
    encode = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
    head = document.pop("chain")
    start = time.perf_counter()
    for number in range(COUNT):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        assert os.fstat(descriptor).st_ino == os.stat(name).st_ino
        os.urandom(32)
        body = encode({**document, "number": number}).encode()
        head = hashlib.sha256(head.encode() + body).hexdigest()
        os.write(descriptor, body[:-1] + b',"chain":"' + head.encode() + b'"}\n')
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.fdatasync(descriptor)
    elapsed = time.perf_counter() - start
    os.close(descriptor)
    return COUNT / elapsed


def authorise(book: Ledger, cost: dict) -> float:
    """Authorisations a second."""
    start = time.perf_counter()
    for _ in range(COUNT):
        book.authorize(cost)
    return COUNT / (time.perf_counter() - start)


def processor(folder: Path, line: bytes, cost: dict) -> dict[str, float]:
    """Microseconds of processor for a line in a folder in memory, where no disk is waited for."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        beside = Path(place) / "plain"
        book = Ledger.create(Path(place) / "l", Policy("bench", Budget(5.0, 1e-6)), ACCOUNTANT)
        jobs: dict[str, Callable[[], float]] = {
            "plain append": lambda: plain(beside, line),
            "necessary in Python": lambda: necessary(beside, line),
            "ledger": lambda: authorise(book, cost),
        }
        found = dict.fromkeys(jobs, float("inf"))
        for _ in range(REPEATS):
            for name, job in jobs.items():
                start = time.process_time()
                job()
                found[name] = min(found[name], (time.process_time() - start) / COUNT * 1e6)
        return found


def together(book: Ledger, cost: dict, threads: int = 8) -> float:
    """Authorisations a second by several threads, who share each wait for the disk."""
    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda _: book.authorize(cost), range(4 * COUNT)))
    return 4 * COUNT / (time.perf_counter() - start)


def smoke() -> dict[str, float]:
    cost = everyone(Event(Gaussian(1e5), bounded_sum(l2=1.0)) * 1)
    book = Ledger.in_memory(Policy("bench", Budget(5.0, 1e-6)), ACCOUNTANT)
    return {"authorisations a second in memory": authorise(book, cost)}


def main(folder: str) -> None:
    event = Event(Gaussian(1e5), bounded_sum(l2=1.0))
    cost = everyone(event * 1)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "ledger"
        book = Ledger.create(path, Policy("bench", Budget(5.0, 1e-6)), ACCOUNTANT)
        authorise(book, cost)
        line = path.read_bytes().splitlines(keepends=True)[-1]
        beside = Path(place) / "plain"
        rates = [
            (
                plain(beside, line),
                necessary(beside, line),
                authorise(book, cost),
                together(book, cost),
            )
            for _ in range(REPEATS)
        ]
        limit, floor, alone, shared = (max(column) for column in zip(*rates, strict=True))
        print(f"{'disk alone':<28}{limit:>12,.0f} appends/s")
        print(f"{'necessary in Python':<28}{floor:>12,.0f} appends/s{floor / limit:>17.2f}")
        for name, rate in (("one thread", alone), ("eight threads", shared)):
            print(f"{'ledger, ' + name:<28}{rate:>12,.0f} authorisations/s{rate / limit:>8.2f}")
            figures.report(
                f"ledger, {name}", rate / limit, "of plain appends", aim=AIM, peer="the disk alone"
            )
        print(f"(aim: at least {AIM:.2f} of the disk)")
        memory = Path("/dev/shm")
        if memory.is_dir():
            for name, spent in processor(memory, line, cost).items():
                print(f"{'processor, ' + name:<32}{spent:>8.1f} us a line")

        with book._journal.locked():
            entry = {
                "kind": "grant",
                "cost": next(iter(book._costs)),
                "releases": 1,
                "purpose": "",
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            numbers = range(book.grants, 100_000)
            book._journal.append([entry | {"number": number} for number in numbers])
        start = time.perf_counter()
        opened = Ledger.open(path, ACCOUNTANT)
        elapsed = time.perf_counter() - start
        start = time.perf_counter()
        opened.spent(SERVER)
        answer = time.perf_counter() - start
        print(f"{'open 100,000 entries':<28}{elapsed:>12.2f} s   then answer {answer * 1e3:.2f} ms")

    count, start = 20_000, time.perf_counter()
    policy = Policy("equal", Budget(5.0, 1e-6))
    for _ in range(count):
        Ledger.in_memory(policy, ACCOUNTANT, seed=0).authorize(cost)
    rate = count / (time.perf_counter() - start)
    print(f"{'parties of equal history':<28}{rate:>12,.0f} authorisations/s in memory")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default=".", help="on the disk that is measured")
    main(figures.options(parser, smoke).folder)
