"""From a `StudyFile` to a `Study`, by the two registries.

Building reads no records and is deterministic: every party that builds an equal file gets an equal
`study.hash`, on any machine with the same versions of this package and of JAX (a network's program
is part of its hash). What a rule computes is rounded before it enters the study, and first
parameters of networks are made from integers.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.registry import algorithm_named, algorithms
from unisono.core.algorithm import Facts, agree_facts
from unisono.core.certificate import Certificate
from unisono.core.events import Composed
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.transcript import Transcript
from unisono.core.trust import Viewer
from unisono.data import RecordTable
from unisono.data.encoding import Values
from unisono.data.streams import RecordStream
from unisono.engines.streaming import streamable
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.models.model import Posed
from unisono.models.registry import algorithms_for
from unisono.planning.noise import SWAMPED, noise_of
from unisono.planning.predict import predict
from unisono.planning.tasks import Task
from unisono.planning.verdicts import Grade
from unisono.releases.algorithm import AlgorithmKind
from unisono.studies.data_set import records_at
from unisono.studies.evaluation import Examination, examination, read_private, read_public
from unisono.studies.order import new_key, secret_order
from unisono.studies.schema import AUTO, StudyFile
from unisono.studies.stages import EVALUATION, FIT, START, SplitRecords, Stage, costs_of
from unisono.studies.streamed import StreamedRecords
from unisono.studies.table import public_values, require_size, values_of

# Above so many cells records are not held in memory: a study of one round reads them once anyway,
# and one of many rounds would read them in every round.
STREAMED, STREAMED_ROUNDS = 2**24, 2**28


class Start(NamedTuple):
    """What a study releases before it learns, for the algorithm to begin with."""

    study: Study
    posed: Posed


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

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of a party's file that are read."""
        return tuple(self.file.data.columns)

    def table(self, path: str | Path) -> RecordTable | RecordStream:
        """The study's columns of a file of records, or of the source that a policy names."""
        data = self.file.data
        return records_at(path, self.column_names, data.multiline, data.csv)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What is released, in this order."""

        def rows(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            return self._encoded(records.learnt)

        def first(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            assert self.start is not None
            return _as_arrays(self.start.posed, records.learnt)

        def scores(records: SplitRecords, found: Any) -> tuple[np.ndarray, ...]:
            assert self.posed.score is not None
            return (self.posed.score(found[FIT], self._encoded(records.kept))[:, None],)

        stages = [Stage(FIT, self.study, rows)]
        if self.start is not None:  # without it the algorithm begins as it usually does
            stages.insert(0, Stage(START, self.start.study, first, last_if_lost=False))
        if self.test is not None:
            stages.append(Stage(EVALUATION, self.test.study, scores))
        return tuple(stages)

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
        if self.file.held_out[number]:
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
        warns locally. How many are kept is public; which, is a secret of whoever has the key (see
        `order`), and so is the order of those to learn from, where the algorithm goes by places or
        they are rows of a query: a record that changes may come in another place there.
        """
        if isinstance(table, RecordStream):
            require_size(self.file, table, party)
            if self.streams(party, table.unordered):
                return StreamedRecords(self.file, table)
            table = table.table()
        values = values_of(self.file, table, party)
        held = self.file.held_out[self.file.party(party)]
        if held or self.study.algorithm.by_place or table.unordered:
            size = len(next(iter(values.values())))
            order = secret_order(size, new_key() if key is None else key)
            values = {name: column[order] for name, column in values.items()}
        learnt = {name: column[held:] for name, column in values.items()}
        return SplitRecords(learnt, {name: column[:held] for name, column in values.items()})

    def _encoded(self, values: Values) -> tuple[np.ndarray, ...]:
        return _as_arrays(self.posed, values)

    @property
    def costs(self) -> Sequence[Mapping[Viewer, Composed]]:
        """What all of it shows of each party to each viewer: start, training and test."""
        return costs_of(self.stages)

    def judge(self, value: Any, values: Values, name: str) -> dict[str, Any]:
        """How good a result is on public records that are `testable`; nothing is paid."""
        assert self.posed.score is not None
        scores = self.posed.score(value, self._encoded(values))
        return read_public(self.file, scores, values[self.file.data.target or ""], name)

    def tested(self, value: Any, certificate: Certificate, redrawn: bool = False) -> dict[str, Any]:
        """The document of the private test, by what its stage released."""
        assert self.test is not None
        result = Result(value, certificate, Transcript())
        return read_private(self.file, self.test, result, redrawn)

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
        return {
            "title": self.file.title,
            "model": self.file.model.name,
            "algorithm": self.algorithm.name,
            "study": self.study.hash,
            "file": self.file.hash,
            **({"printed": result.certificate.printed} if result.certificate.printed else {}),
            **shown,
        }

    def arrays(self, result: Result) -> dict[str, np.ndarray]:
        """What belongs into an .npz file, by name; empty where JSON says it all."""
        return dict(self.posed.arrays(result.value))


