"""The certificate of a run: what is guaranteed, against whom, under which assumptions.

It is written from the study's public facts and the ledgers alone, as JSON for machines
and as text for people.
"""

import json
import math
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from typing import Any

from markupsafe import Markup

from unisono.core import notebook
from unisono.core.collector import collector_paused
from unisono.core.events import Composed, composed_to_json
from unisono.core.ledger import Accountant, Ledger
from unisono.core.policy import Budget
from unisono.core.raises import Raise
from unisono.core.success import attack_success
from unisono.core.trust import Relation, Trust, Unit, Viewer, describe
from unisono.core.wallet import ADAPTIVE
from unisono.core.words import budget_guess, clean, number, remaining
from unisono.errors import UndefinedRelation, UnknownEvent

# The declaration that an evaluated model, which is not of Unisono, treats each row by itself.
ROWWISE = "model_predicts_each_row_by_itself"


@dataclass(frozen=True)
class Line:
    """Epsilon at one delta, against one viewer, under one neighboring relation. `guess` is the
    success probability of the best attack that tells two neighbors apart, which the events bound
    more closely than epsilon does; `success` puts it into words."""

    viewer: Viewer
    relation: Relation
    epsilon: float
    delta: float
    guess: float


@dataclass(frozen=True)
class Spending:
    """How many parties have this history, and what is left of their budgets per viewer, for one
    unit of the budget: a record, where what hides a whole party is paid from a budget that counts
    records.

    The budget is what is guaranteed, however requests are chosen; `left` is the epsilon of the
    largest single release that still fits, `epsilon` that of all releases, had they been fixed in
    advance. `older` are viewers against whom releases of an older version may exceed the budget.
    `issued` is the budget with which the ledger began, `raises` all that raised it since. Where
    spending is paced, `year` is the calendar year, with its own composition and allowance."""

    parties: int
    example: str
    unit: str
    epsilon: Mapping[Viewer, float]
    budget: Mapping[Viewer, float]
    left: Mapping[Viewer, float]
    issued: Budget
    raises: tuple[Raise, ...] = ()
    year: int | None = None
    this_year: Mapping[Viewer, float] = field(default_factory=dict)
    per_year: Mapping[Viewer, float] = field(default_factory=dict)
    left_this_year: Mapping[Viewer, float] = field(default_factory=dict)
    older: tuple[Viewer, ...] = ()

    @property
    def worst(self) -> Viewer:
        """Against whom least is left of a limited budget."""
        limited = [viewer for viewer, own in self.budget.items() if math.isfinite(own)]
        return min(
            limited or self.budget, key=lambda v: (self.left[v] / self.budget[v], -self.epsilon[v])
        )

    @property
    def who(self) -> str:
        if self.parties == 1:
            return self.example
        return f"each of {self.parties} parties, such as {self.example}"


