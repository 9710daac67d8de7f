"""What each party has spent and has left, and how epsilon grew over the rounds."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.policy import Budget
from unisono.core.trust import Viewer
from unisono.core.wallet import ADAPTIVE
from unisono.core.words import number as upper
from unisono.core.words import remaining, times
from unisono.errors import UnisonoError
from unisono.reports.blocks import Block, Curves, Gauge, Gauges, Part, ReportGrid, Text, shorter
from unisono.reports.reading import RunReading, built_from, listed, number, who
from unisono.studies.build import Built

EVERYONE = "*"  # all viewers saw equally much
_GAUGES = 24  # that a reader still looks at
_POINTS = 20  # of a curve
_UNREAL = (
    "A simulation spends nothing: its ledgers are thrown away, and the gauges show what a real run "
    "would spend."
)


_LESS = (
    "The bar of a run may be shorter than its guarantee: it shows retries only if they were used, "
    "while the ledger charges for all that were planned, and each party counts at the delta of its "
    "own budget."
)


class Account(NamedTuple):
    """What is left of equal budgets, against the viewer against whom least is; `before` and `spent`
    are epsilons of the releases, had they been fixed in advance."""

    parties: tuple[str, ...]
    many: int
    viewer: str
    before: float
    spent: float
    budget: float
    left: float
    free: tuple[str, ...]  # viewers against whom the party sets no limit

    @property
    def label(self) -> str:
        group = f"each of {self.many} parties, such as " if self.many > 1 else ""
        return f"{group}{self.parties[0]}"


def spending(reading: RunReading) -> Part:
    """Gauges, the fullest first."""
    accounts = sorted(accounts_of(reading), key=lambda one: (-_used(one), -one.spent))
    if not accounts:
        return Part(
            "Budgets",
            "budgets",
            [
                Text(
                    "This folder knows no party's budget: each party's own ledger says what "
                    "it has spent."
                )
            ],
        )
    shown, note = shorter(accounts, _GAUGES, "gauges, the fullest first; budgets.json has all")
    gauges = [Gauge(one.label, one.spent, one.budget, _left(one), one.before) for one in shown]
    free = sorted({viewer for one in accounts for viewer in one.free})
    blocks: list[Block] = [
        *([Text(_UNREAL, "warning")] if reading.simulated else []),
        Text(
            f"The length of a bar is a party's budget for one {reading.unit}, over all studies, "
            f"{ADAPTIVE}; its ledger refuses requests that exceed it. Full color is the epsilon of "
            "this run's releases and paler color of earlier ones, had all been fixed in advance. "
            "Beside the bar stands the epsilon of the largest release that still fits, against "
            "the adversary for whom least is left."
        ),
        *([Text(_LESS, "note")] if _less(reading, accounts) else []),
        Gauges(gauges),
        *note,
    ]
    if free:
        blocks.append(Text(f"No limit was set against {listed([who(v) for v in free])}."))
    for title, header, rows in histories(reading.certificate):
        few, note = shorter(rows, _GAUGES, "rows; certificate.json has all")
        blocks += [ReportGrid(title, header, few), *note]
    return Part("Budgets", "budgets", blocks)


def _less(reading: RunReading, accounts: Sequence[Account]) -> bool:
    """Whether somebody paid less than what the report says is promised."""
    promised = [one.epsilon for one in reading.promised.values() if math.isfinite(one.epsilon)]
    most = max(promised, default=0.0)
    return any(one.before == 0 and upper(one.spent) != upper(most) for one in accounts)


# ------------------------------------------------------------- raises, and allowances of a year

History = tuple[str, list[str], list[list[str]]]


def histories(certificate: Mapping[str, Any]) -> list[History]:
    """How budgets became what they are, and what this year has of them, as the certificate says it:
    a title, a header and rows each; nothing where nothing was raised and no year is limited.

    >>> histories({"spending": [{"example": "north", "parties": 1, "raises": [], "year": 2026,
    ...     "this_year": {"server": 0.5}, "per_year": {"server": 2.0},
    ...     "left_this_year": {"server": 1.9}}]})[0][2]
    [['north', '2026', '2', '1.9', '0.5', 'the server']]
    """
    raised, years = [], []
    groups = certificate.get("spending", ())
    for group in groups if isinstance(groups, list | tuple) else ():
        if not isinstance(group, Mapping):
            continue
        many, name = group.get("parties", 1), str(group.get("example", ""))
        party = (
            f"each of {many} parties, such as {name}"
            if isinstance(many, int) and many > 1
            else name
        )
        raised += [[party, *one] for one in map(_raise, _listed(group.get("raises"))) if one]
        if (year := _year(group)) is not None:
            years.append([party, *year])
    found: list[History] = []
    if raised:
        header = ["party", "date", "from", "to", "signed by", "reason"]
        found.append(("Budgets that were raised", header, raised))
    if years:
        header = ["party", "year", "allowance", "left", "releases, had they been fixed", "against"]
        found.append(("Allowances of this year, within the budgets", header, years))
    return found


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _raise(one: Any) -> list[str] | None:
    try:
        budgets = [Budget.from_json(one[end]).words for end in ("from", "to")]
        signer = f"{one['signer']} (key {str(one['key'])[:16]}…)"
        return [str(one["time"])[:10], *budgets, signer, str(one["reason"])]
    except (LookupError, TypeError, ValueError, UnisonoError):
        return None  # a damaged line says nothing


def _year(group: Mapping[str, Any]) -> list[str] | None:
    try:
        limits = {viewer: number(own) for viewer, own in group["per_year"].items()}
        spent = {viewer: number(group["this_year"][viewer]) for viewer in limits}
        known = group.get("left_this_year", {})  # older certificates do not have it
        left = {
            viewer: number(known[viewer]) if viewer in known else max(own - spent[viewer], 0.0)
            for viewer, own in limits.items()
        }
        limits = {viewer: own for viewer, own in limits.items() if math.isfinite(own)}
        worst = min(limits, key=lambda viewer: left[viewer] / (limits[viewer] or math.inf))
        year = str(int(group["year"]))
        shown = [f"{limits[worst]:g}", remaining(left[worst]), upper(spent[worst])]
        return [year, *shown, who(worst)]
    except (LookupError, TypeError, ValueError, AttributeError):
        return None  # no year is limited, or a damaged line says nothing


def accounts_of(reading: RunReading) -> list[Account]:
    """From the parties' ledgers, or from what the certificate says of them."""
    if reading.run.budgets is not None:
        found = [_account((str(one["party"]),), 1, one["viewers"]) for one in reading.run.budgets]
    else:
        found = [
            _account(
                (str(one["example"]),),
                int(one["parties"]),
                {
                    viewer: {
                        "before": 0.0,
                        "spent": spent,
                        "budget": one["budget"][viewer],
                        **({"left": one["left"][viewer]} if "left" in one else {}),
                    }
                    for viewer, spent in one["epsilon"].items()
                },
            )
            for one in reading.certificate.get("spending", ())
        ]
    known = [one for one in found if one is not None]
    return _grouped(known) if len(known) > _GAUGES // 2 else known


