"""From a `StudyFile` to a `Study`, by the two registries.

Building reads no records and is deterministic: every party that builds an equal file gets an equal
`study.hash`, on any machine with the same versions of this package and of JAX (a network's program
is part of its hash). What a rule computes is rounded before it enters the study, and first
parameters of networks are made from integers.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.labels import Labels
from unisono.algorithms.ranges import Range, widened
from unisono.algorithms.registry import algorithm_named, algorithms
from unisono.core.algorithm import Facts, agree_facts
from unisono.core.certificate import Certificate
from unisono.core.costs import added
from unisono.core.events import Composed
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.transcript import Transcript
from unisono.core.trust import Viewer
from unisono.data import RecordTable, read_table
from unisono.data.blocks import values_in_blocks
from unisono.data.columns import Category
from unisono.data.encoding import Values
from unisono.data.people import as_records, as_rows, by_person, one_of_each
from unisono.data.sites import SITE
from unisono.data.streams import RecordStream
from unisono.engines.streaming import streamable
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.models.evaluation import Judging, judged_columns, read_times
from unisono.models.fitted import features_of, fitted_document
from unisono.models.model import Posed, Target
from unisono.models.registry import algorithms_for
from unisono.planning.noise import SWAMPED, noise_of
from unisono.planning.predict import Prediction, predict
from unisono.planning.tasks import Task
from unisono.planning.verdicts import Grade
from unisono.problems.record_loss import RecordLoss, of_persons
from unisono.releases.algorithm import AlgorithmKind
from unisono.releases.together import in_stages, together
from unisono.scaling import PrivateRanges, Wanted, private_ranges
from unisono.studies.data_set import records_at
from unisono.studies.evaluation import Examination, examination, read_private, read_public
from unisono.studies.order import new_key, secret_order, secret_share
from unisono.studies.schema import ALGORITHM_SECTIONS, AUTO, StudyFile
from unisono.studies.stages import (
    BOUNDS,
    EVALUATION,
    EVALUATION_START,
    FIRST,
    FIT,
    START,
    Found,
    SplitRecords,
    Stage,
    costs_of,
)
from unisono.studies.streamed import StreamedRecords
from unisono.studies.table import SPELT, public_values, require_size, values_of
from unisono.studies.template import small_delta

# Above so many cells records are not held in memory: a study of one round reads them once anyway,
# and one of many rounds would read them in every round.
STREAMED, STREAMED_ROUNDS = 2**24, 2**28


class Start(NamedTuple):
    """What a study releases before it learns, for the algorithm to begin with; and what that begins
    with itself, if anything."""

    study: Study
    posed: Posed
    first: "Start | None" = None

    def posed_by(self, pose: Callable[[AlgorithmKind], Posed], kind: AlgorithmKind) -> "Start":
        """The same, with the model that `pose` makes for each algorithm."""
        earlier = self.study.method.earlier
        first = None if self.first is None else self.first.posed_by(pose, earlier.kind)
        return self._replace(posed=pose(kind), first=first)


@dataclass(frozen=True)
class Built:
    """A study that is ready to run; equal files give an equal `study.hash` (see `build`).

    `algorithm` is the one that learns; `reason` why, where the file leaves it open.
    """

    file: StudyFile
    study: Study
    posed: Posed
    algorithm: AlgorithmKind
    reason: str = ""
    test: Examination | None = None
    start: Start | None = None
    bounds: PrivateRanges | None = None
    ranges: Mapping[str, Range | Labels] = field(default_factory=dict)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of a party's file that are read."""
        return self.file.data.read

    def table(self, path: str | Path) -> RecordTable | RecordStream:
        """The study's columns of a file of records, or of the source that a policy names."""
        data = self.file.data
        return records_at(path, self.column_names, data.multiline, data.csv)

    def public_table(self, path: str | Path) -> RecordTable:
        """The columns of a file of public records, which are nobody's."""
        data = self.file.data
        columns = tuple(self.file.modelled(data).columns)
        return read_table(path, columns, data.multiline, data.csv)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What is released, in this order."""

        def unbounded(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            own = [records.learnt[name] for name in self.file.data.private]
            spelt = [records.learnt[SPELT + name] for name in self.file.data.unlisted]
            return (np.column_stack([*own, *spelt]).astype(np.float32),)

        def rows(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            return self.bounded(found)._encoded(records.learnt)

        def first(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            known = self.bounded(found)
            assert known.start is not None
            return _as_arrays(known.start.posed, known._listed(records.learnt))

        def before_first(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            known = self.bounded(found)
            assert known.start is not None
            assert known.start.first is not None
            return _as_arrays(known.start.first.posed, known._listed(records.learnt))

        def scores(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            known = self.bounded(found)
            kept = one_of_each(records.kept)  # a person is tested on one record
            if self.test is not None and self.test.how is not None:
                return (known._judged(self.test.how, found[FIT], kept),)
            return (known.posed.scores(known.study, found[FIT], known._encoded(kept))[:, None],)

        stages = [Stage(FIT, self.study, rows)]
        if self.start is not None:  # without it the algorithm begins as it usually does
            own = Stage(START, self.start.study, first, last_if_lost=False, begins_with=FIRST)
            stages.insert(0, own)
            if (before := self.start.first) is not None:
                stages.insert(0, Stage(FIRST, before.study, before_first, last_if_lost=False))
        if self.bounds is not None:
            stages.insert(0, Stage(BOUNDS, self.bounds.study, unbounded))
        if self.test is not None:
            if self.test.start is not None:
                stages.append(Stage(EVALUATION_START, self.test.start, scores))
            last = Stage(EVALUATION, self.test.study, scores, begins_with=EVALUATION_START)
            stages.append(last)
        return tuple(stages)

    def bounded(self, found: Found) -> "Built":
        """This study, once the ranges and values of its columns are known: how records are read and
        results are presented follows from them. What is learnt and what it costs is as before."""
        if self.bounds is None or BOUNDS not in found or self.ranges:
            return self
        ranges = self.bounds.read(found[BOUNDS])
        if self.file.model_kind.wide_ranges:
            ranges = dict(zip(ranges, widened(ranges.values()), strict=True))
        posed = _within(self.file, ranges, self.algorithm)
        start, earlier = self.start, self.study.method.earlier
        if start is not None:
            start = start.posed_by(lambda kind: _within(self.file, ranges, kind), earlier.kind)
        return replace(self, posed=posed, start=start, ranges=ranges)

    @property
    def known_file(self) -> StudyFile:
        """The file with the ranges and values that were released in the place of private ones."""
        data = self.file.data.within(_released(self.ranges))
        return self.file.model_copy(update={"data": data}) if self.ranges else self.file

    def _listed(self, values: Values) -> Values:
        """Values of columns that had no list, as places in the lists that were released."""
        known = {
            name: column.placed(values[name])
            for name, column in self.known_file.data.columns.items()
            if isinstance(column, Category) and isinstance(self.ranges.get(name), Labels)
        }
        return {name: own for name, own in {**values, **known}.items() if SPELT not in name}

    @cached_property
    def course(self) -> tuple[Stage, ...]:
        """What is told and released between machines, in this order, as far as it is known."""
        return self.stages

    @property
    def course_known(self) -> bool:
        """Whether nothing follows the course but what is in it."""
        return True

    def informed(self, found: Found) -> "Built":
        """The same study, once it is known what a stage told of those that follow."""
        return self

    def stage(self, name: str) -> Stage:
        """One of them."""
        return next(stage for stage in self.stages if stage.name == name)

    def columns(self, table: RecordTable | RecordStream, party: str) -> Any:
        """A party's records as the algorithm that learns reads them: float32, a row for each; or a
        stream of them."""
        return self.stage(FIT).columns(self.records(table, party), {})

    def streams(self, party: str, unordered: bool = False) -> bool:
        """Whether a party's records are read block by block, by public facts: where there are too
        many of them for memory, and every stage is a sum that can be computed so."""
        number = self.file.party(party)
        if len(self.stages) > 1 or self.file.data.person is not None:
            return False
        cells = self.file.parties[number].records * len(self.file.data.columns)
        return all(
            cells > (STREAMED if stage.study.algorithm.rounds == 1 else STREAMED_ROUNDS)
            and streamable(stage.study, unordered)
            for stage in self.stages
        )

    def records(
        self, table: RecordTable | RecordStream, party: str, key: bytes | None = None
    ) -> SplitRecords | StreamedRecords:
        """A party's records: those to learn from, and those that are kept to test the result.

        Refuses wrong columns and sizes; clips numbers, takes what cannot be read for missing, and
        warns locally. How many are kept is public, unless sizes are hidden and every record has a
        coin of its own; which, is a secret of whoever has the key (see `order`), and so is the
        order of all: in a file, or in a query's answer, a record that changes may come in another
        place and move others.
        """
        if isinstance(table, RecordStream):
            if self.streams(party, table.unordered):
                require_size(self.file, table, party, table.rows)
                return StreamedRecords(self.file, table)
            table = table.table()
        key = new_key() if key is None else key
        values = values_of(self.file, table, party, key)
        held = self.file.held_out[self.file.party(party)]
        size = len(next(iter(values.values())))
        order = secret_order(size, key)
        values = {name: column[order] for name, column in values.items()}
        kept: Any = slice(None, held)
        learnt: Any = slice(held, None)
        if held and self.file.evaluation and self.file.data.sizes == "hidden":
            kept = secret_share(size, self.file.evaluation.every, key)
            learnt = ~kept
        return SplitRecords(
            {name: column[learnt] for name, column in values.items()},
            {name: column[kept] for name, column in values.items()},
        )

    def synthetic(self, values: Values) -> tuple[np.ndarray, ...]:
        """Records that are nobody's, (records,) by column, as the algorithm that learns reads them;
        where persons are the unit, each stands for one with as many such records as it may have."""
        many, records = self.file.data.group or 1, len(next(iter(values.values())))
        rows = np.repeat(np.arange(records)[:, None], many, axis=1)
        if self.file.sites is not None:
            values = {**values, SITE: np.arange(records) % len(self.file.names) * 1.0}
        return _as_arrays(self.posed, by_person(values, rows))

    def _encoded(self, values: Values) -> tuple[np.ndarray, ...]:
        return _as_arrays(self.posed, self._listed(values))

    @property
    def costs(self) -> Sequence[Mapping[Viewer, Composed]]:
        """What all of it shows of each party to each viewer: bounds, start, training and test."""
        return costs_of(self.stages)

    def judge(self, value: Any, values: Values, name: str) -> dict[str, Any]:
        """How good a result is on public records that are `testable`; nothing is paid."""
        scores = self.posed.scores(self.study, value, self._encoded(values))
        targets = self._listed(values)[self.file.data.target or ""]
        return read_public(self.known_file, scores, targets, name)

    def _judged(self, how: Judging, value: Any, kept: Values) -> np.ndarray:
        """What a test of all metrics adds up, of records that were kept out of training."""
        assert self.posed.prediction is not None
        schema, own = self.known_file.data, self._listed(kept)
        # What a model predicts follows from its value alone.
        said = self.posed.prediction(self.study, Result(value, None, Transcript()))  # type: ignore[arg-type]
        asked, target = self.file.evaluation, schema.target or ""
        by, times = asked.by if asked else None, read_times(self.file.model_settings, schema)

        def compute(values: Values) -> tuple[np.ndarray]:
            rows = said.rows(features_of(schema, said), values)
            found = judged_columns(how, said, rows, by, values, target, times)
            return (found.astype(np.float32),)

        return values_in_blocks(compute, own)[0]

    def tested(self, value: Any, certificate: Certificate, redrawn: bool = False) -> dict[str, Any]:
        """The document of the private test, by what its stage released."""
        assert self.test is not None
        result = Result(value, certificate, Transcript())
        return read_private(self.known_file, self.test, result, redrawn)

    def testable(self, table: RecordTable | RecordStream) -> Values:
        """The values of public records, where there is something to test on them."""
        if self.posed.score is None:
            raise InvalidInput(
                f"{self.file.model.name} predicts nothing that could be right or wrong: run it "
                "without test records"
            )
        return public_values(self.file, table if isinstance(table, RecordTable) else table.table())

    def present(self, result: Result) -> dict[str, Any]:
        """The result as plain JSON, in the user's words and units."""
        shown = self.posed.present(self.study, result)
        if "note" in shown and noise_of(self.study).total < SWAMPED:
            shown["note"] = f"{_SWAMPED} {shown['note']}".strip()
        if self._too_few:
            shown["note"] = f"{self._too_few} {shown.get('note', '')}".strip()
        if self.file.data.person is not None:
            shown["persons"] = self._of_persons
        return {
            "title": self.file.title,
            "model": self.file.model.name,
            "algorithm": self.algorithm.name,
            **({"reason": self.reason} if self.reason else {}),
            "study": self.study.hash,
            "file": self.file.hash,
            **({"printed": result.certificate.printed} if result.certificate.printed else {}),
            **self._found_shown,
            **({"fills": fills} if (fills := self.file.data.fills) else {}),
            **shown,
        }

    @property
    def _found_shown(self) -> dict[str, Any]:
        """The ranges and values that were paid for."""
        ranges = {n: list(own.bounds) for n, own in self.ranges.items() if isinstance(own, Range)}
        listed = {n: list(own.names) for n, own in self.ranges.items() if isinstance(own, Labels)}
        return {
            **({"private_bounds": ranges} if ranges else {}),
            **({"private_values": listed} if listed else {}),
        }

    @property
    def _too_few(self) -> str:
        """What is said where fewer values were found than the study says there are."""
        unlisted = self.file.data.unlisted
        return " ".join(
            f"Of {unlisted[name].most} values of {name} only {len(own.names)} were found "
            f"({', '.join(own.names) or 'none'}): records with others taught nothing. List the "
            "values from public knowledge."
            for name, own in self.ranges.items()
            if isinstance(own, Labels) and len(own.names) < unlisted[name].most
        )

    @property
    def _of_persons(self) -> str:
        """What an answer is about where rows are persons, for whoever reads it."""
        if (self.file.data.group or 1) == 1:
            return "One record of each person, drawn in secret, was used."
        if self.file.model_kind.target is Target.NONE:
            return (
                "Every person counts once: its records share that weight, so that means are of "
                "persons' means, and counts add up shares of persons."
            )
        return (
            "What the records of a person teach together counts as much as one record's, at most: "
            "people with many records count for less than their records would."
        )

    def fitted(
        self, result: Result, known: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The model that a result is, for whoever predicts with it later, and arrays that are too
        large for JSON beside those that are `known`."""
        how = self.posed.prediction
        prediction = None if how is None else how(self.study, result)
        file = self.known_file
        settings = file.model_settings.model_dump(mode="json")
        return fitted_document(file.model.name, settings, file.data, prediction, known)

    def arrays(self, result: Result) -> dict[str, np.ndarray]:
        """What belongs into an .npz file, by name; empty where JSON says it all."""
        return dict(self.posed.arrays(result.value))


def _as_arrays(posed: Posed, values: Values) -> tuple[np.ndarray, ...]:
    """As the algorithm reads them: a row for each record, or for each person."""
    records, there = as_records(values)
    arrays = posed.rows(records)
    rows = arrays if there is None else as_rows(arrays, there)
    return tuple(array.astype(np.float32, copy=False) for array in rows)


_SWAMPED = (
    "Noise was expected to swamp this result, as its study said beforehand: these numbers may be "
    "nothing but noise."
)


def chosen(file: StudyFile) -> tuple[AlgorithmKind, str]:
    """The algorithm of a study: the one that it names, or the one that "auto" takes and why.

    That is the model's published rule of public facts, unless the planner calls what it takes
    useless and another one better. A model that compares what its algorithms would lose on the same
    supposed records keeps its choice: laws of the planner were fitted to columns that fill their
    bounds, which suits some algorithms better than most tables do.
    """
    model, usual = file.model_kind, algorithm_named(file.choice.algorithm)
    if not model.solved_by(usual):
        known = ", ".join(one.name for one in algorithms_for(model))
        raise InvalidInput(f"{usual.name} cannot learn a {model.name}: choose {known} or auto")
    if file.algorithm.name != AUTO:
        return usual, file.choice.reason
    choice = file.choice
    able = {} if model.prefer is None else _compared(file)
    if model.prefer is not None and able:
        choice = model.prefer(able)
        usual = algorithm_named(choice.algorithm)
    if planned_grade(file, usual) is not Grade.USELESS:
        return usual, choice.reason
    others = {
        one.name: planned_grade(file, one) for one in algorithms_for(model) if one is not usual
    }
    for grade in (Grade.GOOD, Grade.USABLE, Grade.DOUBTFUL):
        for name, found in others.items():
            if found is grade:
                if able:
                    return usual, choice.reason
                words = f"{usual.name} is predicted to be useless here, this one {grade}"
                return algorithm_named(name), words
    drowned = "but noise is predicted to cost most of what it could learn (`unisono plan`)"
    return usual, f"{choice.reason}; {drowned}"


def _compared(file: StudyFile) -> dict[str, Study]:
    """The studies by those algorithms of a model that it compares and that can run, by name."""
    able = {}
    for name in file.model_kind.compared:
        kind = algorithm_named(name)
        if kind.hides(file.privacy.unit, file.data.group or 1) and file.trust.mode in kind.trusts:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # said when the study is built
                    able[name] = _study(file, kind).study
            except (InvalidInput, PrivacyViolation):
                continue
    return able


def planned_grade(file: StudyFile, kind: AlgorithmKind) -> Grade | None:
    """The planner's verdict on an algorithm in this study, if it has any."""
    found = planned(file, kind)
    return None if found is None else found.grade


def planned(file: StudyFile, kind: AlgorithmKind) -> Prediction | None:
    """What the planner expects of an algorithm in this study; None where it expects nothing, or
    the algorithm cannot run."""
    task = file.model_kind.task
    predicted = task == Task.POSTERIOR or task in kind.laws
    hides = kind.hides(file.privacy.unit, file.data.group or 1)
    fits = file.trust.mode in kind.trusts and hides
    if not (predicted and fits):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the study is built
            study = _study(file, kind).study
        return predict(study, Task(task), len(file.data.classes))
    except (InvalidInput, PrivacyViolation):
        return None


def build(file: StudyFile) -> Built:
    """The study that the file describes; what the algorithm refuses is an error of the file."""
    if file.search is not None:
        from unisono.studies.search import build_search  # which builds each of its candidates

        return build_search(file)
    return build_one(file)


def build_one(file: StudyFile) -> Built:
    """As `build`, of the file's own model and algorithm, whatever it searches."""
    kind, reason = _placed(file, ("algorithm",), file.algorithm.name, lambda: chosen(file))
    own = [number for number, party in enumerate(file.parties) if party.epsilon is not None]
    for number in own[:1]:
        place = ("parties", number, "epsilon")
        _placed(file, place, "an epsilon of its own", lambda: _require_own_noise(kind))
    made = _placed(file, ("algorithm",), kind.name, lambda: _possible(file, kind))
    _placed(file, ("privacy", "unit"), "privacy.unit", lambda: _require_unit(file, made.study))
    test = _placed(file, ("evaluation", "epsilon"), "evaluation", lambda: examination(file))
    return Built(file, made.study, made.posed, kind, reason, test, made.start, made.bounds)


class _Made(NamedTuple):
    """The study that learns, and what comes before it: the promise is for all together."""

    posed: Posed
    study: Study
    start: Start | None
    bounds: PrivateRanges | None = None


def _study(file: StudyFile, kind: AlgorithmKind) -> _Made:
    """The stages before the test, each priced for its part of the promise."""
    private, unlisted = file.data.private, file.data.unlisted
    if not file.data.unknown:
        return _learning(file, kind, file.promise)
    _require_free_of_bounds(file, kind)
    wanted = {name: Wanted(own.most, own.candidates) for name, own in unlisted.items()}

    def first(part: Privacy) -> PrivateRanges:
        facts = facts_of(file, len(file.data.unknown))
        return private_ranges(private, part, facts, file.trust.mode, wanted)

    ranges, made = together(
        file.promise,
        file.privacy.bounds_share,
        first,
        lambda part: _learning(file, kind, part),
        lambda one, other: (one.study.costs, _learning_costs(other)),
    )
    return made._replace(bounds=ranges)


def _learning_costs(made: _Made) -> Sequence[Mapping[Viewer, Composed]]:
    studies, start = [made.study], made.start
    while start is not None:
        studies.insert(0, start.study)
        start = start.first
    return [added(parts) for parts in zip(*(study.costs for study in studies), strict=True)]


def _require_free_of_bounds(file: StudyFile, kind: AlgorithmKind) -> None:
    """Refuse a model whose release itself depends on the bounds of a column, or on its values: what
    it costs, and what the parties agree on, would not be known beforehand."""

    def agreed(ends: tuple[float, float, float], names: tuple[str, ...] = ()) -> str:
        ranges = dict.fromkeys(file.data.private, ends)
        data = file.data.within({**ranges, **dict.fromkeys(file.data.unlisted, names)})
        known = file.model_copy(update={"data": data})
        return _learning(known, kind, file.promise).study.hash

    if agreed((0.0, 1.0, 0.5)) != agreed((0.0, 1.0, 0.5), ("a",)):
        raise InvalidInput(
            f'values = "private" of {", ".join(file.data.unlisted)}: what {file.model.name} '
            f"releases by {kind.name} depends on the values themselves, so they must be known "
            "beforehand; list them from public knowledge"
        )
    if agreed((0.0, 1.0, 0.5)) != agreed((3.0, 17.0, 5.0)):
        raise InvalidInput(
            f'bounds = "private" of {", ".join(file.data.private)}: what {file.model.name} '
            f"releases by {kind.name} depends on the bounds themselves, so they must be known "
            "beforehand; declare public bounds, as wide as nobody doubts"
        )


def _released(found: Mapping[str, Range | Labels]) -> dict[str, tuple[Any, ...]]:
    return {
        name: one.names if isinstance(one, Labels) else (one.low, one.high, one.centre)
        for name, one in found.items()
    }


def _within(file: StudyFile, ranges: Mapping[str, Range | Labels], kind: AlgorithmKind) -> Posed:
    """The model over columns whose ranges and values are known."""
    data = file.data.within(_released(ranges))
    return file.model_kind.pose(file.model_settings, file.modelled(data), kind, file.promise)


def _learning(file: StudyFile, kind: AlgorithmKind, promise: Privacy) -> _Made:
    """The study that learns, and the release that it begins with, if there is one."""

    def made(kind: AlgorithmKind, promise: Privacy, said: Mapping[str, Any]) -> tuple[Posed, Study]:
        posed = posed_for(file, kind, promise)
        method = kind.method(posed.problem, promise, **{**posed.settings, **said})
        study = Study(method, facts_of(file, posed.features), file.trust.mode)
        study.costs  # noqa: B018  (what cannot be paid for is refused here, before anyone joins)
        return posed, study

    said = file.algorithm_settings
    found = in_stages(
        kind,
        promise,
        lambda own, part: made(own, part, said if own is kind else {}),
        lambda one: one[1],
    )
    start: Start | None = None
    for own_posed, own_study in found[:-1]:
        start = Start(own_study, own_posed, start)
    return _Made(*found[-1], start)


def posed_for(file: StudyFile, kind: AlgorithmKind, promise: Privacy) -> Posed:
    """The model of a file, for an algorithm; a loss of records becomes one of persons."""
    posed = file.model_kind.pose(file.model_settings, file.modelled(file.data), kind, promise)
    if file.data.group is None or not isinstance(posed.problem, RecordLoss):
        return posed
    return replace(posed, problem=of_persons(posed.problem, file.data.group))


def _possible(file: StudyFile, kind: AlgorithmKind) -> _Made:
    """As `_study`; who asks for pure epsilon where there is none is told where there is."""
    try:
        return _study(file, kind)
    except InvalidInput as error:
        if file.privacy.delta:
            raise
        able = [one.name for one in algorithms_for(file.model_kind) if _offered(file, one)]
        words = f"only {' and '.join(able)} can" if able else "no algorithm can"
        raise InvalidInput(
            f"{error}\n  with delta = 0, {words} learn a {file.model.name} in this study; choose a "
            f"delta above 0, such as {small_delta(sum(file.training)):g}, for the others"
        ) from None


def _offered(file: StudyFile, kind: AlgorithmKind) -> bool:
    """Whether an algorithm could run in this study, with its usual settings."""
    if file.trust.mode not in kind.trusts or not kind.hides(
        file.privacy.unit, file.data.group or 1
    ):
        return False
    said = file.model_copy(
        update={"algorithm": ALGORITHM_SECTIONS[kind.name].model_validate({"name": kind.name})}
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _study(said, kind)
    except (InvalidInput, PrivacyViolation):
        return False
    return True


def _require_unit(file: StudyFile, study: Study) -> None:
    """What is hidden is what the file says, whatever a rule or a setting of the algorithm chose."""
    events = study.algorithm.events(study.facts, study.trust)
    for unit in {event.sensitivity.unit for event in events}:
        if unit is not file.privacy.unit:
            raise InvalidInput(
                f'"{file.privacy.unit}", but {study.algorithm.name} hides a {unit}: say '
                f'unit = "{unit}", or choose another algorithm'
            )


def _require_own_noise(kind: AlgorithmKind) -> None:
    """Refuse epsilons of their own where the noise is for all parties together."""
    if not kind.own_epsilons:
        able = [one.name for one in algorithms().values() if one.own_epsilons]
        raise InvalidInput(
            f"{kind.name} opens sums with noise for all parties together: leave it out, or choose "
            f"an algorithm whose parties release on their own ({', '.join(able)})"
        )


def _placed(
    file: StudyFile, place: tuple[str | int, ...], what: str, made: Callable[[], Any]
) -> Any:
    """What is made, or its refusal with the line of the file that it is about."""
    try:
        return made()
    except (InvalidInput, PrivacyViolation) as error:
        raise type(error)(f"{file.source.where(place)}: {what}: {error}") from None


def privacy_of(file: StudyFile) -> Privacy:
    """The promise of a study."""
    return file.promise


def facts_of(file: StudyFile, features: int) -> Facts:
    """The public facts, for so many numbers in a row."""
    facts = agree_facts(
        file.training,
        features,
        file.trust.mode,
        minimum_parties=file.survivors,
        colluders=file.colluders,
        exact_sizes=file.data.sizes == "exact",
    )
    return replace(
        facts,
        retries=file.trust.retries,
        records_per_person=file.data.group,
        person_at_parties=file.data.person_at_parties,
    )


def columns(file: StudyFile, table: RecordTable | RecordStream, party: str) -> Any:
    """A party's records as the study's algorithm reads them (see `Built.columns`)."""
    return build(file).columns(table, party)


__all__ = ["Built", "build", "chosen", "columns", "facts_of", "planned_grade", "privacy_of"]