@dataclass(frozen=True)
class Certificate:
    """Everything a reader needs to know what was promised; see `text` and `to_json`."""

    study: str
    algorithm: str
    settings: Mapping[str, Any]
    trust: Trust
    parties: int
    minimum_parties: int
    colluders: int
    unit: str
    events: Mapping[Viewer, Composed]
    lines: Sequence[Line]
    spending: Sequence[Spending]
    declarations: Mapping[str, Any]
    simulated: bool
    heads: Mapping[str, str]
    secure_sum: str
    versions: Mapping[str, str]
    transport: str = ""
    file: str = ""
    result: str = ""
    printed: str = ""

    def epsilon(self, viewer: Viewer, relation: Relation) -> float:
        """Epsilon of the whole run against a viewer."""
        for line in self.lines:
            if (line.viewer, line.relation) == (viewer, relation):
                return line.epsilon
        raise UndefinedRelation(f"the certificate says nothing about {viewer} under {relation!s}")

    def to_json(self) -> dict[str, Any]:
        return {
            "format": "unisono-certificate-1",
            "study": self.study,
            "file": self.file,
            "result": self.result,
            "algorithm": self.algorithm,
            "settings": dict(self.settings),
            "trust": str(self.trust),
            "parties": self.parties,
            "minimum_parties": self.minimum_parties,
            "colluders": self.colluders,
            "unit": self.unit,
            "guarantees": [
                {
                    "viewer": str(line.viewer),
                    "relation": str(line.relation),
                    "epsilon": _number(line.epsilon),
                    "delta": line.delta,
                    "guess": line.guess,
                }
                for line in self.lines
            ],
            "events": {str(v): composed_to_json(h) for v, h in self.events.items()},
            "spending": [
                {
                    "parties": s.parties,
                    "example": s.example,
                    "unit": s.unit,
                    "epsilon": {str(v): _number(e) for v, e in s.epsilon.items()},
                    "budget": {str(v): _number(e) for v, e in s.budget.items()},
                    "left": {str(v): _number(e) for v, e in s.left.items()},
                    "issued": s.issued.to_json(),
                    "raises": [one.to_json() for one in s.raises],
                    "year": s.year,
                    "this_year": {str(v): _number(e) for v, e in s.this_year.items()},
                    "per_year": {str(v): _number(e) for v, e in s.per_year.items()},
                    "left_this_year": {str(v): _number(e) for v, e in s.left_this_year.items()},
                    "older": [str(v) for v in s.older],
                }
                for s in self.spending
            ],
            "declarations": dict(self.declarations),
            "entropy": "simulation" if self.simulated else "os",
            "secure_sum": self.secure_sum,
            "transport": self.transport,
            "ledger_heads": dict(self.heads),
            "versions": dict(self.versions),
            **({"printed": self.printed} if self.printed else {}),
        }

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.to_json(), file, indent=1, allow_nan=False)

    def text(self) -> str:
        """The certificate for people."""
        rows = [
            "CERTIFICATE" + (" (SIMULATION: seeded noise, no privacy)" if self.simulated else ""),
            f"  study      {self.study[:16]}…  {self.algorithm}",
            *([f"  agreed on  file {self.file[:16]}…"] if self.file else []),
            *(
                [f"  result     {self.result[:16]}…, in every party's certificate the same"]
                if self.result
                else []
            ),
            *([f"  AS PRINTED {self.printed}"] if self.printed else []),
            f"  trust      {self.trust}: {TRUST_WORDS[self.trust]}",
            f"  parties    {self.parties}, at least {self.minimum_parties} answer, "
            f"{self.colluders} may collude",
            f"  protects   one {self.unit}"
            + "".join(
                f"{s} {k.replace('_', ' ')}: {v}"
                for s, (k, v) in zip(("; assuming", ","), self.declarations.items(), strict=False)
            ),
        ]
        if queried := self.declarations.get("rows_of_queries"):
            rows.append(f"  a record   is a row of the party's own query: {', '.join(queried)}")
        if said := self.declarations.get(ROWWISE):
            rows.append(f"  rests on   the model predicting each row by itself (rowwise), {said}")
        if self.secure_sum:
            rows.append(f"  secure sum {self.secure_sum}")
        if self.transport:
            rows.append(f"  rests on   {self.transport}")
        rows.append("  epsilon of this run, at most:")
        relations = [r for r in Relation if any(line.relation == r for line in self.lines)]
        width = max(len(describe(line.viewer)) for line in self.lines)
        rows.append(
            "  " + " " * width + "".join(f"{r!s:>14}" for r in relations) + f"{'at delta':>9}"
        )
        for viewer in dict.fromkeys(line.viewer for line in self.lines):
            row = f"  {describe(viewer):<{width}}"
            for relation in relations:
                found = [
                    line.epsilon
                    for line in self.lines
                    if (line.viewer, line.relation) == (viewer, relation)
                ]
                row += f"{_shown(found[0]) if found else '-':>14}"
            delta = next(line.delta for line in self.lines if line.viewer == viewer)
            rows.append(f"{row}{delta:>9g}")
        if not self.simulated and relations:
            rows.append(f"  in words   {self._words()}")
        if self.spending:
            rows.append(f"  budgets of the ledgers, {ADAPTIVE}:")
        for spending in self.spending:
            if not spending.epsilon:
                rows.append(f"    {spending.example} has spent nothing")
                rows += _budget_rows(spending)
                continue
            worst = spending.worst
            rows.append(
                f"    {spending.who}: {_limit(spending.budget[worst])}, of which "
                f"{_left(spending.left[worst])} is left, against {describe(worst)}"
                + ("" if spending.unit == self.unit else f", for one {spending.unit}")
            )
            rows.append(
                "      all releases so far, had they been fixed in advance: epsilon "
                f"{_shown(spending.epsilon[worst])}"
            )
            rows += _budget_rows(spending)
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        return notebook.shown(
            f"Certificate: {self.algorithm}", *self.as_parts(), simulated=self.simulated
        )

    def as_parts(self, words: bool = True) -> list[Markup]:
        """The same as HTML, for whatever was released under it; without `words` where they stand
        beside it."""
        relations = [r for r in Relation if any(line.relation == r for line in self.lines)]
        silent = self.simulated or not (relations and words)
        said = "" if silent else self._words()
        found = {(line.viewer, line.relation): _shown(line.epsilon) for line in self.lines}
        deltas = {line.viewer: line.delta for line in self.lines}
        epsilons = [
            [describe(viewer), *(found.get((viewer, one), "-") for one in relations), f"{delta:g}"]
            for viewer, delta in deltas.items()
        ]
        head = ["", *(f"epsilon, {one!s}" for one in relations), "at delta"]
        return [
            notebook.sentence(f"{said[:1].upper()}{said[1:]}." if said else ""),
            notebook.sentence(f"As printed: {self.printed}" if self.printed else "", "warning"),
            notebook.grid(head, epsilons, f"This run shows of one {self.unit}, at most, to"),
            *self._spent_html(),
            notebook.folded("Study, trust and assumptions", notebook.facts(self._stated())),
        ]

    def _spent_html(self) -> list[Markup]:
        """What is left of the parties' budgets, against the viewer against whom least is."""
        rows = []
        for one in self.spending:
            who = one.who
            if not one.epsilon:
                rows.append([who, "nothing is spent"])
                continue
            worst = one.worst
            limit, left, fixed = one.budget[worst], one.left[worst], _shown(one.epsilon[worst])
            said = f"{_left(left)} of {_limit(limit)} left"
            gauge = notebook.gauge(limit - left if math.isfinite(limit) else 0.0, limit, who)
            rows.append([who, said, gauge, fixed, describe(worst)])
        head = ["ledger", "epsilon", "", "all releases, had they been fixed in advance", "against"]
        caption = f"Budgets of the ledgers, {ADAPTIVE}"
        return [notebook.grid(head, rows, caption)] if rows else []

    def _stated(self) -> dict[str, str]:
        """Facts and assumptions by name."""
        said = ", ".join(f"{k.replace('_', ' ')}: {v}" for k, v in self.declarations.items())
        return {
            "study": self.study,
            "file agreed on": self.file,
            "result": self.result,
            "trust": f"{self.trust}: {TRUST_WORDS[self.trust]}",
            "parties": f"{self.parties}, at least {self.minimum_parties} answer, "
            f"{self.colluders} may collude",
            "assumed": said,
            "secure sum": self.secure_sum,
            "rests on": self.transport,
            "versions": ", ".join(f"{name} {own}" for name, own in self.versions.items()),
        }

    @property
    def _in_force(self) -> Relation:
        """The neighboring relation in force: the study's own, if something is known under it
        against everybody; else the first one of which this is true."""
        everybody = {line.viewer for line in self.lines}
        known = [one for one in Relation if any(line.relation is one for line in self.lines)]
        whole = [
            one
            for one in known
            if {line.viewer for line in self.lines if line.relation is one} == everybody
        ]
        asked = self.settings.get("privacy", {}).get("relation")
        return next((one for one in whole if one == asked), (whole or known)[0])

    def _words(self) -> str:
        """The success probability of the best attack, against whom something is promised."""
        relation = self._in_force
        found = attack_success(self.lines, relation, self.unit)
        if found is None:
            return "nothing is promised to anybody"
        own = [line for line in self.lines if line.relation is relation]
        exposed = [describe(line.viewer) for line in own if math.isinf(line.epsilon)]
        none = f"; nothing is promised against {' or '.join(exposed)}" if exposed else ""
        return f"{found.words}{none}"


