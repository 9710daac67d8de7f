"""What happens when something goes wrong: the rows that the tests assert and the docs print.

Three parties of whom two must survive, three rounds. One fault befalls one message to one party
in the first round; the table says whether its value is still in the sum, how many turns it has paid
for, and whether it takes part in the second round, whose keys and shares travel with the first
round's vectors and signatures. In every case the round is opened, the third round has all parties
again, and no turn is paid for twice.
"""

from typing import NamedTuple

STAGES = {
    "hello": "greeting",
    "announce": "keys",
    "deal": "shares",
    "ask": "masked vector",
    "agree": "survivors",
    "unmask": "opening",
    "finish": "result",
    "plain": "only exchange (no secure sum)",
}
FAULTS = {
    "drop_request": "request lost",
    "drop_reply": "reply lost",
    "delay": "request arrives after the deadline",
    "duplicate": "request arrives twice",
    "reorder": "older request arrives again",
    "replay_reply": "older reply in place of the reply",
    "corrupt_request": "request damaged",
    "corrupt_public": "public values damaged in the request",
    "corrupt_reply": "reply damaged",
    "killed_before": "party killed before it reads the request",
    "killed_after": "party killed before its reply leaves",
}
EVERY = tuple(name for name in FAULTS if name != "corrupt_public")
FIRST = tuple(name for name in EVERY if name not in ("reorder", "replay_reply"))
UNREAD = ("drop_request", "corrupt_request", "killed_before")
UNHEARD = ("drop_reply", "replay_reply", "corrupt_reply", "killed_after")


class Row(NamedTuple):
    """Faults at one stage: is the party's value in the sum, how often did it pay, is it in the
    next round, and why."""

    stage: str
    faults: tuple[str, ...]
    counted: bool
    paid: int
    next: bool
    why: str


ROWS = [
    Row("hello", FIRST, True, 1, True, "it is greeted again before the round begins"),
    Row("announce", (*UNREAD, *UNHEARD, "delay"), False, 0, True, "the round goes on without it"),
    Row("announce", ("duplicate", "reorder"), True, 1, True, "the second one changes nothing"),
    Row("deal", (*UNREAD, *UNHEARD, "delay"), False, 0, True, "the round goes on without it"),
    Row(
        "deal",
        ("duplicate",),
        True,
        1,
        True,
        "each step is answered once: the second request is refused and changes nothing",
    ),
    Row(
        "deal",
        ("reorder",),
        False,
        0,
        True,
        "asked for keys again, it begins anew: what it dealt before is worth nothing",
    ),
    Row("ask", UNREAD, False, 0, True, "the others open the masks that it shares with them"),
    Row(
        "ask",
        (*UNHEARD, "delay", "corrupt_public"),
        False,
        1,
        True,
        "paid and lost: the noise of that turn is gone",
    ),
    Row(
        "ask",
        ("duplicate", "reorder"),
        True,
        1,
        True,
        "each step is answered once: the second request is refused and changes nothing",
    ),
    Row(
        "agree",
        (*UNREAD, *UNHEARD, "delay"),
        True,
        1,
        True,
        "its vector is in, enough others sign; the next round is set up anew",
    ),
    Row(
        "agree",
        ("duplicate",),
        True,
        1,
        True,
        "each step is answered once: the second request is refused and changes nothing",
    ),
    Row(
        "agree",
        ("reorder",),
        True,
        1,
        False,
        "its vector is in; asked for its next keys again, it begins the next round anew",
    ),
    Row(
        "unmask",
        ("killed_before", "killed_after"),
        True,
        1,
        False,
        "its vector is in, enough others open; what it set up for the next round is gone",
    ),
    Row(
        "unmask",
        tuple(n for n in EVERY if not n.startswith("killed")),
        True,
        1,
        True,
        "its vector is in, enough others open",
    ),
    Row("plain", ("drop_request", "killed_before"), False, 0, True, "the round goes on without it"),
    Row(
        "plain",
        (*UNHEARD, "delay", "corrupt_request", "corrupt_public"),
        False,
        1,
        True,
        "paid and lost: the noise of that turn is gone",
    ),
    Row(
        "plain",
        ("duplicate", "reorder"),
        True,
        1,
        True,
        "the first answer counts, a second is refused",
    ),
]


class Refusal(NamedTuple):
    """A party that does not answer: which turns it paid for in three rounds, and what it logs."""

    fault: str
    paid: tuple[int, ...]
    log: str


REFUSALS = {
    "budget": Refusal("its budget does not cover all rounds", (), "Budget exceeded for"),
    "full-disk": Refusal(
        "the disk with its ledger is full in the second round", (0, 2), "the disk is full"
    ),
    "failing-disk": Refusal(
        "the disk fails to confirm the second payment", (0, 1, 2), "what was asked counts as spent"
    ),
    "other-ledger": Refusal(
        "its ledger counts whole parties, the study single records",
        (),
        "the budget counts whole parties",
    ),
    "spent-elsewhere": Refusal(
        "its ledger was used up by another study", (), "Budget exceeded for"
    ),
    "other-key": Refusal("its key is not the one in the roster: it cannot begin", (), ""),
    "other-study": Refusal("it agreed on another study", (), "another session"),
    "policy": Refusal("its policy ends with the first round", (0,), "policy"),
    "other-records": Refusal(
        "it holds fewer records than it agreed on", (0, 1, 2), "agree on the public sizes"
    ),
}


class Stopped(NamedTuple):
    """The server is killed in an exchange of one stage, and started again."""

    stages: tuple[str, ...]
    retries: int
    left_out: int
    happens: str


STOPPED = [
    Stopped(("hello", "announce", "deal", "finish"), 0, 0, "it goes on; no turn is lost"),
    Stopped(("ask", "agree", "unmask"), 0, 1, "the round is left out"),
    Stopped(("hello", "announce", "deal", "finish"), 1, 0, "it goes on; no retry is used"),
    Stopped(("ask", "agree", "unmask"), 1, 0, "the round is tried again with fresh noise"),
]


def table() -> str:
    """The rows as Markdown."""
    lines = [
        "| in the exchange of | fault at one party | its value | it pays for | next round | why |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        faults = "; ".join(FAULTS[name] for name in row.faults)
        counted = "counts" if row.counted else "is missing"
        paid = "one turn" if row.paid else "nothing"
        takes_part = "takes part" if row.next else "sits out"
        cells = STAGES[row.stage], faults, counted, paid, takes_part, row.why
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| a party in whose case | pays for rounds | and logs |", "|---|---|---|"]
    for refusal in REFUSALS.values():
        rounds = ", ".join(str(turn + 1) for turn in refusal.paid) or "none"
        log = f'"… {refusal.log} …"' if refusal.log else "nothing: the server ignores it"
        lines.append(f"| {refusal.fault} | {rounds} | {log} |")
    lines += ["", "| server killed in the exchange of | retries | what happens |", "|---|---|---|"]
    for stopped in STOPPED:
        stages = ", ".join(STAGES[stage] for stage in stopped.stages)
        lines.append(f"| {stages} | {stopped.retries} | {stopped.happens} |")
    return "\n".join(lines)
