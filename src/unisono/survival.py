"""Kaplan-Meier curves of arrays, in one call.

    book = unisono.open_ledger("trial.ledger", dataset="trial", epsilon=3.0, delta=1e-6)
    curves = unisono.KaplanMeier(horizon=60.0, labels=["placebo", "drug"])
    curves.fit(months, died, groups=arm, epsilon=1.0, delta=1e-6, ledger=book)
    print(curves)

The horizon and the names of groups are public, and never read from the data. Names of fitted
attributes are those of lifelines.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.survival_curves import as_text
from unisono.core.certificate import Certificate, certify
from unisono.core.costs import added
from unisono.core.defaults import default_trust
from unisono.core.ledger import Ledger
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data import as_text as category_text
from unisono.data import listed
from unisono.data.schema import Schema
from unisono.engines import in_process
from unisono.errors import ClippedValues, InvalidInput, warn
from unisono.estimators.members import facts_of, given_ledgers, membership, public_sizes
from unisono.models.kaplan_meier import EVERYONE, KAPLAN_MEIER
from unisono.models.model import Posed
from unisono.releases.algorithm import AlgorithmKind
from unisono.releases.together import together

_TIME, _EVENT, _GROUP = "time", "event", "group"


class KaplanMeier:
    """Survival curves with pointwise intervals and simultaneous bands, by group.

    `horizon` is where curves end: whoever is seen later counts as having outlasted it. `labels`
    name the groups. `bins` are equal intervals of time, by a rule where they are left out.
    """

    def __init__(
        self,
        *,
        horizon: float,
        labels: Sequence[Any] | None = None,
        bins: int | None = None,
        log_rank: bool = True,
        confidence: float = 0.95,
    ) -> None:
        self.horizon, self.labels, self.bins = horizon, labels, bins
        self.log_rank, self.confidence = log_rank, confidence

    def fit(
        self,
        durations: Any,
        event_observed: Any = None,
        groups: Any = None,
        *,
        epsilon: float,
        ledger: Ledger | Mapping[Any, Ledger],
        delta: float = 0.0,
        parties: Any = None,
        trust: str | Trust | None = None,
        records: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
    ) -> "KaplanMeier":
        """Times (n,), whether the event happened then (n,), by default always, and the group of
        each record (n,). `parties` (n,) says whose each record is, where there are several, each
        with its `ledger`. Under add-or-remove `records` is a public number of them for each party.

        A record whose time is negative or missing, or whose group is none of the labels, counts
        nowhere, and a warning says so here. The table and the test are one promise of epsilon.
        """
        horizon = float(self.horizon)
        if not 0 < horizon < np.inf:
            raise InvalidInput(
                f"horizon = {self.horizon!r}: give a public time above zero at which curves end"
            )
        names = _names(self.labels, groups)
        columns = _columns(durations, event_observed, groups, names)
        schema = _schema(horizon, names)
        config = KAPLAN_MEIER.configured(
            event=_EVENT,
            by=_GROUP if names else None,
            horizon=horizon,
            bins=self.bins,
            log_rank=bool(self.log_rank),
            confidence=float(self.confidence),
        )
        members = membership(parties, len(columns[_TIME]))
        ledgers = given_ledgers(ledger, members, None)
        relation = ledgers[0].policy.relation
        chosen = default_trust(len(members.names)) if trust is None else Trust(trust)
        facts = facts_of(
            public_sizes(records, members, relation),
            3,
            chosen,
            relation,
            minimum_parties,
            colluders,
        )
        promise = Privacy(epsilon, delta, relation)
        from unisono.algorithms.registry import algorithm_named

        kind = algorithm_named(
            KAPLAN_MEIER.choose(config, schema, promise, ledgers[0].policy.unit).algorithm
        )

        def made(kind: AlgorithmKind, part: Privacy) -> tuple[Posed, Study]:
            posed = KAPLAN_MEIER.pose(config, schema, kind, part)
            return posed, Study(kind.method(posed.problem, part, **posed.settings), facts, chosen)

        posed, study = made(kind, promise)
        stages = [study]
        if study.method.earlier is not None:
            before, share = study.method.earlier
            (_, first), (posed, study) = together(
                promise,
                share,
                lambda part: made(before, part),
                lambda part: made(kind, part),
                lambda one, other: (one[1].costs, other[1].costs),
            )
            stages = [first, study]
        rows = posed.encode(columns)[0].astype(np.float32)
        members_of = list(zip(members.names, members.rows, ledgers, strict=True))
        people = [Party(name, Private((rows[own],), name), book) for name, own, book in members_of]
        cost = added([one.cost for one in stages])
        Ledger.check_all(ledgers, cost)  # all of it, before the first release
        found: Any = None
        for stage in stages:
            begun = stage if found is None else stage.begun(found.value)
            found = in_process.run(begun, people, purpose="Kaplan-Meier")
        result: Result = found
        certificate = certify(
            study,
            {name: book for name, _, book in members_of},
            ledgers[0].accountant,
            secure_sum=result.certificate.secure_sum,
            costs=[cost] * len(members_of),
        )
        self._fitted(posed.present(study, result), certificate)
        return self

    def _fitted(self, shown: Mapping[str, Any], certificate: Certificate) -> None:
        figures = shown["kaplan_meier"]
        curves = figures["groups"]
        self.figures_, self.note_, self.certificate_ = figures, shown["note"], certificate
        first = next(iter(curves.values()))
        self.timeline_ = np.array(first["times"])
        self.survival_function_ = {name: _floats(own["survival"]) for name, own in curves.items()}
        self.confidence_interval_ = {
            name: np.array(own["interval"]).T for name, own in curves.items()
        }
        self.confidence_band_ = {name: np.array(own["band"]).T for name, own in curves.items()}
        medians = {name: _value(own["median"]) for name, own in curves.items()}
        means = {name: _value(own["restricted_mean"]) for name, own in curves.items()}
        alone = list(curves) == [EVERYONE]
        self.median_survival_time_ = medians[EVERYONE] if alone else medians
        self.restricted_mean_survival_time_ = means[EVERYONE] if alone else means
        self.log_rank_ = figures.get("log_rank")

    def to_json(self) -> dict[str, Any]:
        """All of it, fit for plotting."""
        return dict(self.figures_)

    @property
    def text(self) -> str:
        return f"{as_text(self.figures_)}\n{self.note_}"

    @property
    def epsilon_(self) -> float:
        """What the fit cost, against the viewer who sees most."""
        return self._released.epsilon

    @property
    def _released(self) -> Estimate:
        return Estimate("Kaplan-Meier", 0.0, (0.0, 0.0), 0.95, "", self.certificate_)

    def __str__(self) -> str:
        if not hasattr(self, "figures_"):
            return repr(self)
        guarantee = str(self._released).removeprefix(self._released.text).lstrip("\n")
        return f"{self.text}\n{guarantee}"


def _names(labels: Sequence[Any] | None, groups: Any) -> tuple[str, ...]:
    if groups is None:
        if labels is not None:
            raise InvalidInput("labels name groups, and fit got none: give groups, or no labels")
        return ()
    if labels is None:
        raise InvalidInput(
            "the groups' names are public, and never read from the data: name them, as "
            "KaplanMeier(labels=['placebo', 'drug'], ...)"
        )
    names = tuple(category_text(one) or "" for one in labels)
    if len(names) < 2 or "" in names:
        raise InvalidInput(
            f"labels = {list(labels)!r}: name two groups or more, none of them empty"
        )
    return names


def _columns(
    durations: Any, event_observed: Any, groups: Any, names: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """What the model encodes; what cannot be used is missing."""
    times = np.array(
        [np.nan if one is None else float(one) for one in listed(durations)], dtype=float
    )
    events = np.ones(len(times)) if event_observed is None else _truths(event_observed)
    lengths = {len(times), len(events)}
    columns = {_EVENT: events}
    if names:
        code = {name: float(place) for place, name in enumerate(names)}
        found = [code.get(category_text(one) or "", np.nan) for one in listed(groups)]
        columns[_GROUP] = np.array(found, dtype=float)
        lengths.add(len(found))
    if len(lengths) > 1:
        raise InvalidInput(
            "durations, event_observed and groups differ in length: give each record all of them"
        )
    usable = np.isfinite(times) & (times >= 0)
    whole = usable & np.all([np.isfinite(own) for own in columns.values()], axis=0)
    if missing := int(np.count_nonzero(~whole)):
        warn(
            f"{missing} records count nowhere: their time is negative or missing, or their event "
            "or group is unknown; how many there are is for your eyes only",
            ClippedValues,
        )
    return {_TIME: np.where(usable, times, np.nan), **columns}


def _truths(values: Any) -> np.ndarray:
    """1 for an event, 0 for none; anything else is missing."""
    found = []
    for one in listed(values):
        known = one is not None and one in (0, 1, False, True)
        found.append(float(one) if known else np.nan)
    return np.array(found, dtype=float)


def _schema(horizon: float, names: tuple[str, ...]) -> Schema:
    """Any record may miss something: how many do is not public."""
    drop = {"missing": "drop record"}
    columns: dict[str, Any] = {
        # Times are not clipped to the horizon: an event there is one, and later ones are not.
        _TIME: {"kind": "number", "bounds": (0.0, 2 * horizon), **drop},
        _EVENT: {"kind": "category", "values": ("censored", "event"), **drop},
    }
    if names:
        columns[_GROUP] = {"kind": "category", "values": names, **drop}
    return Schema.model_validate({"columns": columns, "target": _TIME})


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if one is None else one for one in values], dtype=float)


def _value(measure: Mapping[str, Any]) -> float:
    """As lifelines: a median that is not reached is infinite, and what noise drowned is none."""
    found = measure["value"]
    return float("nan") if found is None else float(found)


__all__ = ["KaplanMeier"]
