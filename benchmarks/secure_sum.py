"""The secure sum against its own mask generator, and against MPyC.

    python benchmarks/secure_sum.py [--quick] [--peer PYTHON]

Masking and unmasking a vector are compared with AES-256 in counter mode writing as many streams
into a buffer, in the same run; ratios are of wall and of processor time. Drawing noise
is reported apart. MPyC sums the same number of integers between three processes of its own
(python -m venv peer && peer/bin/pip install mpyc numpy gmpy2); ours counts every step of an attempt
of three parties and the server, in one process, without a network.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import figures
from unisono.core.grant import derive
from unisono.core.noise import Keystream, rounded_gaussian
from unisono.core.values import Share
from unisono.secagg import masks, party, server, shamir
from unisono.secagg.roster import Identity, Roster
from unisono.secagg.session import Session

SCORECARD = figures.Benchmark(peer="mpyc")

QUESTION = bytes(32)  # any: all are asked alike
BITS = 32
WITHIN, SLOWER = 3.0, 100.0
PEER = Path(__file__).with_name("secure_sum_mpyc.py")


@dataclass(frozen=True)
class People:
    """A session with an announcement of every party."""

    session: Session
    identities: list[Identity]
    states: list[party.Announced]
    announcements: dict[int, party.Announcement]

    @property
    def table(self) -> dict[int, bytes]:
        return {i: one.keys for i, one in self.announcements.items()}


def people(parties: int, minimum: int, colluders: int = 0) -> People:
    identities = [Identity.fresh(f"party {i}") for i in range(parties)]
    roster = Roster(tuple(p.name for p in identities), tuple(p.public for p in identities))
    session = Session(roster, b"benchmark", minimum, colluders, BITS)
    begun = [
        party.announce(session, own, i, 0, 0, os.urandom(32)) for i, own in enumerate(identities)
    ]
    return People(
        session, identities, [b[0] for b in begun], {i: b[1] for i, b in enumerate(begun)}
    )


def deals_for_the_first(crowd: People, dealt: party.Dealt) -> dict[int, party.Deal]:
    """Deals of all others that party 0 accepts: signed, with a box for it, cheap to make."""
    attempt, table, found = dealt.before.attempt, dealt.table, {}
    around = set(crowd.session.neighbours(0))
    for i, state in enumerate(crowd.states[1:], 1):
        statement = party.dealt(attempt, i, dealt.table_digest, bytes(32))
        boxes = {}
        if i in around:
            content = bytes(2 * shamir.SHARE_BYTES)
            own = masks.private_key(derive(state.secret, "box"))
            agreed = masks.exchanged(own, party.box_key(table[0]))
            box = party._box(attempt, i, 0, agreed)
            boxes[0] = box.encrypt(bytes(12), content, dealt.table_digest)
        found[i] = party.Deal(bytes(32), crowd.identities[i].sign(statement), boxes)
    return found


def share(values: np.ndarray) -> Share:
    return Share(values, 1.0, 0, 0, "benchmark", True)


class Seconds(NamedTuple):
    wall: float
    processor: float


def alternating(calls: list[Callable[[], object]], repetitions: int) -> list[Seconds]:
    """The least seconds of each call, all called in turn, so that a busy machine disturbs all."""
    least = [Seconds(np.inf, np.inf)] * len(calls)
    for _ in range(repetitions):
        for i, call in enumerate(calls):
            wall, processor = time.perf_counter(), time.process_time()
            call()
            took = time.perf_counter() - wall, time.process_time() - processor
            least[i] = Seconds(*map(min, least[i], took))
    return least


def streams(count: int, size: int) -> Callable[[], None]:
    """The generator alone: so many streams of `size` words, block by block into one buffer."""
    seeds = [os.urandom(32) for _ in range(count)]
    block = bytearray(masks._BLOCK_BYTES)

    def generate() -> None:
        for seed in seeds:
            encryptor = masks._encryptor(seed)
            for start in range(0, size * BITS // 8, len(block)):
                part = min(len(block), size * BITS // 8 - start)
                encryptor.update_into(masks._ZEROS[:part], block)

    return generate


def line(name: str, ours: Seconds, count: int, generator: Seconds) -> None:
    ratio, processor = ours.wall / generator.wall, ours.processor / generator.processor
    verdict = "reached" if ratio <= WITHIN else "MISSED"
    print(
        f"{name:<36}{1e3 * ours.wall:>9.1f} ms{count:>6} streams{1e3 * generator.wall:>9.1f} ms"
        f"{ratio:>7.2f}{processor:>7.2f}   goal {WITHIN:g}: {verdict}",
        flush=True,
    )
    figures.report(
        name.strip(),
        ratio,
        "of its time",
        aim=WITHIN,
        peer="AES-CTR alone",
        lower=True,
        ratio=True,
        ours=ours.wall,
        theirs=generator.wall,
        measure="s",
    )


# ------------------------------------------------------------ a party, a server


def masking(parties: int, size: int, repetitions: int) -> None:
    crowd = people(parties, parties // 2 + 1)
    dealt, own = party.deal(crowd.states[0], crowd.announcements)
    accepted = party.accept(dealt, {0: own, **deals_for_the_first(crowd, dealt)})
    values = share(np.random.default_rng(0).integers(-(2**20), 2**20, size))
    total, seeds = np.zeros(size, f"<u{BITS // 8}"), [os.urandom(32) for _ in range(parties)]

    def only_masks() -> None:
        masks.add_all(total, [(seed, 1) for seed in seeds])

    ours, alone, generator = alternating(
        [lambda: party.mask(accepted, values, QUESTION), only_masks, streams(parties, size)],
        repetitions,
    )
    line(f"masking, {parties} parties", ours, parties, generator)
    line("  of which adding masks to a vector", alone, parties, generator)


def unmasking(parties: int, dropouts: int, size: int, repetitions: int) -> None:
    """The server's part after the last answers; masks come off in any order, so the sum of the
    survivors' masks stands for their vectors, and has to vanish."""
    crowd = people(parties, parties // 2 + 1)
    session, attempt, table = crowd.session, crowd.states[0].attempt, crowd.table
    minimum, alive = session.minimum, range(dropouts, parties)
    deals, shares = {}, {i: {} for i in range(parties)}
    masked = np.zeros(size, f"<u{BITS // 8}")
    for i, state in enumerate(crowd.states):
        own, mask = derive(state.secret, "self-mask"), derive(state.secret, "mask")
        deals[i] = party.Deal(party.digest("self-mask", attempt, i, own), b"", {})
        random = os.urandom(shamir.randomness(minimum))
        pieces = shamir.split(own if i in alive else mask, range(parties), minimum, random)
        for holder, piece in pieces.items():
            shares[holder][i] = piece
        if i not in alive:
            continue
        masks.add(masked, party.self_mask(attempt, i, own, QUESTION), 1)
        for other in range(dropouts):  # pairs of survivors cancel
            seed = party.pair_seed(attempt, i, other, mask, party.mask_key(table[other]), QUESTION)
            masks.add(masked, seed, 1 if i < other else -1)
    dealers = server.Dealers(server.ShareTable(session, attempt, crowd.announcements), deals)
    survivors = server.Survivors(dealers, QUESTION, dict.fromkeys(alive, b""), masked)
    answers = {i: shares[i] for i in alive}
    assert not server.open_sum(survivors, answers).any()
    count = len(alive) * (1 + dropouts)
    ours, generator = alternating(
        [lambda: server.open_sum(survivors, answers), streams(count, size)], repetitions
    )
    line(f"unmasking, {parties} parties, {dropouts} gone", ours, count, generator)


def noise(size: int, repetitions: int) -> None:
    for width in (10.0, 1e4):
        (seconds,) = alternating(
            [lambda w=width: rounded_gaussian(Keystream(os.urandom(32)), w, (size,))], repetitions
        )
        print(f"apart: noise of one share, {width:g} grid steps wide{1e3 * seconds.wall:>8.1f} ms")


# -------------------------------------------------------------------------- MPyC


def whole_attempt(crowd: People, values: Share) -> np.ndarray:
    """Every step of every party and of the server, one after the other."""
    table = server.collect_keys(crowd.session, 0, 0, crowd.announcements)
    dealt = {i: party.deal(state, table.announcements) for i, state in enumerate(crowd.states)}
    dealers = server.collect_deals(table, {i: deal for i, (_, deal) in dealt.items()})
    sent = {}
    for i, (state, _) in dealt.items():
        sent[i] = party.mask(party.accept(state, dealers.for_party(i)), values, QUESTION)
    vectors = {i: (vector, sealed) for i, (_, vector, sealed) in sent.items()}
    survivors = server.collect_vectors(dealers, vectors, QUESTION)
    agreed = {i: party.agree(state, survivors.signatures) for i, (state, _, _) in sent.items()}
    votes = server.collect_signatures(survivors, {i: vote for i, (_, vote) in agreed.items()})
    shares = {i: party.unmask(state, votes) for i, (state, _) in agreed.items()}
    return server.open_sum(survivors, shares)


def against_mpyc(python: str | None, size: int, repetitions: int) -> None:
    values = np.arange(size) % 1000
    assert np.array_equal(whole_attempt(people(3, 2), share(values)), 3 * values)

    def ours() -> None:
        whole_attempt(people(3, 2), share(values))

    (seconds,) = alternating([ours], repetitions)
    print(f"\na sum of {size} integers of 3 parties, all steps: {1e3 * seconds.wall:.1f} ms")
    if not python:
        print("MPyC skipped: name an interpreter that has it with --peer")
        figures.missing("MPyC", "python -m venv peer && peer/bin/pip install mpyc numpy gmpy2")
        return
    command = [python, str(PEER), str(size), "-M3"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [x.split()[1] for x in run.stdout.splitlines() if x.startswith("seconds")]
    if run.returncode or not found:
        why = f"MPyC failed: {(run.stderr.strip().splitlines() or ['no output'])[-1]}"
        print(why)
        figures.unmeasured(f"sum of {size:,} integers of 3 parties", why, aim=SLOWER, peer="MPyC")
        return
    theirs = float(found[0])
    ratio = theirs / seconds.wall
    verdict = "reached" if ratio >= SLOWER else "MISSED"
    figures.report(
        f"sum of {size:,} integers of 3 parties",
        ratio,
        "times faster",
        aim=SLOWER,
        peer="MPyC",
        ratio=True,
        ours=seconds.wall,
        theirs=theirs,
        measure="s",
    )
    print(
        f"MPyC, 3 processes: {theirs:.2f} s, {ratio:.0f} times slower   goal {SLOWER:g}: {verdict}"
    )


def smoke() -> dict[str, float]:
    values, began = np.arange(1000), time.perf_counter()
    assert np.array_equal(whole_attempt(people(3, 2), share(values)), 3 * values)
    return {"seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the integers")
    parser.add_argument(
        "--peer",
        default=os.environ.get("UNISONO_PEER_PYTHON"),
        help="a Python interpreter with mpyc, numpy and gmpy2",
    )
    arguments = figures.options(parser, smoke, ("mpyc",))
    size, repetitions = (10**5, 5) if arguments.quick else (10**6, 30)
    print(f"{size} integers modulo 2^{BITS}, load {os.getloadavg()[0]:.1f}")
    print(f"{'':<36}{'ours':>12}{'AES-CTR alone':>26}{'ratio':>7}{'CPU':>7}")
    for parties, gone in ((5, 1), (100, 5)):
        few = repetitions if parties == 5 else max(3, repetitions // 6)
        masking(parties, size, few)
        unmasking(parties, 0, size, few)
        unmasking(parties, gone, size, 3 if parties > 5 else few)
    noise(size, repetitions)
    against_mpyc(arguments.peer, size, repetitions)


if __name__ == "__main__":
    sys.exit(main())