def _budget_rows(spending: Spending) -> list[str]:
    """How the budget became what it is, and what this year has of it."""
    rows = []
    if spending.raises:
        rows.append(f"      the budget began with {spending.issued.words}")
    rows += [
        f"      raised on {one.time[:10]} to {one.budget.words}, signed by {clean(one.signer)} "
        f"(key {one.key[:16]}…): {clean(one.reason)}"
        for one in spending.raises
    ]
    if spending.per_year:
        left = spending.left_this_year
        worst = min(left, key=lambda v: left[v])
        rows.append(
            f"      in {spending.year}: {_left(left[worst])} of this year's "
            f"{_shown(spending.per_year[worst])} is left against {describe(worst)}"
        )
    if spending.older:
        rows.append(
            "      releases from before budgets held under adaptive use may exceed the budget "
            f"against {', '.join(map(describe, spending.older))}"
        )
    return rows


def _limit(epsilon: float) -> str:
    return f"epsilon {number(epsilon)}" if math.isfinite(epsilon) else "no limit"


def _left(epsilon: float) -> str:
    return remaining(epsilon) if math.isfinite(epsilon) else "everything"


TRUST_WORDS = {
    Trust.LOCAL: "every party adds all of its noise itself",
    Trust.SECURE_SUM: "the server learns only sums that already hold the noise",
    Trust.TRUSTED_SERVER: "the server sees clean values and adds the noise",
}


