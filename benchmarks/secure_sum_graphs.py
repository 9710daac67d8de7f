"""All pairs against a ring of neighbours: a party's time, and its traffic in a round.

    python benchmarks/secure_sum_graphs.py [--quick]

A tenth of the parties may drop out, none colludes. Bytes are those of the packets as they go over
the wire, with the signatures of replies; the masked vector and the study's public state come on
top. Set-up is a party's dealing and accepting, which is mostly checking signatures.
"""

import argparse
import os

import numpy as np

import figures
from secure_sum import BITS, QUESTION, People, alternating, deals_for_the_first, people, share
from unisono.engines import wire
from unisono.engines.distributed import packets
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.secagg import neighbours, party, server, shamir
from unisono.secagg.roster import KEY_BYTES, SIGNATURE_BYTES
from unisono.secagg.session import Session

SCORECARD = figures.Benchmark()


def messages(session: Session, size: int) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes that one party sends and receives in each step, as they go over the wire."""
    n, around = session.parties, session.neighbours(0)
    key, signature = bytes(KEY_BYTES), bytes(SIGNATURE_BYTES)
    everyone = range(n)
    keys = {i: party.Announcement(2 * key, signature) for i in everyone}
    boxes = {i: bytes(party.BOX_BYTES) for i in around}
    deals = {i: party.Deal(key, signature, {0: boxes[i]} if i in boxes else {}) for i in everyone}
    dealers = server.Dealers(server.ShareTable(session, key, keys), deals)
    sent = dict.fromkeys(everyone, signature)
    votes = dict.fromkeys(range(session.minimum), signature)
    pieces = {i: bytes(shamir.SHARE_BYTES) for i in session.holders(0)}
    vector = np.zeros(size, f"<u{BITS // 8}")
    place = {"session": session.id.hex(), "round": 0, "attempt": 0}
    asked = {
        "announce": wire.encode("announce", place),
        "deal": wire.encode("deal", place, packets.announcements(keys)),
        "ask": wire.encode("ask", {**place, "counted": [0] * n}, packets.deals(dealers)(0)),
        "agree": wire.encode("agree", place, packets.signatures(sent)),
        "unmask": wire.encode("unmask", place, packets.signatures(votes)),
    }
    own = party.Deal(key, signature, boxes)
    signed = packets.signatures({0: signature})
    said = {
        "announce": wire.encode("announce", {}, packets.announcements({0: keys[0]})),
        "deal": wire.encode("deal", {}, packets.deal(0, own)),
        "ask": wire.encode("masked", {"round": 0}, [vector, *signed]),
        "agree": wire.encode("agree", {}, signed),
        "unmask": wire.encode("unmask", {}, packets.shares(pieces)),
    }
    return (
        {step: len(data) + HEAD_BYTES for step, data in said.items()},
        {step: len(data) for step, data in asked.items()},
    )


def traffic(session: Session, size: int) -> tuple[int, int]:
    """Bytes that one party sends and receives in a round."""
    sent, received = messages(session, size)
    return sum(sent.values()), sum(received.values())


def graphs(size: int, repetitions: int) -> None:
    print(
        f"{size} integers modulo 2^{BITS}, load {os.getloadavg()[0]:.1f}; a party's milliseconds "
        "and bytes"
    )
    print(
        f"{'parties':>8}{'graph':>11}{'masks':>7}{'set-up':>10}{'masking':>10}"
        f"{'sent':>9}{'received':>10}{'streams to open, 5% gone':>26}"
    )
    usual = neighbours.ALL_PAIRS
    for parties in (5, 100, 300, 1000):
        for graph in ("all pairs", "ring")[: 1 if parties <= usual else 2]:
            neighbours.ALL_PAIRS = 10**9 if graph == "all pairs" else usual
            neighbours.choose.cache_clear()
            crowd = people(parties, max(parties * 9 // 10, parties // 2 + 1))
            setup, mask, sent, received = one_party(crowd, size, repetitions)
            gone = parties // 20
            count = (parties - gone) + gone * min(crowd.session.degree, parties - gone)
            print(
                f"{parties:>8}{graph:>11}{crowd.session.degree:>7}{1e3 * setup:>7.0f} ms"
                f"{1e3 * mask:>7.0f} ms{sent - 4 * size:>9}{received:>10}{count:>26}",
                flush=True,
            )
    neighbours.ALL_PAIRS = usual
    neighbours.choose.cache_clear()


def one_party(crowd: People, size: int, repetitions: int) -> tuple[float, float, int, int]:
    dealt, own = party.deal(crowd.states[0], crowd.announcements)
    deals = {0: own, **deals_for_the_first(crowd, dealt)}
    accepted = party.accept(dealt, deals)
    values = share(np.zeros(size, np.int64))
    first, second, third = alternating(
        [
            lambda: party.deal(crowd.states[0], crowd.announcements),
            lambda: party.accept(dealt, deals),
            lambda: party.mask(accepted, values, QUESTION),
        ],
        repetitions,
    )
    return first.wall + second.wall, third.wall, *traffic(crowd.session, size)


def smoke() -> dict[str, float]:
    first, second, sent, received = one_party(people(5, 3), 1000, 1)
    return {"first": first, "second": second, "bytes sent": sent, "bytes received": received}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer integers")
    size = 10**4 if figures.options(parser, smoke).quick else 10**5
    graphs(size, 2)


if __name__ == "__main__":
    main()
