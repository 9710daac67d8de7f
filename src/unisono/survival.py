"""Survival analysis in one call: Kaplan-Meier curves of arrays, hazard ratios of a frame, and how
well scores order times.

    book = unisono.open_ledger("trial.ledger", dataset="trial", epsilon=3.0, delta=1e-6)
    curves = unisono.KaplanMeier(horizon=60.0, labels=["placebo", "drug"])
    curves.fit(months, died, groups=arm, epsilon=1.0, delta=1e-6, ledger=book)
    print(curves)

    ratios = unisono.HazardRatios(horizon=60.0, bounds={"age": (18, 100)},
                                  categories={"arm": ["placebo", "drug"]})
    print(ratios.fit(frame, "months", "died", epsilon=1.0, delta=1e-6, ledger=book))
    print(ratios.concordance(frame, epsilon=0.5, delta=1e-6, ledger=book))

Horizons, bounds, categories and the names of groups are public, and never read from the data. Names
of fitted attributes are those of lifelines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.concordance import as_text as concordance_text
from unisono.algorithms.estimates import Estimate, guaranteed_parts
from unisono.algorithms.registry import algorithm_named
from unisono.algorithms.survival_curves import (
    as_text,
    log_rank_text,
    measure_text,
    median_text,
    steps,
)
from unisono.core import notebook
from unisono.core.certificate import Certificate, certify
from unisono.core.costs import added
from unisono.core.defaults import default_trust, warn_of_clipping
from unisono.core.ledger import Ledger
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data import as_table, listed
from unisono.data import as_text as category_text
from unisono.data.columns import NumericColumn, range_given
from unisono.data.schema import Schema
from unisono.data.sources import UnreadValues, warn_unread
from unisono.engines import in_process
from unisono.errors import ClippedValues, InvalidInput, warn
from unisono.estimators.members import (
    facts_of,
    given_ledgers,
    membership,
    public_sizes,
    shuffled,
)
from unisono.estimators.statements import CrowdedTimes, FewEvents, NotConverged
from unisono.models.concordance import CONCORDANCE
from unisono.models.hazards import HAZARDS
from unisono.models.inference import as_grid
from unisono.models.inference import as_text as coefficients_text
from unisono.models.kaplan_meier import CROWDED, EVERYONE, KAPLAN_MEIER
from unisono.models.model import ModelKind, Posed
from unisono.releases.algorithm import AlgorithmKind
from unisono.releases.together import in_stages

_TIME, _EVENT, _GROUP, _SCORE = "time", "event", "group", "score"
_DROP = {"missing": "drop record"}
_NOWHERE = "Their records count nowhere. "


class KaplanMeier:
    """Survival curves with pointwise intervals and simultaneous bands, by group.

    `horizon` is where curves end: whoever is seen later counts as having outlasted it. `labels`
    name the groups. Where records are seen at public times only, give them as `visits`: intervals
    of time end there, and a first release that finds where to end them is not needed. `bins` are at
    most so many intervals otherwise, by a rule where they are left out.
    """

    def __init__(
        self,
        *,
        horizon: float,
        labels: Sequence[Any] | None = None,
        visits: Sequence[float] | None = None,
        bins: int | None = None,
        log_rank: bool = True,
        confidence: float = 0.95,
    ) -> None:
        self.horizon, self.labels, self.bins = horizon, labels, bins
        self.visits, self.log_rank, self.confidence = visits, log_rank, confidence

    def fit(
        self,
        durations: Any,
        event_observed: Any = None,
        groups: Any = None,
        *,
        epsilon: float,
        ledger: Ledger | Mapping[Any, Ledger],
        delta: float = 0.0,
        event_value: Any = None,
        parties: Any = None,
        trust: str | Trust | None = None,
        records: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
    ) -> "KaplanMeier":
        """Times (n,), whether the event happened then (n,), by default always, and the group of
        each record (n,). Events are 0 and 1 or False and True, or whatever equals `event_value`, as
        "dead", all others being censored. `parties` (n,) says whose each record is, where there are
        several, each with its `ledger`. Under add-or-remove `records` is a public number of them
        for each party.

        A record whose time is negative or missing, or whose group is none of the labels, counts
        nowhere, and a warning says so here. All stages are one guarantee of epsilon. `CrowdedTimes`
        warns where records leave at few times and no `visits` are given.
        """
        horizon = _horizon(self.horizon)
        names = _names(self.labels, groups)
        columns = _columns(durations, event_observed, groups, names, event_value)
        schema = _schema(horizon, names, value=event_value)
        config = KAPLAN_MEIER.configured(
            event=_EVENT,
            by=_GROUP if names else None,
            horizon=horizon,
            visits=None if self.visits is None else tuple(map(float, self.visits)),
            bins=self.bins,
            log_rank=bool(self.log_rank),
            confidence=float(self.confidence),
        )
        for _, words in KAPLAN_MEIER.faults(config, schema):
            raise InvalidInput(words)
        shown, certificate = _learnt(
            KAPLAN_MEIER,
            config,
            schema,
            columns,
            Privacy(epsilon, delta),
            _Members(parties, ledger, trust, records, minimum_parties, colluders),
        )
        self._fitted(shown, certificate)
        return self

    def _fitted(self, shown: Mapping[str, Any], certificate: Certificate) -> None:
        figures = shown["kaplan_meier"]
        curves = figures["groups"]
        self.figures_, self.note_, self.certificate_ = figures, shown["note"], certificate
        if figures["crowded"]:
            warn(CROWDED, CrowdedTimes)
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

    def _repr_html_(self) -> str | None:
        """As notebooks show it, once it is fitted: the curves with their bands, and medians."""
        if not hasattr(self, "figures_"):
            return None
        found = self.figures_
        sure = f"{100 * found['confidence']:g} %"
        rows = [
            [
                name,
                f"{max(0.0, sum(own['events'])):.0f}",
                median_text(own),
                measure_text(own["restricted_mean"]),
            ]
            for name, own in found["groups"].items()
        ]
        tested = log_rank_text(found["log_rank"]) if found.get("log_rank") else ""
        return notebook.shown(
            f"Survival until {found['event']}",
            notebook.curves(
                {name: notebook.ShownCurve(*steps(own)) for name, own in found["groups"].items()},
                str(found["time"]),
                f"Share without the event; shaded: a {sure} band that holds at all times at once",
            ),
            notebook.grid(
                ["", "events", f"median ({sure})", f"mean up to {found['horizon']:g}"], rows
            ),
            notebook.sentence(f"{tested[:1].upper()}{tested[1:]}." if tested else ""),
            notebook.sentence(self.note_, "note"),
            *guaranteed_parts(self.certificate_),
            simulated=self.certificate_.simulated,
        )

    def __str__(self) -> str:
        if not hasattr(self, "figures_"):
            return repr(self)
        return f"{self.text}\n{_guarantee('Kaplan-Meier', self.certificate_)}"


class HazardRatios:
    """Hazard ratios of a frame's columns, with intervals and tests.

    `bounds` of numbers and `categories` of others are public, and declare which columns explain
    hazards; of a category the first value is the reference. Records are followed up to `horizon`.
    """

    def __init__(
        self,
        *,
        horizon: float,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        categories: Mapping[str, Sequence[Any]] | None = None,
        confidence: float = 0.95,
    ) -> None:
        self.horizon, self.bounds, self.categories = horizon, bounds, categories
        self.confidence = confidence
        self._event_value: Any = None

    def fit(
        self,
        frame: Any,
        duration_col: str,
        event_col: str,
        *,
        epsilon: float,
        delta: float,
        ledger: Ledger | Mapping[Any, Ledger],
        event_value: Any = None,
        parties: Any = None,
        trust: str | Trust | None = None,
        records: Any = None,
        minimum_parties: int | None = None,
        colluders: int | None = None,
    ) -> "HazardRatios":
        """A frame of pandas, polars or Arrow, or a mapping of columns; `event_col` is 1 or True
        where the event happened at the time and 0 or False where not, or it equals `event_value`,
        as "dead" or 2, where it happened. Records that miss anything count nowhere, and warnings
        say so here. Warnings: `FewEvents` if there are too few events for the coefficients, and
        `NotConverged` with the names of coefficients that have an interval without a limit, did not
        converge, or have effects too strong for the method."""
        frame = _frame(frame)
        horizon = _horizon(self.horizon)
        bounds, categories = dict(self.bounds or {}), dict(self.categories or {})
        for name in (duration_col, event_col, *bounds, *categories):
            _column(frame, name)
        for name in (duration_col, event_col):
            if name in bounds or name in categories:
                raise InvalidInput(f"{name!r} is time or event, and explains nothing: leave it out")
        read = _columns(frame[duration_col], frame[event_col], None, (), event_value)
        columns = {duration_col: read[_TIME], event_col: read[_EVENT]}
        schema = _schema(horizon, (), duration_col, event_col, event_value)
        known = _explaining(bounds, categories)
        schema = schema.model_copy(update={"columns": {**schema.columns, **known}})
        config = HAZARDS.configured(
            event=event_col, horizon=horizon, confidence=float(self.confidence)
        )
        for _, words in HAZARDS.faults(config, schema):
            raise InvalidInput(words)
        for name, column in known.items():
            columns[name] = column.read(listed(frame[name]))
            unread = np.isnan(columns[name])
            warn_unread(unread, f"values of {name!r}", column.wanted, _NOWHERE)
            if isinstance(column, NumericColumn):
                warn_of_clipping(columns[name], *column.span, f"values of {name!r}")
        if len({len(own) for own in columns.values()}) > 1:
            raise InvalidInput("columns of the frame differ in length: give each record every one")
        shown, self.certificate_ = _learnt(
            HAZARDS,
            config,
            schema,
            columns,
            Privacy(epsilon, delta),
            _Members(parties, ledger, trust, records, minimum_parties, colluders),
        )
        self.figures_, self.note_, self._event_value = shown, shown["note"], event_value
        for doubt in shown.get("doubts", ()):
            warn(doubt, FewEvents if shown["few_events"] else NotConverged)
        found = shown["coefficients"]

        def by_name(what: str) -> dict[str, Any]:
            return {name: own.get(what, float("nan")) for name, own in found.items()}

        self.params_, self.standard_errors_ = by_name("estimate"), by_name("std_error")
        self.hazard_ratios_, self.p_values_ = by_name("ratio"), by_name("p_value")
        ends = (-np.inf, np.inf)  # where JSON has None
        self.confidence_intervals_ = {
            name: tuple(
                end if own is None else own
                for own, end in zip(row.get("interval", (np.nan,) * 2), ends, strict=True)
            )
            for name, row in found.items()
        }
        return self

    def scores(self, frame: Any) -> np.ndarray:
        """The log hazard of every record, relative to all references (n,): numbers are clipped to
        their bounds, and what noise drowned counts as no effect. NaN where anything is missing."""
        columns, whole = _frame(frame), np.zeros(1)
        for name, column in _explaining(self.bounds, self.categories).items():
            read = column.read(_column(columns, name))
            if isinstance(column, NumericColumn):
                whole = whole + self._effect(name) * np.clip(read, *column.span)
            else:
                values = [category_text(one) or "" for one in (self.categories or {})[name]]
                effects = np.array([0.0, *(self._effect(f"{name}={one}") for one in values[1:])])
                place = np.nan_to_num(read).astype(int)
                whole = whole + np.where(np.isnan(read), np.nan, effects[place])
        return np.asarray(whole, float)

    def _effect(self, name: str) -> float:
        return float(self.figures_["coefficients"][name].get("estimate", 0.0))

    def concordance(
        self,
        frame: Any,
        duration_col: str | None = None,
        event_col: str | None = None,
        *,
        epsilon: float,
        ledger: Ledger | Mapping[Any, Ledger],
        delta: float = 0.0,
        event_value: Any = None,
        **members: Any,
    ) -> "ConcordanceIndex":
        """Harrell's C of this model in these records, the same or others: a release of its own,
        paid for with its own epsilon. Columns and `event_value` are those of `fit` unless others
        are named.

        Of the records of the fit itself it flatters the model a little, as always.
        """
        if not hasattr(self, "figures_"):
            raise InvalidInput("concordance before fit: there is no model yet whose scores to take")
        columns, figures = _frame(frame), self.figures_
        if not any(own["determined"] for own in figures["coefficients"].values()):
            raise InvalidInput(
                "no coefficient is determined, so that all scores are alike: fit with more "
                "records, a larger epsilon or fewer columns first"
            )
        found = concordance(
            self.scores(columns),
            _column(columns, duration_col or figures["target"]),
            _column(columns, event_col or figures["event"]),
            horizon=self.horizon,
            cuts=_cuts(**figures["scores"]),
            confidence=self.confidence,
            epsilon=epsilon,
            delta=delta,
            ledger=ledger,
            event_value=self._event_value if event_value is None and not event_col else event_value,
            **members,
        )
        self.concordance_index_ = found.value
        return found

    def summary(self) -> str:
        """A table as journals print it; what noise drowned has no numbers."""
        figures = self.figures_
        table = coefficients_text(figures["coefficients"], figures["ratio"], figures["confidence"])
        return f"{table}\n{self.note_}"

    def _repr_html_(self) -> str | None:
        """As notebooks show it, once it is fitted."""
        if not hasattr(self, "figures_"):
            return None
        figures = self.figures_
        return notebook.shown(
            "Hazard ratios",
            as_grid(figures["coefficients"], figures["ratio"], figures["confidence"]),
            notebook.sentence(self.note_, "note"),
            *guaranteed_parts(self.certificate_),
            simulated=self.certificate_.simulated,
        )

    def __str__(self) -> str:
        if not hasattr(self, "figures_"):
            return repr(self)
        return f"{self.summary()}\n{_guarantee('hazard ratios', self.certificate_)}"


@dataclass(frozen=True)
class ConcordanceIndex:
    """Harrell's C with its interval, what it cost, and all of it as JSON; NaN where noise drowned
    it."""

    value: float
    interval: tuple[float, float]
    figures: Mapping[str, Any]
    note: str
    certificate: Certificate

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        return notebook.shown(
            "Concordance",
            notebook.sentence(f"{concordance_text(self.figures)}."),
            notebook.sentence(self.note, "note"),
            *guaranteed_parts(self.certificate),
            simulated=self.certificate.simulated,
        )

    def __str__(self) -> str:
        lines = [concordance_text(self.figures), self.note]
        return "\n".join([*lines, _guarantee("concordance", self.certificate)])


def concordance(
    scores: Any,
    durations: Any,
    event_observed: Any = None,
    *,
    horizon: float,
    epsilon: float,
    ledger: Ledger | Mapping[Any, Ledger],
    delta: float = 0.0,
    bounds: tuple[float, float] | None = None,
    cuts: Sequence[float] | None = None,
    confidence: float = 0.95,
    event_value: Any = None,
    parties: Any = None,
    trust: str | Trust | None = None,
    records: Any = None,
    minimum_parties: int | None = None,
    colluders: int | None = None,
) -> ConcordanceIndex:
    """How well scores (n,), higher where the event is expected sooner, order times (n,): Harrell's
    C of all pairs, also of records at different parties, from one noisy table.

    Scores are told apart by public `cuts`, or by eight equal intervals within public `bounds`. A
    record whose time is negative or missing, or that has no score, counts nowhere, with a warning.
    Events are 0 and 1 or False and True, or whatever equals `event_value`.
    """
    horizon = _horizon(horizon)
    if (bounds is None) == (cuts is None):
        raise InvalidInput(
            "scores are cut into intervals from public knowledge: give bounds=(low, high), or cuts"
        )
    given = [np.nan if one is None else float(one) for one in listed(scores)]
    values = np.array(given, dtype=float)
    columns = _columns(durations, event_observed, None, (), event_value)
    if len(values) != len(columns[_TIME]):
        raise InvalidInput(
            f"{len(values)} scores for {len(columns[_TIME])} durations: give each record both"
        )
    if missing := int(np.count_nonzero(np.isnan(values))):
        warn(
            f"{missing} records have no score and count nowhere; how many there are is for your "
            "eyes only",
            ClippedValues,
        )
    ends = tuple(map(float, bounds)) if bounds is not None else _beyond(cuts)
    schema = _schema(horizon, (), value=event_value)
    score = {_SCORE: {"kind": "number", "bounds": ends, **_DROP}}
    known = Schema.model_validate({"columns": score}).columns
    schema = schema.model_copy(update={"columns": {**schema.columns, **known}})
    config = CONCORDANCE.configured(
        event=_EVENT,
        score=_SCORE,
        horizon=horizon,
        cuts=None if cuts is None else tuple(map(float, cuts)),
        confidence=float(confidence),
    )
    shown, certificate = _learnt(
        CONCORDANCE,
        config,
        schema,
        {**columns, _SCORE: values},
        Privacy(epsilon, delta),
        _Members(parties, ledger, trust, records, minimum_parties, colluders),
    )
    figures = shown["concordance"]
    low, high = (float("nan") if one is None else one for one in figures["interval"])
    value = float("nan") if figures["value"] is None else figures["value"]
    return ConcordanceIndex(value, (low, high), figures, shown["note"], certificate)


def _beyond(cuts: Any) -> tuple[float, float]:
    """Bounds in which all cuts lie; what is beyond them is not clipped, only cut."""
    given = [float(one) for one in cuts]
    if not given or not np.isfinite(given).all():
        raise InvalidInput(f"cuts = {cuts!r}: give at least one number, and only finite ones")
    return min(given) - 1.0, max(given) + 1.0


def _cuts(middle: float, spread: float) -> tuple[float, ...]:
    """Into six: quantiles of a logistic law with the middle and the spread that released numbers
    give to scores. Its tails are wider than normal ones, as are those of sums of real columns. Few
    intervals lose little, and add up less noise."""
    place = np.arange(1, 6) / 6
    width = 1.25 * max(spread, 1e-6) * np.sqrt(3) / np.pi  # columns may go together
    return tuple(float(one) for one in middle + width * np.log(place / (1 - place)))


def _explaining(
    bounds: Mapping[str, tuple[float, float]] | None,
    categories: Mapping[str, Sequence[Any]] | None,
) -> dict[str, Any]:
    """The columns that explain hazards, as schemas have them."""
    explaining: dict[str, Any] = {
        name: {"kind": "number", "bounds": range_given(name, own), **_DROP}
        for name, own in (bounds or {}).items()
    }
    for name, values in (categories or {}).items():
        levels = tuple(category_text(one) or "" for one in values)
        explaining[name] = {"kind": "category", "values": levels, **_DROP}
    return dict(Schema.declaring(explaining).columns) if explaining else {}


def _frame(frame: Any) -> Mapping[str, Any]:
    return frame if isinstance(frame, Mapping) else as_table(frame).columns


def _column(frame: Mapping[str, Any], name: str) -> list[Any]:
    if name not in frame:
        there = ", ".join(map(str, frame))
        raise InvalidInput(f"the frame has no column {name!r}: it has {there}")
    return list(listed(frame[name]))


class _Members(NamedTuple):
    """Whose the records are, as a fit was told."""

    parties: Any
    ledger: Any
    trust: Any
    records: Any
    minimum_parties: int | None
    colluders: int | None


def _learnt(
    model: ModelKind,
    config: Any,
    schema: Schema,
    columns: Mapping[str, np.ndarray],
    promise: Privacy,
    said: _Members,
) -> tuple[dict[str, Any], Certificate]:
    """What a model learns of these columns, in all of its stages, and what that showed."""
    members = membership(said.parties, len(next(iter(columns.values()))))
    ledgers = given_ledgers(said.ledger, members, None)
    relation = ledgers[0].policy.relation
    promise = replace(promise, relation=relation)
    trust = default_trust(len(members.names)) if said.trust is None else Trust(said.trust)
    sizes = public_sizes(said.records, members, relation)
    chosen = model.choose(config, schema, promise, ledgers[0].policy.unit)
    kind = algorithm_named(chosen.algorithm)
    width = model.pose(config, schema, kind, promise).features
    facts = facts_of(sizes, width, trust, relation, said.minimum_parties, said.colluders)

    def made(kind: AlgorithmKind, part: Privacy) -> tuple[Posed, Study]:
        posed = model.pose(config, schema, kind, part)
        return posed, Study(kind.method(posed.problem, part, **posed.settings), facts, trust)

    found = in_stages(kind, promise, made, lambda one: one[1])
    stages = [study for _, study in found]
    posed, study = found[-1]
    rows = posed.rows(columns)[0]
    # In sorted arrays a record that is replaced moves others.
    places = tuple(shuffled(*own) for own in zip(members.rows, ledgers, strict=True))
    books = dict(zip(members.names, ledgers, strict=True))
    parties = [
        Party(name, Private((rows[own],), name), books[name])
        for name, own in zip(members.names, places, strict=True)
    ]
    cost = added([one.cost for one in stages])
    result: Result | None = None
    with Ledger.declared(ledgers, [cost] * len(ledgers)):  # all of it, before the first release
        for stage in stages:
            begun = stage if result is None else stage.begun(result.value)
            result = in_process.run(begun, parties, purpose=model.name)
    assert result is not None
    certificate = certify(
        study,
        books,
        ledgers[0].accountant,
        secure_sum=result.certificate.secure_sum,
        costs=[cost] * len(books),
    )
    return posed.present(study, result), certificate


def _guarantee(name: str, certificate: Certificate) -> str:
    """What it cost, in the words of every other release."""
    released = Estimate(name, 0.0, (0.0, 0.0), 0.95, "", certificate)
    return str(released).removeprefix(released.text).lstrip("\n")


def _horizon(given: Any) -> float:
    horizon = float(given)
    if not 0 < horizon < np.inf:
        raise InvalidInput(
            f"horizon = {given!r}: give a public time above zero, the last that counts"
        )
    return horizon


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
    durations: Any, event_observed: Any, groups: Any, names: tuple[str, ...], event_value: Any
) -> dict[str, np.ndarray]:
    """What the model encodes; what cannot be used is missing."""
    times = np.array(
        [np.nan if one is None else float(one) for one in listed(durations)], dtype=float
    )
    events = np.ones(len(times))
    if event_observed is not None:
        events = _events(event_observed, event_value)
    elif event_value is not None:
        raise InvalidInput(
            f"event_value = {event_value!r} without event_observed, which it would be a value of: "
            "give both, or neither if the event always happened"
        )
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
    _warn_of_events(events, event_value)
    return {_TIME: np.where(usable, times, np.nan), **columns}


def _events(values: Any, event_value: Any) -> np.ndarray:
    """1 for an event, 0 for none; what is neither is missing."""
    found: list[float] = []
    if event_value is not None:
        wanted = category_text(event_value)
        if wanted is None:
            raise InvalidInput(
                f"event_value = {event_value!r}: give the value of an event, as 'dead' or 2"
            )
        for text in map(category_text, listed(values)):
            found.append(np.nan if text is None else float(text == wanted))
        return np.array(found, dtype=float)
    for one in listed(values):
        known = one is not None and one in (0, 1, False, True)
        found.append(float(one) if known else np.nan)
    return np.array(found, dtype=float)


def _warn_of_events(events: np.ndarray, event_value: Any) -> None:
    """Tell whoever holds the records, and nobody else, of codings that are not what they seem."""
    read = "0 and 1, or False and True" if event_value is None else f"{event_value!r}, or another"
    unread = np.isnan(events)
    remedy = "Of other codings name the value of an event, as event_value=2 or 'dead'. "
    warn_unread(unread, "events", read, remedy if event_value is None else _NOWHERE)
    if len(events) and not unread.all() and not (events == 1).any():
        warn(
            f"no record has an event: none of {len(events)} is "
            f"{1 if event_value is None else event_value!r}. Check the column, and the value that "
            "means that the event happened (event_value). Nobody else is told",
            UnreadValues,
        )


def _schema(
    horizon: float,
    names: tuple[str, ...],
    time: str = _TIME,
    event: str = _EVENT,
    value: Any = None,
) -> Schema:
    """Any record may miss something: how many do is not public."""
    happened = "1" if value is None else category_text(value)
    columns: dict[str, Any] = {
        # Times are not clipped to the horizon: an event there is one, and later ones are not.
        time: {"kind": "number", "bounds": (0.0, 2 * horizon), **_DROP},
        event: {"kind": "category", "values": (f"not {happened}", happened), **_DROP},
    }
    if names:
        columns[_GROUP] = {"kind": "category", "values": names, **_DROP}
    return Schema.model_validate({"columns": columns, "target": time})


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if one is None else one for one in values], dtype=float)


def _value(measure: Mapping[str, Any]) -> float:
    """As lifelines: a median that is not reached is infinite, and what noise drowned is none."""
    found = measure["value"]
    return float("nan") if found is None else float(found)


__all__ = ["ConcordanceIndex", "HazardRatios", "KaplanMeier", "concordance"]
