"""A run as a report reads it: numbers instead of words for infinity, and the study built again.

The study is built from the copy of its file, which reads no records and costs nothing. Where that
fails, for instance because the file was written by another version, the report says so and does
without.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import certified_guess
from unisono.core.events import Composed
from unisono.core.success import AttackSuccess, attack_success
from unisono.core.trust import Relation, Trust, Unit, Viewer, describe
from unisono.errors import InvalidInput, UndefinedRelation, UnisonoError
from unisono.reports.state import simulated
from unisono.runs.folder import Run
from unisono.studies.build import Built, build
from unisono.studies.file import parse_study
from unisono.studies.schema import StudyFile


@dataclass(frozen=True)
class ShownGuarantee:
    """Epsilon at a delta, against one viewer, under one relation, and the success probability of
    the best attack that tells two neighbors apart, at most."""

    viewer: str
    relation: str
    epsilon: float
    delta: float
    guess: float


@dataclass(frozen=True)
class RunReading:
    """A run, and what follows from its documents; see the properties."""

    run: Run

    @cached_property
    def file(self) -> StudyFile | None:
        """The study file, where there is one that this version reads."""
        return None if self.run.study is None else _parsed(self.run.study)

    @cached_property
    def built(self) -> Built | None:
        """The study; building reads no records."""
        return None if self.run.study is None else built_from(self.run.study)

    @cached_property
    def certificate(self) -> Mapping[str, Any]:
        return self.run.certificate or {}

    @property
    def planned(self) -> bool:
        """Whether guarantees are those of the plan, as the run has no certificate yet."""
        return self.run.certificate is None

    @cached_property
    def guarantees(self) -> Sequence[ShownGuarantee]:
        """As certified; before there is a certificate, as planned. Both hold the whole run: the
        training and, where the study asks for one, the private test."""
        if self.run.certificate is not None:
            certified = [
                ShownGuarantee(
                    str(one["viewer"]),
                    str(one["relation"]),
                    number(one["epsilon"]),
                    number(one["delta"]),
                    certified_guess(one),
                )
                for one in self.certificate["guarantees"]
            ]
            return certified if self.tested is None else [self._whole(one) for one in certified]
        if self.built is None:
            return []
        delta, costs = self.built.file.privacy.delta, self.built.costs
        return [
            ShownGuarantee(str(viewer), str(relation), epsilon, delta, guess)
            for viewer, history in costs[0].items()
            for relation in history.relations
            for epsilon, guess in _worst(costs, viewer, relation, delta)
        ]

    def _whole(self, certified: ShownGuarantee) -> ShownGuarantee:
        """With the private test, which certificates of older versions left out."""
        costs = self.built.costs if self.built else ()
        found = [
            both
            for viewer in (costs[0] if costs else ())
            for relation in costs[0][viewer].relations
            if (str(viewer), str(relation)) == (certified.viewer, certified.relation)
            for both in _worst(costs, viewer, relation, certified.delta)
        ]
        epsilon, guess = map(max, zip((certified.epsilon, certified.guess), *found, strict=True))
        return replace(certified, epsilon=epsilon, guess=guess)

    @cached_property
    def relation(self) -> str:
        """The relation that the study promises, or the first that is certified."""
        if self.file is not None:
            return str(self.file.privacy.relation)
        settings = self.certificate.get("settings")
        promised = settings.get("privacy") if isinstance(settings, Mapping) else None
        asked = promised.get("relation") if isinstance(promised, Mapping) else None
        if any(one.relation == asked for one in self.guarantees):
            return str(asked)
        return self.guarantees[0].relation if self.guarantees else str(Relation.REPLACE_ONE)

    @cached_property
    def promised(self) -> Mapping[str, ShownGuarantee]:
        """The guarantee against each viewer, under the study's own relation."""
        return {one.viewer: one for one in self.guarantees if one.relation == self.relation}

    def success(self, against: Iterable[ShownGuarantee]) -> AttackSuccess:
        """What the best attack on one unit can infer, by any of these viewers."""
        viewers = {one.viewer for one in against}
        lines = [one for one in self.guarantees if one.viewer in viewers]
        found = attack_success(lines, self.relation, self.unit)
        return found or AttackSuccess(self.relation, self.unit, 1.0, 1.0)

    @cached_property
    def trust(self) -> str:
        """Where noise was added; empty where nobody says."""
        given = self.certificate.get("trust") or (self.file and self.file.trust.mode) or ""
        return str(given) if str(given) in set(Trust) else ""

    @cached_property
    def unit(self) -> str:
        given = self.certificate.get("unit") or (self.file and self.file.privacy.unit)
        return str(given or Unit.RECORD)

    @cached_property
    def algorithm(self) -> str:
        found = (self.run.result or {}).get("algorithm") or self.certificate.get("algorithm")
        return str(found or (self.file.algorithm.name if self.file else ""))

    @cached_property
    def printed(self) -> str:
        """What a publication claims of the run's noise, and the truth; empty if it was calibrated.
        Before there is a certificate, as planned."""
        if self.run.certificate is not None:
            return str(self.certificate.get("printed", ""))
        printed = None if self.built is None else self.built.study.algorithm.printed
        if printed is None:
            return ""
        finite = [one.epsilon for one in self.promised.values() if math.isfinite(one.epsilon)]
        return printed.words(max(finite, default=math.inf))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The parties that are known by name."""
        if self.file is not None:
            return self.file.names
        return tuple(str(one["party"]) for one in self.run.budgets or ())

    @cached_property
    def parties(self) -> int:
        return int(self.certificate.get("parties") or len(self.names))

    @cached_property
    def colluders(self) -> int:
        """With how many parties the server may work together before the promise ends."""
        planned = self.file.colluders if self.file else 0
        return int(self.certificate.get("colluders", planned))

    @property
    def simulated(self) -> bool:
        return simulated(self.run)

    @cached_property
    def tested(self) -> float | None:
        """Epsilon of the private test, where the study asks for one."""
        if self.built is None or self.built.test is None or self.built.file.evaluation is None:
            return None
        return self.built.file.evaluation.epsilon

    @property
    def failed(self) -> str:
        """Why nothing came out; empty where something did, or may yet."""
        words = (self.run.result or {}).get("failed") or self.run.heading.error
        if words:
            return str(words)
        return "it did not say why" if self.run.heading.state == "failed" else ""


def _parsed(study: str) -> StudyFile | None:
    try:
        return parse_study(study)
    except UnisonoError:
        return None


@lru_cache(maxsize=8)
def built_from(study: str) -> Built | None:
    """The study that a file's text describes, or None where this version cannot build it."""
    file = _parsed(study)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # whoever ran it was warned
            return None if file is None else build(file)
    except UnisonoError:
        return None