def certified_guess(line: Mapping[str, Any]) -> float:
    """The success probability of the best attack that tells two neighbors apart: as certified, or,
    by a certificate of an older version, as epsilon alone bounds it."""
    if "guess" in line:
        return float(line["guess"])
    return budget_guess(float(line["epsilon"]), float(line["delta"]))


@collector_paused()
def certify(
    study: Any,
    ledgers: Mapping[str, Ledger],
    accountant: Accountant,
    secure_sum: str = "",
    delta: float | None = None,
    transport: str = "",
    costs: Sequence[Mapping[Viewer, Composed]] | None = None,
    file: str = "",
    result: str = "",
    spending: bool = True,
) -> Certificate:
    """Write the certificate of a study from its public facts and the parties' ledgers.

    Whoever holds no ledger, such as the server, certifies at the study's own `delta` what the run
    shows; what parties have spent before is in their certificates. `transport` says what the
    guarantee also rests on; `costs` is what is shown of each party where that is more than the
    study's own, as with a test of its result. `file` is the hash of the file that was agreed on:
    names and bounds of columns are in it, and not in the study. `result` is the hash of what came
    out, where several machines took part: whoever compares it knows that all were told the same.
    Without `spending` nothing is said of what ledgers have paid before, which takes as long to add
    up as their histories are varied.
    """
    facts, trust = study.facts, study.trust
    costs = study.costs if costs is None else costs
    kinds = list({id(one): one for one in costs}.values())  # parties may pay differently
    books = ledgers.values()
    policies = {(b.policy.budget, b.policy.exceptions): b.policy for b in books}.values()
    stated = min((p.budget.delta for p in policies), default=delta or 0.0)
    cost = _largest(accountant, kinds, stated)
    lines = [
        Line(viewer, relation, epsilon, at, guess)
        for viewer, history in cost.items()
        # The strictest party's delta, whose epsilon is the largest.
        for at in [min((p.budget_for(viewer).delta for p in policies), default=delta or 0.0)]
        for relation, epsilon, guess in _worst(
            accountant, [one[viewer] for one in kinds], history, at
        )
    ]
    event = next(iter(cost.values())).parts[0][0]
    return Certificate(
        study=study.hash,
        algorithm=study.algorithm.name,
        settings=study.algorithm.settings,
        trust=trust,
        parties=facts.parties,
        minimum_parties=facts.minimum_parties,
        colluders=facts.colluders,
        unit=str(event.sensitivity.unit),
        events=cost,
        lines=lines,
        spending=_spending(ledgers) if spending else [],
        declarations=_declarations(books, event.sensitivity.unit, facts.person_at_parties)
        | _rows(books),
        simulated=any(ledger.simulated for ledger in ledgers.values()),
        heads={name: ledger.head for name, ledger in list(ledgers.items())[:100]},
        secure_sum=secure_sum,
        versions=_versions(),
        transport=transport,
        file=file,
        result=result,
        printed=_printed(study.algorithm, lines),
    )