def _account(names: tuple[str, ...], many: int, viewers: Mapping[str, Any]) -> Account | None:
    accounts = [
        Account(
            names,
            many,
            viewer,
            number(own.get("before", 0.0)),
            number(own["spent"]),
            number(own["budget"]),
            # Run folders of older versions do not know what is left.
            number(own["left"])
            if "left" in own
            else max(number(own["budget"]) - number(own["spent"]), 0.0),
            (),
        )
        for viewer, own in viewers.items()
    ]
    free = tuple(one.viewer for one in accounts if math.isinf(one.budget))
    limited = [one for one in accounts if one.viewer not in free] or accounts
    if not limited:
        return None
    worst = max(limited, key=_used)
    alike = len(limited) > 1 and len({(one.spent, one.budget) for one in limited}) == 1
    return worst._replace(free=free, viewer=EVERYONE if alike else worst.viewer)


def _grouped(accounts: Sequence[Account]) -> list[Account]:
    groups: dict[Any, list[Account]] = {}
    for one in accounts:
        groups.setdefault((*one[2:],), []).append(one)
    return [
        members[0]._replace(
            parties=tuple(name for one in members for name in one.parties),
            many=sum(one.many for one in members),
        )
        for members in groups.values()
    ]


def _used(one: Account) -> float:
    if math.isinf(one.budget):
        return 0.0
    return 1 - one.left / one.budget if one.budget else math.inf


def _left(one: Account) -> str:
    if math.isinf(one.budget):
        return "no limit set"
    words = f"{remaining(one.left)} left" if one.left > 1e-3 * one.budget else "used up"
    return f"{words}, against {'everyone' if one.viewer == EVERYONE else who(one.viewer)}"


# ------------------------------------------------------------- epsilon over rounds


class Growth(NamedTuple):
    """Epsilon after so many rounds, against viewers who see the same."""

    viewers: tuple[str, ...]
    points: tuple[tuple[float, float], ...]


