"""Who answered when, and what each party has spent against whom."""

import math
from dataclasses import dataclass
from functools import lru_cache

from unisono.dashboard import shapes
from unisono.errors import InvalidInput
from unisono.runs.folder import STUDY, Run
from unisono.studies.source import toml_document

MOST_LINES = 60  # of the timeline in a strip: the latest


@dataclass(frozen=True)
class Spent:
    """One party's ledger against one viewer."""

    party: str
    viewer: str
    relation: str
    delta: float | None
    before: float
    spent: float
    budget: float
    left: float

    @property
    def share(self) -> float:
        """Of the budget; nothing can use up a budget without end."""
        if math.isinf(self.budget):
            return 0.0
        return 1 - self.left / self.budget if self.budget > 0 else math.inf


@dataclass(frozen=True)
class Attendance:
    """Whether a party answered, by line of the timeline."""

    party: str
    answered: tuple[bool, ...]

    @property
    def missed(self) -> int:
        return self.answered.count(False)


def party_names(run: Run) -> list[str]:
    """The parties of a study: from its file, else from whoever was heard of."""
    heard = [shapes.text(one.get("party")) for one in shapes.mappings(run.budgets)]
    for line in (*shapes.mappings(run.timeline), shapes.mapping(run.progress)):
        heard += shapes.names(line.get("answered")) or []
    return [name for name in dict.fromkeys(_agreed(run.study or "") or heard) if name]


@lru_cache(maxsize=1024)
def _agreed(study: str) -> tuple[str, ...]:
    """The parties that a study file names; none where it cannot be read."""
    try:
        parties = toml_document(study, STUDY)[0].get("parties")
    except InvalidInput:
        return ()
    return tuple(shapes.text(one.get("name")) for one in shapes.mappings(parties))


def alive(run: Run) -> int | None:
    """How many parties answered last; None where nobody counts."""
    lines = (shapes.mapping(run.progress), *reversed(shapes.mappings(run.timeline)))
    found = (shapes.names(line.get("answered")) for line in lines)
    return next((len(set(names)) for names in found if names is not None), None)


def attendance(run: Run) -> tuple[list[int | None], list[Attendance]]:
    """Rounds of the latest lines that say who answered, and each party's answers in them."""
    lines = [
        (shapes.whole(line.get("round")), set(answered))
        for line in shapes.mappings(run.timeline)
        if (answered := shapes.names(line.get("answered"))) is not None
    ][-MOST_LINES:]
    rounds = [number for number, _ in lines]
    if not rounds:
        return [], []
    found = [
        Attendance(name, tuple(name in answered for _, answered in lines))
        for name in party_names(run)
    ]
    return rounds, sorted(found, key=lambda one: -one.missed)


def spending(run: Run) -> list[Spent]:
    """Every line of every ledger."""
    return [
        Spent(
            shapes.text(book.get("party")) or "this party",
            viewer,
            shapes.text(book.get("relation")),
            shapes.number(book.get("delta")),
            shapes.number(line.get("before")) or 0.0,
            spent,
            budget,
            # Run folders of older versions do not know what is left.
            max(budget - spent, 0.0) if left is None else left,
        )
        for book in shapes.mappings(run.budgets)
        for viewer, line in _by_viewer(book)
        if (spent := shapes.number(line.get("spent"))) is not None
        and (budget := shapes.number(line.get("budget"))) is not None
        for left in [shapes.number(line.get("left"))]
    ]


def worst(spent: list[Spent]) -> Spent | None:
    """The party and the viewer nearest to the end of a budget."""
    return max(spent, key=lambda one: (one.share, one.spent), default=None)


def viewers(run: Run) -> list[str]:
    """Everyone against whom something is said, in the order in which it is said."""
    certificate = shapes.mapping(run.certificate)
    found = [one.viewer for one in spending(run)]
    found += [shapes.text(g.get("viewer")) for g in shapes.mappings(certificate.get("guarantees"))]
    for message in shapes.mappings(shapes.mapping(run.transcript).get("messages")):
        found += shapes.names(message.get("viewers")) or []
    return [viewer for viewer in dict.fromkeys(found) if viewer]


def _by_viewer(book: dict[str, object]) -> list[tuple[str, dict[str, object]]]:
    lines = shapes.mapping(book.get("viewers"))
    return [(viewer, shapes.mapping(line)) for viewer, line in lines.items()]
