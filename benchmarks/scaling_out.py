"""Beyond one machine, on paper: what secure sums and rounds cost up to 1,000,000 parties.

    python benchmarks/scaling_out.py [--quick] [--write]

The real protocol code at 100 to 10,000 parties, in one process: every step of the server with the
messages of all parties, every step of one party, and the server's exchanges with 8 and 24 of them,
which tell what each more takes. Of the other parties only what the server reads is made: no boxes,
and no masks between two survivors, which cancel. A hundredth may collude, a tenth may drop out, a
twentieth does. The SuperLink is measured by itself, with up to 100 connected parties that echo.

Laws in the number of parties, of neighbours and of the threshold are fitted by least relative
squares and drawn on to 1,000,000 parties, and so are those that fit when each measured size in turn
is left out: the range behind a number is theirs. Seconds are of one processor, the least of
several. --write puts tables and picture into docs/scaling-out.md.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import figures
from secure_sum import BITS, QUESTION, People, deals_for_the_first, people, share
from secure_sum_graphs import messages
from unisono.core.grant import derive
from unisono.engines import wire
from unisono.engines.distributed import packets
from unisono.engines.distributed.answers import read
from unisono.engines.distributed.envelope import seal
from unisono.engines.distributed.opening import SumAttempt
from unisono.engines.distributed.presence import Ask, Presence
from unisono.secagg import masks, neighbours, party, server, shamir

SIZE = 10_000  # integers of a vector
MEASURED = (100, 200, 300, 600, 1_000, 2_000, 3_000, 10_000)
ASKED = (1_000, 10_000, 100_000, 1_000_000)
COLLUDING, MAY_DROP, DROPS = 0.01, 0.1, 0.05
SAMPLES = 8, 24  # parties with which the server's exchanges are made
GIGABIT = 1.25e8  # bytes a second
PAGE = Path(__file__).parents[1] / "docs" / "scaling-out.md"
PICTURE = PAGE.parent / "pictures" / "scaling-out.png"


def conditions(parties: int) -> tuple[int, int]:
    """How many must survive and may collude."""
    colluders = int(COLLUDING * parties)
    return max(parties - int(MAY_DROP * parties), (parties + colluders) // 2 + 1), colluders


# ------------------------------------------------------------------ the protocol, simulated


class Step(NamedTuple):
    """Seconds of processor, and what a call returned."""

    seconds: float
    value: Any


def timed(call: Callable[[], Any], times: int = 2) -> Step:
    least, value = math.inf, None
    for _ in range(times):
        began = time.process_time()
        value = call()
        least = min(least, time.process_time() - began)
    return Step(least, value)


@dataclass(frozen=True)
class Cost:
    """Of one round: processor seconds and bytes, of one party and of the server."""

    parties: int
    party: float  # seconds
    sums: float  # seconds of the server: checking, adding and opening
    exchanges: float  # seconds of the server: writing, reading and checking messages
    plain: float  # the same in a round without a secure sum
    sent: int  # bytes of one party
    received: int
    fullest: int  # bytes for and from one party in the step that moves most of them


def cost(parties: int, size: int) -> Cost:
    """One round of so many parties."""
    minimum, colluders = conditions(parties)
    crowd = people(parties, minimum, colluders)
    seconds, dealers = server_steps(crowd, size)
    exchanged, plain = exchanges(crowd, dealers, size)
    sent, received = messages(crowd.session, size)
    public = 4 * size
    return Cost(
        parties,
        party_steps(crowd, size),
        seconds,
        exchanged,
        plain,
        sum(sent.values()),
        sum(received.values()) + public,
        sent["ask"] + sent["announce"] + received["ask"] + received["announce"] + public,
    )


def server_steps(crowd: People, size: int) -> tuple[float, server.Dealers]:
    """Seconds of all the server computes in a round in which a twentieth drops out."""
    session, attempt = crowd.session, crowd.states[0].attempt
    gone = int(DROPS * session.parties)
    alive = range(gone, session.parties)
    keys = timed(partial(server.collect_keys, session, 0, 0, crowd.announcements), 1)
    table: server.ShareTable = keys.value
    shares, deals = dealt_by_all(crowd, table, alive)
    dealt = timed(partial(server.collect_deals, table, deals), 1)
    dealers: server.Dealers = dealt.value
    # Masks come off in any order, so that the sum of all of them stands for the first vector; it
    # has to vanish.
    masked = np.zeros(size, f"<u{BITS // 8}")
    left = [s for i in range(gone) for s in pairs_left(crowd, i, alive)]
    seeds = {i: derive(crowd.states[i].secret, "self-mask") for i in alive}
    own = [(party.self_mask(attempt, i, seed, QUESTION), 1) for i, seed in seeds.items()]
    masks.add_all(masked, [*own, *left])
    nothing, signed = np.zeros_like(masked), dealers.digest
    vectors = {
        i: (
            masked if i == gone else nothing,
            crowd.identities[i].sign(party.sent(attempt, i, signed, QUESTION)),
        )
        for i in alive
    }
    summed = timed(partial(server.collect_vectors, dealers, vectors, QUESTION), 1)
    survivors: server.Survivors = summed.value
    statement = survivors.statement
    votes = {i: crowd.identities[i].sign(statement) for i in alive}
    voted = timed(partial(server.collect_signatures, survivors, votes), 1)
    shamir._weights.cache_clear()
    opened = timed(partial(server.open_sum, survivors, shares), 1)
    assert not opened.value.any()
    return sum(step.seconds for step in (keys, dealt, summed, voted, opened)), dealers


def dealt_by_all(
    crowd: People, table: server.ShareTable, alive: Sequence[int]
) -> tuple[dict[int, dict[int, bytes]], dict[int, party.Deal]]:
    """Shares of what will be opened of each party, by holder, and a deal of each.

    Shares of zero by one polynomial serve all: a secret is added to them. That hides nothing, and
    costs the server what it always does.
    """
    session, attempt = crowd.session, crowd.states[0].attempt
    shares: dict[int, dict[int, bytes]] = {i: {} for i in alive}
    random = os.urandom(shamir.randomness(session.threshold))
    zero = shamir.split(bytes(32), range(session.parties), session.threshold, random)
    added = {holder: int.from_bytes(piece, "big") for holder, piece in zero.items()}
    deals = {}
    box = bytes(party.BOX_BYTES)  # which the server passes on unread
    for i, state in enumerate(crowd.states):
        own, mask = derive(state.secret, "self-mask"), derive(state.secret, "mask")
        commitment = party.digest("self-mask", attempt, i, own)
        statement = party.dealt(attempt, i, table.digest, commitment)
        boxes = dict.fromkeys(session.neighbours(i), box)
        deals[i] = party.Deal(commitment, crowd.identities[i].sign(statement), boxes)
        secret = int.from_bytes(own if i in alive else mask, "big")
        for holder in session.holders(i):
            if holder in shares:
                piece = (secret + added[holder]) % shamir.PRIME
                shares[holder][i] = piece.to_bytes(shamir.SHARE_BYTES, "big")
    return shares, deals


def pairs_left(crowd: People, dropout: int, alive: Sequence[int]) -> list[tuple[bytes, int]]:
    """The masks that survivors added because of one dropout."""
    state, table = crowd.states[dropout], crowd.announcements
    secret = derive(state.secret, "mask")
    return [
        (
            party.pair_seed(
                state.attempt, dropout, i, secret, party.mask_key(table[i].keys), QUESTION
            ),
            dropout - i,
        )
        for i in crowd.session.neighbours(dropout)
        if i in alive
    ]


def party_steps(crowd: People, size: int) -> float:
    """Seconds of all that one party computes in a round but its own vector."""
    session, alive = crowd.session, range(crowd.session.parties)
    first = timed(lambda: party.deal(crowd.states[0], crowd.announcements))
    state, own = first.value
    deals = {0: own, **deals_for_the_first(crowd, state)}
    second = timed(lambda: party.accept(state, deals))
    accepted: party.Accepted = second.value
    third = timed(lambda: party.mask(accepted, share(np.zeros(size, np.int64)), QUESTION))
    sent: party.Sent = third.value[0]
    signed = {
        i: crowd.identities[i].sign(
            party.sent(state.before.attempt, i, accepted.dealers_digest, QUESTION)
        )
        for i in alive
    }
    fourth = timed(lambda: party.agree(sent, signed))
    agreed: party.Agreed = fourth.value[0]
    votes = {i: crowd.identities[i].sign(agreed.statement) for i in range(session.minimum)}
    fifth = timed(lambda: party.unmask(agreed, votes))
    return sum(step.seconds for step in (first, second, third, fourth, fifth))


class SampleLink:
    """A link to a few parties that reply at once; their own seconds are taken out."""

    def __init__(self, crowd: People, replies: Mapping[str, bytes]) -> None:
        self._crowd, self._replies, self.seconds = crowd, replies, 0.0

    def nodes(self) -> Sequence[int]:
        return range(max(SAMPLES))

    def exchange(self, requests: Mapping[int, bytes], deadline: float) -> Mapping[int, bytes]:
        began = time.process_time()
        found = {
            node: seal(
                self._crowd.session, self._crowd.identities[node], data, self._reply(node, data)
            )
            for node, data in requests.items()
        }
        self.seconds += time.process_time() - began
        return found

    def _reply(self, node: int, data: bytes) -> bytes:
        packet = wire.decode(data)
        if packet.tag != "bundle":
            return self._replies[packet.tag]
        return wire.bundle([self._replies[part.tag] for part in wire.unbundle(packet)])


def exchanges(crowd: People, dealers: server.Dealers, size: int) -> tuple[float, float]:
    """Seconds of the server for the messages of all: in a secure sum, and in a plain round.

    The exchanges of a round: vectors with the next keys, survivors with the next shares, opening.
    """
    session, place = crowd.session, SumAttempt(0, 0)
    signature, everyone = bytes(64), range(session.parties)
    signatures = packets.signatures(dict.fromkeys(everyone, signature))
    own = packets.signatures({0: signature})
    vector = np.zeros(size, np.int32)
    holders = dict.fromkeys(session.holders(0), bytes(shamir.SHARE_BYTES))
    link = SampleLink(
        crowd,
        {
            "hello": wire.encode("hello", {}),
            "announce": wire.encode(
                "announce", {}, packets.announcements({0: crowd.states[0].announcement})
            ),
            "deal": wire.encode("deal", {}, packets.deal(0, dealers.deals[0])),
            "ask": wire.encode("masked", {"round": 0}, [vector, *own]),
            "agree": wire.encode("agree", {}, own),
            "unmask": wire.encode("unmask", {}, packets.shares(holders)),
        },
    )
    present = Presence(link, session, 1.0)
    present.meet()
    sample = present.parties
    public, told = np.zeros(size, np.float32), {**place.scalars, "counted": [0] * session.parties}
    announce = Ask("announce", place.scalars, [], "announce")
    deal = Ask("deal", place.scalars, packets.announcements(crowd.announcements), "deal")
    agree = Ask("agree", place.scalars, signatures, "agree")
    unmask = Ask("unmask", place.scalars, signatures, "unmask")
    shown = packets.deals(dealers)

    def secure(parties: Sequence[int]) -> None:
        asks = {p: [Ask("ask", told, [public, *shown(p)], "masked"), announce] for p in parties}
        found = present.exchange(asks)
        assert len(found["ask"]) == len(parties)
        read(found["announce"], lambda p, arrays: packets.read_announcements(arrays))
        found = present.exchange({p: [agree, deal] for p in parties})
        read(found["deal"], lambda p, arrays: packets.read_deal(0, arrays))
        found = present.exchange({p: [unmask] for p in parties})
        read(found["unmask"], lambda p, arrays: packets.read_shares(arrays))

    def plain(parties: Sequence[int]) -> None:
        ask = Ask("ask", told, [public], "masked")
        found = present.exchange({p: [ask] for p in parties})
        sum(packet.arrays[0].astype(np.int64) for packet in found["ask"].values())

    def of_all(call: Callable[[Sequence[int]], None]) -> float:
        """What is written once for all, and what each party takes, apart."""
        least = dict.fromkeys(SAMPLES, math.inf)
        for _ in range(5):
            for count in SAMPLES:
                before = link.seconds
                took = timed(partial(call, sample[:count]), 1).seconds - (link.seconds - before)
                least[count] = min(least[count], took)
        few, many = SAMPLES
        each = (least[many] - least[few]) / (many - few)
        return least[few] + (session.parties - few) * each

    return of_all(secure), of_all(plain)


# ------------------------------------------------------------------ the SuperLink


@dataclass(frozen=True)
class Transport:
    """What the SuperLink takes: of its processor for a message and its answer, and of memory for a
    connected party."""

    seconds: float
    seconds_per_byte: float
    bytes: float


ECHOING = (20, 100)
SMALL, LARGE = 1_000, 400_000


def measure(link: Any, job: Path) -> None:
    """The server's part: exchanges with parties that echo, and what they took of the SuperLink."""
    order = json.loads((job / "order.json").read_text())
    while len(nodes := link.nodes()) < order["parties"]:
        time.sleep(0.1)
    found: dict[str, Any] = {"memory": _memory(order["superlink"])}
    for size in (SMALL, LARGE):
        data = dict.fromkeys(nodes, os.urandom(size))
        least = math.inf
        for _ in range(order["times"]):
            began = _processor(order["superlink"])
            assert len(link.exchange(data, 60.0)) == len(nodes)
            least = min(least, _processor(order["superlink"]) - began)
        found[str(size)] = least / len(nodes)
    (job / "found.json").write_text(json.dumps(found))