def _printed(algorithm: Any, lines: Sequence[Line]) -> str:
    """What a publication claims of this noise, beside the most that is lost to anybody against
    whom something is promised."""
    if algorithm.printed is None:
        return ""
    own = [line.epsilon for line in lines if line.relation is algorithm.privacy.relation]
    finite = [epsilon for epsilon in own if math.isfinite(epsilon)]
    return str(algorithm.printed.words(max(finite, default=math.inf)))


def _largest(
    accountant: Accountant, kinds: Sequence[Mapping[Viewer, Composed]], delta: float
) -> Mapping[Viewer, Composed]:
    """The cost of a party of which most is shown: its events are stated."""
    if len(kinds) == 1:
        return kinds[0]

    def shown(cost: Mapping[Viewer, Composed]) -> float:
        found = (
            epsilon
            for history in cost.values()
            for _, epsilon, _ in _worst(accountant, [history], history, delta)
        )
        return max((epsilon for epsilon in found if math.isfinite(epsilon)), default=math.inf)

    return max(kinds, key=shown)


def _declarations(books: Collection[Ledger], unit: Unit, person_at_parties: int) -> dict[str, Any]:
    """What the parties declared about their records; a hidden person or party hides all of its
    own."""
    if not books:
        return {}
    disjoint = {"parties_disjoint": all(book.policy.parties_disjoint for book in books)}
    if unit is Unit.PERSON and person_at_parties > 1:  # what is stated holds at so many
        return {"person_at_parties": person_at_parties}
    if unit is not Unit.RECORD:
        return disjoint
    return {"records_per_person": max(book.policy.records_per_person for book in books)} | disjoint


def _rows(books: Collection[Ledger]) -> dict[str, Any]:
    """Whose records are the rows of their own queries."""
    queried = sorted(book.policy.dataset for book in books if book.policy.queried)
    return {"rows_of_queries": queried} if queried else {}


def _worst(
    accountant: Accountant, histories: Sequence[Composed], shown: Composed, delta: float
) -> list[tuple[Relation, float, float]]:
    """The largest epsilon of these histories, and the largest success probability of an attack,
    under each relation that `shown` has; nothing where a relation has no guarantee, or none that is
    known while another's is: secret samples in a search by random stopping are accounted for under
    zero-out, and not under replace-one."""
    found, unknown = [], None
    for relation in shown.relations:
        try:
            epsilon = max(accountant.epsilon(history, relation, delta) for history in histories)
            guess = max(accountant.guess(history, relation, delta) for history in histories)
        except UndefinedRelation:
            continue
        except UnknownEvent as error:
            unknown = error
            continue
        found.append((relation, epsilon, guess))
    if unknown is not None and not found:
        raise unknown
    return found


def _spending(ledgers: Mapping[str, Ledger]) -> list[Spending]:
    """One line per distinct history: accounting cost does not grow with equal parties."""
    groups: dict[Any, list[str]] = {}
    for name, ledger in ledgers.items():
        groups.setdefault(ledger.spending_key, []).append(name)
    return [_spending_of(names, ledgers[names[0]]) for names in groups.values()]


def _spending_of(names: Sequence[str], book: Ledger) -> Spending:
    budgets = {viewer: book.policy.budget_for(viewer) for viewer in book.viewers}
    per_year = {v: own.per_year for v, own in budgets.items() if own.per_year is not None}
    return Spending(
        parties=len(names),
        example=names[0],
        unit=str(book.policy.unit),
        epsilon={v: book.spent(v) for v in budgets},
        budget={v: own.epsilon for v, own in budgets.items()},
        left={v: book.left(v).epsilon for v in budgets},
        issued=book.issued,
        raises=book.raises,
        year=book.year if book.policy.paced else None,
        this_year={v: book.spent_this_year(v) for v in per_year},
        per_year=per_year,
        left_this_year={v: book.left_this_year(v).epsilon for v in per_year},
        older=book.older,
    )


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value


def _shown(value: float) -> str:
    """An upper bound, rounded up."""
    return "no protection" if math.isinf(value) else number(value)


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("unisono", "numpy", "scipy", "jax"):
        found[package] = metadata.version(package)
    return found