def growth(reading: RunReading) -> Part:
    """How the promise weakens, round by round."""
    built = reading.built
    if built is None:
        words = (
            "The study file is missing or was written by another version, so the rounds "
            "cannot be accounted for one by one."
        )
        return Part("Epsilon over the rounds", "rounds", [Text(words)])
    return Part("Epsilon over the rounds", "rounds", _growing(built, reading))


def _growing(built: Built, reading: RunReading) -> list[Block]:
    if built.study.facts.attempts(built.study.algorithm.rounds) == 1:
        return [
            Text("This study makes one release: there are no rounds to add up."),
            *_added(reading),
        ]
    known = epsilon_over_rounds(built)
    curves = [one for one in known if math.isfinite(one.points[-1][1])]
    if not curves:
        return [
            Text(
                f"{built.algorithm.name} pays for its whole run at once, whatever "
                "happens in it: there is no smaller price for fewer rounds."
            ),
            *_added(reading),
        ]
    privacy, facts = built.file.privacy, built.study.facts
    rounds = times(built.study.algorithm.rounds, "round")
    retries = f", and {facts.retries} more that may be tried again," if facts.retries else ""
    alike = "" if built.study.algorithm.alike else f" Shown is what {built.file.names[0]} pays."
    training = "" if reading.tested is None else " for the training"
    series = {"everyone" if len(known) == 1 else _names(one.viewers): one.points for one in curves}
    naked = [who(name) for one in known if one not in curves for name in one.viewers]
    bare = f" Not drawn: {'; '.join(naked)}, against whom there is no protection." if naked else ""
    return [
        Text(
            f"Every round shows a little more. Epsilon grows more slowly than the number of "
            f"rounds; after {rounds}{retries} it reaches what was promised{training}.{alike}"
            f"{bare}"
        ),
        Curves(
            "Epsilon after the first rounds",
            series,
            "rounds",
            f"epsilon at delta {privacy.delta:g}, {privacy.relation}",
            reference=(f"promised{training}: {upper(privacy.epsilon)}", privacy.epsilon),
        ),
        *_added(reading),
    ]


def _added(reading: RunReading) -> list[Block]:
    """What the rounds do not hold: the private test after them, and that there is no promise."""
    words = []
    if reading.simulated:
        words.append("This is a simulation: these are the numbers of real noise, not of this run.")
    known = [one.epsilon for one in reading.promised.values() if math.isfinite(one.epsilon)]
    if reading.tested is not None and known:
        words.append(
            f"The private test adds one release of epsilon {reading.tested:g} after the "
            f"last round: together epsilon is at most {upper(max(known))}."
        )
    return [Text(" ".join(words), "warning" if reading.simulated else "")] if words else []


def _names(viewers: Sequence[str]) -> str:
    names = [who(viewer) for viewer in viewers]
    return names[0] if len(names) == 1 else "everyone else" if len(names) > 2 else listed(names)


def epsilon_over_rounds(built: Built) -> list[Growth]:
    """Epsilon of the first so many rounds of a study, for each group of viewers who see the same.

    Empty where an algorithm pays for its whole run only.
    """
    study, privacy = built.study, built.file.privacy
    total = study.facts.attempts(study.algorithm.rounds)
    if total < 2:
        return []
    steps = sorted({1, *(math.ceil(total * k / _POINTS) for k in range(1, _POINTS + 1))})
    try:
        prices = [study.algorithm.cost(study.facts, study.trust, rounds) for rounds in steps]
    except UnisonoError:
        return []
    groups: dict[Any, list[Viewer]] = {}
    for viewer, history in prices[-1].items():
        groups.setdefault(history, []).append(viewer)
    return [
        Growth(
            tuple(map(str, viewers)),
            (
                (0.0, 0.0),
                *(
                    (
                        float(rounds),
                        ACCOUNTANT.epsilon(price[viewers[0]], privacy.relation, privacy.delta),
                    )
                    for rounds, price in zip(steps, prices, strict=True)
                ),
            ),
        )
        for viewers in groups.values()
    ]


@lru_cache(maxsize=32)
def growth_of(study: str) -> tuple[Growth, ...]:
    """The same from a study file's text; empty where it cannot be built."""
    built = built_from(study)
    return () if built is None else tuple(epsilon_over_rounds(built))


__all__ = [
    "Account",
    "Growth",
    "accounts_of",
    "epsilon_over_rounds",
    "growth",
    "growth_of",
    "histories",
    "spending",
]