def _worst(
    costs: Sequence[Mapping[Viewer, Composed]], viewer: Viewer, relation: Relation, delta: float
) -> list[tuple[float, float]]:
    """Epsilon and success probability, of the party that pays most; nothing where the relation has
    no guarantee."""
    try:
        different = dict.fromkeys(cost[viewer] for cost in costs)
        epsilon = max(ACCOUNTANT.epsilon(one, relation, delta) for one in different)
        return [(epsilon, max(ACCOUNTANT.guess(one, relation, delta) for one in different))]
    except UndefinedRelation:
        return []


def number(value: Any) -> float:
    """A number of a document, in which infinity is a word.

    >>> number("inf"), number(2)
    (inf, 2.0)
    """
    found = float(value)
    if math.isnan(found):
        raise ValueError("not a number")
    return found


def share(value: Any) -> str:
    """A share in percent.

    >>> share(0.95), share(0.999)
    ('95 %', '99.9 %')
    """
    return f"{100 * number(value):.4g} %"


def who(viewer: str) -> str:
    """Plain words for a viewer, whatever a document calls it."""
    try:
        return describe(Viewer(viewer))
    except InvalidInput:
        return viewer


def listed(words: Sequence[str], most: int = 6) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], 2)
    ('a, b and c', 'a, b and 2 more')
    """
    shown = list(words) if len(words) <= most else [*words[:most], f"{len(words) - most} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


__all__ = ["RunReading", "ShownGuarantee", "built_from", "listed", "number", "share", "who"]