def __getattr__(name: str) -> Any:
    """`application` is made when Flower asks for it: --help works without Flower."""
    if name != "application":
        raise AttributeError(name)
    from unisono.engines.flower.app import server_app

    return server_app(measure)


def _processor(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(process: int) -> int:
    return 4096 * int(Path(f"/proc/{process}/statm").read_text().split()[1])


def transport() -> Transport:
    """Measured with few and many parties: what each more of them takes."""
    found = []
    for parties in ECHOING:
        with tempfile.TemporaryDirectory() as temporary:
            found.append(_echoed(Path(temporary), parties))
    few, many = found
    slope = (many[str(LARGE)] - many[str(SMALL)]) / (2 * (LARGE - SMALL))
    grown = (many["memory"] - few["memory"]) / (ECHOING[1] - ECHOING[0])
    return Transport(many[str(SMALL)] - 2 * SMALL * slope, slope, grown)


def _echoed(folder: Path, parties: int) -> dict[str, Any]:
    """A SuperLink with TLS and node keys, and so many parties that echo, as threads."""
    from unisono.engines.flower.app import write_app
    from unisono.engines.flower.certificates import (
        generate_node_keys,
        issue,
        load_node_keys,
        public_path,
    )
    from unisono.engines.flower.cluster import SuperLink
    from unisono.engines.flower.party_client import serve

    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    tls, keys = issue(folder / "tls", ["127.0.0.1"]), [folder / str(i) for i in range(parties)]
    for key in keys:
        generate_node_keys(key)
    job, stop = folder / "job", threading.Event()
    app = write_app(folder / "app", f"{Path(__file__).stem}:application", job)
    with SuperLink(folder, tls=tls) as superlink:
        superlink.register(*map(public_path, keys))
        assert superlink._process is not None
        order = {"parties": parties, "superlink": superlink._process.pid, "times": 5}
        (job / "order.json").write_text(json.dumps(order))
        threads = [
            threading.Thread(
                target=serve,
                args=(lambda data: data, superlink.address),
                kwargs={
                    "root_certificates": tls.authority.read_bytes(),
                    "keys": load_node_keys(key),
                    "stop": stop,
                },
                daemon=True,
            )
            for key in keys
        ]
        try:
            for thread in threads:
                thread.start()
            superlink.submit(app).wait(300)
        finally:
            stop.set()
            for thread in threads:
                thread.join(20)
    return dict(json.loads((job / "found.json").read_text()))


# ------------------------------------------------------------------ laws


def degree(parties: int) -> tuple[int, int]:
    """Neighbours k and threshold τ, as the product chooses them."""
    return neighbours.choose(parties, *conditions(parties))


Terms = Callable[[int], Sequence[float]]


def _of_party(n: int) -> Sequence[float]:
    return n, degree(n)[0]  # signatures of all; agreements and masks with neighbours


def _of_sums(n: int) -> Sequence[float]:
    k, threshold = degree(n)
    return n, n * k, n * threshold**2  # signatures; masks of dropouts; joining shares


def _of_exchanges(n: int) -> Sequence[float]:
    return n, float(n) ** 2  # every party's message tells of all parties


def _of_bytes(n: int) -> Sequence[float]:
    return 1.0, n, degree(n)[0]


LAWS: Mapping[str, tuple[str, str, Terms]] = {
    "party": ("a party's processor", "a n + b k", _of_party),
    "sums": ("server: sums", "a n + b n k + c n τ²", _of_sums),
    "exchanges": ("server: messages", "a n + b n²", _of_exchanges),
    "plain": ("server: messages of a plain round", "a n + b n²", _of_exchanges),
    "received": ("bytes that a party receives", "a + b n + c k", _of_bytes),
    "sent": ("bytes that a party sends", "a + b n + c k", _of_bytes),
    "fullest": ("bytes of its fullest step", "a + b n + c k", _of_bytes),
}


class Estimate(NamedTuple):
    """A number, and between which the fits lie that leave one size out."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Estimate":
        return Estimate(*(factor * number for number in self))

    def plus(self, other: "Estimate") -> "Estimate":
        return Estimate(*(a + b for a, b in zip(self, other, strict=True)))


def exactly(value: float) -> Estimate:
    return Estimate(value, value, value)


def fitted(costs: Sequence[Cost], name: str) -> np.ndarray:
    """The non-negative coefficients of a law whose relative errors are least."""
    from scipy.optimize import nnls

    terms = LAWS[name][2]
    found = np.array([getattr(one, name) for one in costs], float)
    rows = np.array([terms(one.parties) for one in costs], float) / found[:, None]
    scale = rows.max(axis=0)
    return nnls(rows / scale, np.ones(len(costs)))[0] / scale


def on_ring(costs: Sequence[Cost]) -> list[Cost]:
    """Up to a hundred parties mask with everybody, which is another law."""
    return [one for one in costs if one.parties > neighbours.ALL_PAIRS]


def estimated(costs: Sequence[Cost], name: str, terms: Sequence[float]) -> Estimate:
    """A law at these terms, and the range of those fits that leave one size out."""
    ring = on_ring(costs)
    subsets = [ring, *([*ring[:i], *ring[i + 1 :]] for i in range(len(ring)))]
    values = [float(np.dot(fitted(subset, name), terms)) for subset in subsets]
    return Estimate(values[0], min(values), max(values))


def law(costs: Sequence[Cost], name: str, parties: int) -> Estimate:
    return estimated(costs, name, LAWS[name][2](parties))


def exponent(costs: Sequence[Cost], name: str) -> float:
    """The slope on log axes over all measured rings."""
    ring = on_ring(costs)
    x = np.log([one.parties for one in ring])
    return float(np.polyfit(x, np.log([getattr(one, name) for one in ring]), 1)[0])


def missed(costs: Sequence[Cost], name: str) -> float:
    """How far the law is from what was measured, at most: relative."""
    ring = on_ring(costs)
    return max(abs(law(ring, name, one.parties).value / getattr(one, name) - 1) for one in ring)


class Round(NamedTuple):
    """What one round of so many parties takes, by the laws: seconds and bytes."""

    party: Estimate
    server: Estimate
    superlink: Estimate
    sent: Estimate  # by one party
    received: Estimate
    traffic: Estimate  # of the server, both ways
    memory: Estimate  # of messages that the server holds at once

    @property
    def seconds(self) -> Estimate:
        """One after another: the server on one processor, its line of 1 Gbit/s, a party."""
        line = self.traffic.times(1 / GIGABIT)
        return self.server.plus(self.superlink).plus(line).plus(self.party)


def _round(
    n: int,
    carried: Transport,
    exchanged: int,
    *,
    party: Estimate,
    server: Estimate,
    sent: Estimate,
    received: Estimate,
    fullest: Estimate,
) -> Round:
    traffic = sent.plus(received).times(n)
    superlink = traffic.times(carried.seconds_per_byte).plus(
        exactly(n * exchanged * carried.seconds)
    )
    memory = fullest.plus(exactly(carried.bytes)).times(n)
    return Round(party, server, superlink, sent, received, traffic, memory)


def secure_round(costs: Sequence[Cost], carried: Transport, n: int) -> Round:
    """As it is: every party is told of all parties."""
    return _round(
        n,
        carried,
        3,
        party=law(costs, "party", n),
        server=law(costs, "sums", n).plus(law(costs, "exchanges", n)),
        sent=law(costs, "sent", n),
        received=law(costs, "received", n),
        fullest=law(costs, "fullest", n),
    )


def plain_round(costs: Sequence[Cost], carried: Transport, n: int) -> Round:
    """Without a secure sum: one message to each, one back, and nothing for a party to check."""
    vector = exactly(4.0 * SIZE)
    told = exactly(4.0 * SIZE + 3 * n)  # a number for each party, as text
    return _round(
        n,
        carried,
        1,
        party=exactly(0.0),
        server=law(costs, "plain", n),
        sent=vector,
        received=told,
        fullest=vector.plus(told),
    )


def neighbourly_round(costs: Sequence[Cost], carried: Transport, n: int) -> Round:
    """On paper: a party is told of its k neighbours, and of each with a path in a hash tree, and
    which rounds counted for itself, not for all.

    The laws with k rows in place of n; a path is log2 n hashes of 32 bytes, for each of four
    tables (keys, dealers, survivors, signatures), and is counted as so many rows more.
    """
    k = degree(n)[0]
    width = float(fitted(on_ring(costs), "received")[1])  # bytes of a row of all tables
    rows = k * (1 + 4 * 32 * math.log2(n) / width)
    received = estimated(costs, "received", (1.0, rows, k))
    sent = estimated(costs, "sent", (1.0, 0.0, k))
    return _round(
        n,
        carried,
        3,
        party=estimated(costs, "party", (k, k)),
        server=law(costs, "sums", n).plus(estimated(costs, "exchanges", (n, n * rows))),
        sent=sent,
        received=received,
        fullest=estimated(costs, "fullest", (1.0, rows, k)),
    )


# ------------------------------------------------------------------ chances


def too_few(parties: int, chance: float) -> float:
    """That fewer than the minimum are left when each drops out with this chance."""
    from scipy.special import bdtrc  # the binomial law's upper tail

    return float(bdtrc(parties - conditions(parties)[0], parties, chance))


def chances() -> str:
    """How a sum fails: by the functions by which the product chooses neighbours and threshold."""
    lines = [
        "| parties | k, τ | 5 % drop out | 8 % | 9.5 % | a tenth is gone, and a secret with it |"
        " more colluders around a party than τ allows | twice as many colluders |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for n in (100, 300, *ASKED):
        (minimum, colluders), (k, threshold) = conditions(n), degree(n)
        failing = [f"{_chance(too_few(n, p))}" for p in (0.05, 0.08, 0.095)]
        gone = n - minimum
        if k == n - 1:
            stuck, within, beyond = 0.0, 0.0, 0.0
        else:
            most = neighbours.most_colluders(n, colluders, k)
            stuck = neighbours.stuck(n, gone, k, threshold)
            within = neighbours.crowded(n, colluders, k, most)
            beyond = neighbours.crowded(n, 2 * colluders, k, most)
        row = [f"{n:,}", f"{k}, {threshold}", *failing, *map(_chance, (stuck, within, beyond))]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _chance(value: float) -> str:
    if value <= 0.0:
        return "0"
    if value < 1e-12:
        return f"2^{math.log2(value):.0f}"
    return f"{value:.1e}" if value < 1e-3 else f"{min(value, 1.0):.2g}"


# ------------------------------------------------------------------ words and picture

ROUNDS: Mapping[str, Callable[[Sequence[Cost], Transport, int], Round]] = {
    "secure sum": secure_round,
    "plain round": plain_round,
    "secure sum, neighbours' rows only (on paper)": neighbourly_round,
}


def seconds(found: Estimate) -> str:
    return _ranged(found, [(1e-3, "ms"), (1.0, "s"), (60.0, "min"), (3600.0, "h"), (86400.0, "d")])


def amount(found: Estimate) -> str:
    return _ranged(found, [(1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")])


def _ranged(found: Estimate, units: Sequence[tuple[float, str]]) -> str:
    """Two digits, and the range where it is wider than they show."""
    if found.value == 0.0:
        return "0"
    fitting = [unit for unit in units if found.value >= unit[0]]
    scale, unit = fitting[-1] if fitting else units[0]
    shown = [_digits(number / scale) for number in found]
    around = f" ({shown[1]} to {shown[2]})" if shown[1] != shown[2] else ""
    return f"{shown[0]} {unit}{around}"


def _digits(value: float) -> str:
    if value >= 100:
        return f"{float(f'{value:.2g}'):,.0f}"
    return f"{value:.2g}"


def laws(costs: Sequence[Cost]) -> str:
    lines = [
        "| what | exponent of n, measured | law | misses a measurement by, at most |"
        f" through smaller sizes, foretells {costs[-1].parties:,} parties within |",
        "|---|--:|---|--:|--:|",
    ]
    for name, (words, formula, _) in LAWS.items():
        *smaller, largest = costs
        foretold = law(smaller, name, largest.parties).value / getattr(largest, name) - 1
        lines.append(
            f"| {words} | {exponent(costs, name):.2f} | {formula} | "
            f"{100 * missed(costs, name):.1f} % | {100 * abs(foretold):.1f} % |"
        )
    return "\n".join(lines) + "\n"


def tables(costs: Sequence[Cost], carried: Transport) -> str:
    measured = ", ".join(f"{one.parties:,}" for one in costs)
    parts = [
        f"Measured at {measured} parties, {SIZE:,} integers each; the SuperLink takes "
        f"{seconds(exactly(carried.seconds))} of processor for a message and its answer, "
        f"{1e9 * carried.seconds_per_byte:.1f} ns more for each byte, and "
        f"{amount(exactly(carried.bytes))} of memory for a connected party.\n",
        laws(costs),
    ]
    for words, one in ROUNDS.items():
        rounds = [one(costs, carried, n) for n in ASKED]
        rows: list[tuple[str, Callable[[Round], str]]] = [
            ("a party computes", lambda r: seconds(r.party)),
            ("a party sends", lambda r: amount(r.sent)),
            ("a party receives", lambda r: amount(r.received)),
            ("the server computes", lambda r: seconds(r.server)),
            ("the SuperLink computes", lambda r: seconds(r.superlink)),
            ("the server's traffic", lambda r: amount(r.traffic)),
            ("messages in the server's memory", lambda r: amount(r.memory)),
            ("**a round, one processor, 1 Gbit/s**", lambda r: f"**{seconds(r.seconds)}**"),
        ]
        head = f"| {words} | " + " | ".join(f"{n:,}" for n in ASKED) + " |"
        lines = [head, "|---|" + "--:|" * len(ASKED)]
        lines += [f"| {name} | " + " | ".join(map(show, rounds)) + " |" for name, show in rows]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def picture(costs: Sequence[Cost], carried: Transport, place: Path) -> None:
    """Points that were measured, laws through them, and their ranges, on log axes."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    figure = Figure((11.5, 4.6), layout="constrained")
    times, amounts = figure.subplots(1, 2)
    sizes = np.unique(np.geomspace(150, 1_000_000, 60).astype(int)).tolist()
    drawn = {name: [one(costs, carried, n) for n in sizes] for name, one in ROUNDS.items()}
    # Okabe and Ito's palette, which people with any colour vision tell apart.
    styles = dict(zip(ROUNDS, (("#0a84c8", "-"), ("#009e73", "-"), ("#0a84c8", "--")), strict=True))
    for name, (colour, style) in styles.items():
        for axes, pick in (
            (times, lambda r: r.seconds),
            (amounts, lambda r: r.traffic.times(1e-9)),
        ):
            found = [pick(one) for one in drawn[name]]
            axes.plot(sizes, [e.value for e in found], style, color=colour, label=name)
            axes.fill_between(
                sizes, [e.low for e in found], [e.high for e in found], color=colour, alpha=0.15
            )
    server = [one.server.value for one in drawn["secure sum"]]
    own = [one.party.value for one in drawn["secure sum"]]
    times.plot(sizes, server, ":", color="#d55e00", label="of the secure sum: server's processor")
    times.plot(sizes, own, ":", color="#e69f00", label="of the secure sum: a party's processor")
    held = [one.memory.value / 1e9 for one in drawn["secure sum"]]
    amounts.plot(sizes, held, ":", color="#cc79a7", label="of the secure sum: held in memory")
    ring = on_ring(costs)
    counts = [one.parties for one in ring]
    times.plot(counts, [c.sums + c.exchanges for c in ring], "o", color="#d55e00", markersize=4)
    times.plot(counts, [c.party for c in ring], "o", color="#e69f00", markersize=4)
    amounts.plot(
        counts,
        [c.parties * (c.sent + c.received) / 1e9 for c in ring],
        "o",
        color="#0a84c8",
        markersize=4,
    )
    for axes, title, unit in (
        (times, "A round on one processor and a line of 1 Gbit/s", "seconds"),
        (amounts, "Bytes through the server in a round", "GB"),
    ):
        axes.set(xscale="log", yscale="log", xlabel="parties", ylabel=unit, title=title)
        axes.grid(alpha=0.3)
        axes.axvline(max(counts), color="grey", linewidth=0.8)
        axes.legend(fontsize=7.5, loc="lower right")
        for words, side, away in (("measured", "right", -4), ("extrapolated", "left", 4)):
            axes.annotate(
                words,
                (max(counts), 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(away, -11),
                textcoords="offset points",
                fontsize=8,
                ha=side,
                color="grey",
            )
    for number, words in ((60, "a minute"), (3600, "an hour"), (86400, "a day")):
        times.axhline(number, color="grey", linewidth=0.6, linestyle=(0, (1, 3)))
        times.annotate(words, (125, number), fontsize=8, va="bottom", color="grey")
    figure.savefig(place, dpi=130)


# ------------------------------------------------------------------ entrance


def block(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->\n\n", f"\n<!-- end of {name} -->\n"


def written(page: str, name: str, text: str) -> str:
    """The page with another text in one of its blocks."""
    start, end = block(name)
    before, rest = page.split(start, 1)
    return before + start + text + end + rest.split(end, 1)[1]


def smoke() -> dict[str, float]:
    """A ring and its law from three small sizes; no SuperLink, nothing written."""
    costs = [cost(parties, 100) for parties in (101, 110, 120)]
    carried = Transport(2e-3, 1e-9, 1e5)
    found = secure_round(costs, carried, 1_000_000)
    assert chances()
    assert tables(costs, carried)
    return {"seconds": costs[0].party, "million": found.seconds.value}


def measured(sizes: Sequence[int], kept: Path | None) -> tuple[list[Cost], Transport]:
    """Costs of each size and of the SuperLink; from the file where they were kept, if there is."""
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
        return [Cost(**one) for one in found["costs"]], Transport(**found["transport"])
    costs = []
    for parties in sizes:
        costs.append(cost(parties, SIZE))
        print(costs[-1], flush=True)
    carried = transport()
    if kept is not None:
        rows = [asdict(one) for one in costs]
        kept.write_text(json.dumps({"costs": rows, "transport": asdict(carried)}, indent=1))
    return costs, carried


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="up to 1,000 parties")
    parser.add_argument("--write", action="store_true", help="into docs/scaling-out.md")
    parser.add_argument("--json", type=Path, help="where measurements are kept, or come from")
    arguments = figures.options(parser, smoke)
    most = 1_000 if arguments.quick else MEASURED[-1]
    costs, carried = measured([n for n in MEASURED if n <= most], arguments.json)
    text, likely = tables(costs, carried), chances()
    print(f"\n{text}\n{likely}")
    million = secure_round(costs, carried, 1_000_000)
    figures.report("a secure sum of 1e6 parties, on paper", million.seconds.value / 3600, "h")
    if arguments.write:
        page = written(PAGE.read_text(encoding="utf-8"), "measured", text)
        PAGE.write_text(written(page, "chances", likely), encoding="utf-8")
        picture(costs, carried, PICTURE)


if __name__ == "__main__":
    sys.exit(main())