def _as_arrays(posed: Posed, values: Values) -> tuple[np.ndarray, ...]:
    return tuple(array.astype(np.float32) for array in posed.encode(values))


_SWAMPED = (
    "Noise was expected to swamp this result, as its study said beforehand: these numbers may be "
    "nothing but noise."
)


def chosen(file: StudyFile) -> tuple[AlgorithmKind, str]:
    """The algorithm of a study: the one that it names, or the one that "auto" takes and why.

    That is the model's published rule of public facts, unless the planner calls what it takes
    useless and another one better.
    """
    model, usual = file.model_kind, algorithm_named(file.choice.algorithm)
    if not model.solved_by(usual):
        known = ", ".join(one.name for one in algorithms_for(model))
        raise InvalidInput(f"{usual.name} cannot learn a {model.name}: choose {known} or auto")
    if file.algorithm.name != AUTO or planned_grade(file, usual) is not Grade.USELESS:
        return usual, file.choice.reason
    others = {
        one.name: planned_grade(file, one) for one in algorithms_for(model) if one is not usual
    }
    for grade in (Grade.GOOD, Grade.USABLE, Grade.DOUBTFUL):
        for name, found in others.items():
            if found is grade:
                words = f"{usual.name} is predicted to be useless here, this one {grade}"
                return algorithm_named(name), words
    drowned = "but noise is predicted to drown any answer (`unisono plan`)"
    return usual, f"{file.choice.reason}; {drowned}"


def planned_grade(file: StudyFile, kind: AlgorithmKind) -> Grade | None:
    """What the planner expects of an algorithm in this study; None where it expects nothing, or
    the algorithm cannot run."""
    task = file.model_kind.task
    predicted = task == Task.POSTERIOR or task in kind.laws
    fits = file.trust.mode in kind.trusts and file.privacy.unit in kind.units
    if not (predicted and fits):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the study is built
            study = _study(file, kind)[1]
        return predict(study, Task(task), len(file.data.classes)).grade
    except (InvalidInput, PrivacyViolation):
        return None


def build(file: StudyFile) -> Built:
    """The study that the file describes; what the algorithm refuses is an error of the file."""
    kind, reason = _placed(file, ("algorithm",), file.algorithm.name, lambda: chosen(file))
    own = [number for number, party in enumerate(file.parties) if party.epsilon is not None]
    for number in own[:1]:
        place = ("parties", number, "epsilon")
        _placed(file, place, "an epsilon of its own", lambda: _require_own_noise(kind))
    posed, study, start = _placed(file, ("algorithm",), kind.name, lambda: _study(file, kind))
    _placed(file, ("privacy", "unit"), "privacy.unit", lambda: _require_unit(file, study))
    test = _placed(file, ("evaluation", "epsilon"), "evaluation", lambda: examination(file))
    return Built(file, study, posed, kind, reason, test, start)


def _study(file: StudyFile, kind: AlgorithmKind) -> tuple[Posed, Study, Start | None]:
    """The study that learns, and what comes before it: the promise is for both together."""

    def made(kind: AlgorithmKind, promise: Privacy, said: Mapping[str, Any]) -> tuple[Posed, Study]:
        posed = file.model_kind.pose(file.model_settings, file.data, kind, promise)
        method = kind.method(posed.problem, promise, **{**posed.settings, **said})
        study = Study(method, facts_of(file, posed.features), file.trust.mode)
        study.costs  # noqa: B018  (what cannot be paid for is refused here, before anyone joins)
        return posed, study

    said, promise, start = file.algorithm_settings, file.promise, None
    posed = file.model_kind.pose(file.model_settings, file.data, kind, promise)
    method = kind.method(posed.problem, promise, **{**posed.settings, **said})
    if method.earlier is not None:
        first, promise = promise.split(method.earlier.share)
        own_posed, own_study = made(method.earlier.kind, first, {})
        start = Start(own_study, own_posed)
    return *made(kind, promise, said), start


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
    return replace(facts, retries=file.trust.retries)


def columns(file: StudyFile, table: RecordTable | RecordStream, party: str) -> Any:
    """A party's records as the study's algorithm reads them (see `Built.columns`)."""
    return build(file).columns(table, party)


__all__ = ["Built", "build", "chosen", "columns", "facts_of", "planned_grade", "privacy_of"]
