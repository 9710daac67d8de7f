"""A study that chooses among candidates: every one is learnt, and noisy scores say which is taken.

The candidates are files of their own, with the same columns, parties and trust, which differ in
[model] and [algorithm]. Their stages follow each other, and one release of scores comes last
(`algorithms.held_out_scores`), by all records, or by those that were kept out of training:

    fit   candidate-2   candidate-3   ...   scores           (a candidate that begins with another
                                                              release has a stage before it)

The first candidate's stage is the one that is called "fit". Everybody sees all of it, and pays for
the composition of all: `build_search` finds the largest epsilon for one candidate with which all
stages together keep the study's promise, against everyone to whom one candidate alone would keep
it. Candidates that are functions of one release (`AlgorithmKind.afterwards`) share its stage, which
tells all that was released (`Study.released`): everybody makes all their results of it.

What is chosen is post-processing of what was released. Scores stand in the result, with noise. So
is the average of the first candidates of all releases (`models.average`), which is judged beside
them where the file says `average`.

By "random-stopping" a run is one candidate's stages and a release of its score; how many runs
count, and of which candidates they are, is drawn, and only the best is shown (`core.prepaid`). A
record that was kept out of training is in the score only, another one in both. The
file's epsilon is then promised to whoever sees the final model.

Between machines the server draws the lots once, keeps them, and tells the parties before the first
run: they are asked in every run, see all of them, and pay for as many as there can be, before the
first. Nobody else may learn the lots, or which run it was that is shown.

    lots   run-1   run-1-scores   run-2   run-2-scores   ...
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.held_out_scores import (
    HELD_OUT_SCORES,
    NUMBERS_GAIN,
    JudgedModels,
    score_deviation,
)
from unisono.core.algorithm import agree_facts
from unisono.core.costs import added
from unisono.core.events import Composed
from unisono.core.prepaid import SEES_BEST_ONLY, UNPROVED, stopping_cost
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.transcript import Transcript
from unisono.core.trust import Viewer
from unisono.data.blocks import values_in_blocks
from unisono.data.columns import NamedColumn
from unisono.data.encoding import Frame, Values
from unisono.errors import InvalidInput, UnisonoError, UnknownEvent
from unisono.models.average import Average
from unisono.models.fitted import features_of
from unisono.models.model import share_of_range
from unisono.planning.verdicts import Grade, network_beside_line
from unisono.releases.together import largest_part
from unisono.studies.build import Built, build_one, planned_grade
from unisono.studies.evaluation import read_public
from unisono.studies.schema import StudyFile, tried, unremembered
from unisono.studies.stages import FIT, START, Found, SplitRecords, Stage, costs_of

SCORES, LOTS = "scores", "lots"
DROWNED = 0.05  # of scores in [0, 1]: candidates seldom differ by more; of numbers, over the gain


class Choice(NamedTuple):
    """Which candidate was taken, and the noisy score of each; the average, if it was judged, comes
    after the candidates."""

    best: int
    scores: tuple[float | None, ...]


class Lots(NamedTuple):
    """How many runs count, and of which candidate each of those is that there can be."""

    number: int
    places: tuple[int, ...]

    @property
    def told(self) -> np.ndarray:
        return np.array([self.number, *self.places], np.int32)


class Taken(NamedTuple):
    """What a search ends in: what was found, the study by which it is certified, and the stage that
    tells it. Of an average, those of the first candidate."""

    value: Any
    study: Study
    stage: str


@dataclass(frozen=True)
class SearchBuilt(Built):
    """The study of a search. Seen as one of its first candidate, with more stages."""

    candidates: tuple[Built, ...] = ()
    shared: tuple[int, ...] = ()  # by candidate, the first one with the same release
    judged: Study | None = None
    epsilon: float = 0.0  # of one candidate
    lots: Lots | None = None  # once they are drawn, or told

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        made = [
            stage
            for place, first in enumerate(self.shared)
            if first == place
            for stage in self.stages_of(place)
        ]
        assert self.judged is not None
        return (*made, Stage(SCORES, self.judged, self._scores))

    def stages_of(self, place: int) -> tuple[Stage, ...]:
        """What one candidate releases."""
        before, told = f"{stage_name(place)}-{START}", self._shares(place)
        return tuple(
            replace(
                stage,
                begins_with=before,
                name=before if stage.name == START else stage_name(place),
                study=stage.study.released if told else stage.study,
            )
            for stage in self.candidates[place].stages
            if stage.name in (START, FIT)
        )

    # ------------------------------------------------------------- random stopping between machines

    @cached_property
    def course(self) -> tuple[Stage, ...]:
        if not self.at_random:
            return self.stages
        told = Stage(LOTS, self._lots_study, self._blank, last_if_lost=False)
        if self.lots is None:
            return (told,)
        runs = (self._run(run, place) for run, place in enumerate(self.lots.places))
        return (told, *(stage for run in runs for stage in run))

    @property
    def course_known(self) -> bool:
        return not self.at_random or self.lots is not None

    @property
    def _lots_study(self) -> Study:
        """A study of no rounds, which reads nothing: the server tells its state."""
        assert self.file.search is not None
        assert self.judged is not None
        most, own = self.file.search.most, self.judged.algorithm
        known = np.zeros(1 + most, np.int32) if self.lots is None else self.lots.told
        telling = own._replace(
            name=LOTS,
            rounds=0,
            init=lambda facts: (known, None),
            ask=lambda state: (),
            result=lambda state: state,
        )
        return Study(telling, replace(self.judged.facts, retries=0), self.judged.trust)

    def _blank(self, records: SplitRecords, found: Found) -> tuple[np.ndarray, ...]:
        """Of as many records as are there, nothing."""
        own = next(iter(self._judging(records).values()))
        return (np.zeros((len(own), 1), np.float32),)

    def informed(self, found: Found) -> "Built":
        if not self.at_random or self.lots is not None or LOTS not in found:
            return self
        number, *places = (int(one) for one in np.asarray(found[LOTS]))
        known = range(len(self.candidates))
        if not 1 <= number <= len(places) or any(place not in known for place in places):
            raise InvalidInput("lots of runs or candidates that the study does not have: refused")
        return replace(self, lots=Lots(number, tuple(places)))

    def _run(self, run: int, place: int) -> tuple[Stage, ...]:
        """One candidate, learnt and judged."""
        assert self.judged is not None
        name, before = run_stage(run), f"{run_stage(run)}-{START}"
        learnt = [
            replace(
                stage,
                name=name if stage.name == stage_name(place) else before,
                begins_with=before,
                last_if_lost=False,
            )
            for stage in self.stages_of(place)
        ]

        def scored(records: SplitRecords, found: Found) -> tuple[np.ndarray, ...]:
            return (self.score(place, found[name], records)[:, None].astype(np.float32),)

        return (*learnt, Stage(f"{name}-{SCORES}", self.judged, scored, last_if_lost=False))

    def run_at(self, stage: Stage) -> int | None:
        """Of which run a stage is; None of one that is of none."""
        found = _RUN.match(stage.name)
        return int(found[1]) - 1 if found and self.at_random else None

    def _best_run(self, found: Found, opened: Mapping[str, int]) -> tuple[Choice | None, Taken]:
        """The best of the runs that count; of none, the first, of which nothing is shown."""
        assert self.lots is not None
        best: tuple[float, int] | None = None
        for run in range(self.lots.number):
            name = run_stage(run)
            if not (opened.get(name) and opened.get(f"{name}-{SCORES}")):
                continue
            [score] = np.asarray(found[f"{name}-{SCORES}"], float)
            if best is None or score > best[0]:
                best = (float(score), run)
        run = 0 if best is None else best[1]
        place, name = self.lots.places[run], run_stage(run)
        taken = Taken(found.get(name), self.candidates[place].study, name)
        if best is None:
            return None, taken
        shown = tuple(best[0] if one == place else None for one in range(len(self.candidates)))
        return Choice(place, shown), taken

    def outcome(self, found: Found, opened: Mapping[str, int]) -> tuple[Choice | None, Taken]:
        """What was taken, by what all stages found, and how many rounds each of them opened."""
        if self.at_random:
            return self._best_run(found, opened)
        choice = self.choice(found) if opened.get(SCORES) else None
        return choice, self.taken(choice, found)

    # ------------------------------------------------------------- candidates

    def _shares(self, place: int) -> bool:
        """Whether a candidate's release is another's, too."""
        return self.shared.count(self.shared[place]) > 1

    @property
    def averages(self) -> bool:
        """Whether an average is judged beside the candidates."""
        return self.file.search is not None and self.file.search.average

    @property
    def members(self) -> tuple[int, ...]:
        """The candidates that are averaged: the first of every release."""
        return tuple(dict.fromkeys(self.shared))

    @property
    def at_random(self) -> bool:
        return self.file.search is not None and self.file.search.method == "random-stopping"

    @property
    def costs(self) -> Sequence[Mapping[Viewer, Composed]]:
        """What all of it shows of each party to each viewer, before anything is drawn."""
        if not self.at_random:
            return costs_of(self.stages)
        assert self.file.search is not None
        most = self.file.search.most
        return [stopping_cost(parts, most) for parts in self.parts]

    @cached_property
    def parts(self) -> list[list[Mapping[Viewer, Composed]]]:
        """For each party what a run may show of a record: one candidate's stages, or a score, where
        some are kept out of training; else both."""
        assert self.judged is not None
        columns = [costs_of(self.stages_of(place)) for place in range(len(self.candidates))]
        pairs = zip(*columns, self.judged.costs, strict=True)
        if self.kept_apart:
            return [list(own) for own in pairs]
        return [[added([fit, score]) for fit in fits] for *fits, score in pairs]

    def run_of(
        self, parts: Sequence[Mapping[Viewer, Composed]], place: int
    ) -> list[Mapping[Viewer, Composed]]:
        """Of a party's `parts`, those that the run of a candidate releases."""
        return [parts[place], parts[-1]] if self.kept_apart else [parts[place]]

    @property
    def kept_apart(self) -> bool:
        """Whether records that judge are kept out of training."""
        return self.file.search is not None and bool(self.file.search.holdout)

    @property
    def whose(self) -> str:
        """By which records scores are, in words."""
        kept = "none learns from" if self.kept_apart else "are learnt from"
        return f"{sum(self.file.judges):,} records that {kept}"

    def _judging(self, records: SplitRecords) -> Values:
        return records.kept if self.kept_apart else records.learnt

    def _scores(self, records: SplitRecords, found: Found) -> tuple[np.ndarray, ...]:
        """The score (m,) of each record by every candidate: (m, candidates), in [0, 1]."""
        columns = [
            self.score(place, self.value(place, found), records)
            for place in range(len(self.candidates))
        ]
        if self.averages:
            columns.append(self._score_of(self.average(found), self._judging(records)))
        return (np.stack(columns, axis=1).astype(np.float32),)

    def score(self, place: int, value: Any, records: SplitRecords) -> np.ndarray:
        """The score (m,) of each record by one candidate, in [0, 1]."""
        own = self.candidates[place]
        said = own.posed.scores(own.study, value, own._encoded(self._judging(records)))
        return said if self.right_or_wrong else 1.0 - said

    @property
    def right_or_wrong(self) -> bool:
        """Whether scores are shares of right answers; else they are 1 minus an error as a share of
        the target's range."""
        return right_or_wrong(self.file)

    def value(self, place: int, found: Found) -> Any:
        """What a candidate's stage found, or what it makes of another's release."""
        told = found[stage_name(self.shared[place])]
        return self.candidates[place].study.algorithm.result(told) if self._shares(place) else told

    def average(self, found: Found) -> Average:
        """The average of candidates, by what their stages found."""
        made = []
        for place in self.members:
            own = self.candidates[place]
            assert own.posed.prediction is not None
            # What a model predicts follows from its value alone.
            value = Result(self.value(place, found), None, Transcript())  # type: ignore[arg-type]
            made.append(own.posed.prediction(own.study, value))
        return Average.of(made)

    def _score_of(self, said: Average, values: Values) -> np.ndarray:
        """The score (m,) of each record by an average, as those of candidates are."""
        schema = self.file.data
        features, frame = features_of(schema, said), Frame(schema)

        def compute(own: Values) -> tuple[np.ndarray]:
            rows = said.rows(features, own)
            answers, true = said.predict(rows), frame.labels(own, signed=False)
            if self.right_or_wrong:
                return ((np.isfinite(rows).all(axis=1) & (answers == true)).astype(float),)
            scaled = (answers - frame.targets.centre) / frame.targets.half
            return (1.0 - share_of_range(scaled, true),)

        return values_in_blocks(compute, values)[0]

    def taken(self, choice: Choice | None, found: Found) -> Taken:
        """The best, or the first candidate, where no scores say which that is."""
        place = 0 if choice is None else choice.best
        if place == len(self.candidates):
            return Taken(self.average(found), self.candidates[0].study, FIT)
        own = self.candidates[place]
        return Taken(self.value(place, found), own.study, stage_name(self.shared[place]))

    def judge_taken(
        self, choice: Choice | None, value: Any, test: tuple[Values, str]
    ) -> dict[str, Any]:
        """How good what was taken is on public records; nothing is paid."""
        if not isinstance(value, Average):
            return self.candidates[0 if choice is None else choice.best].judge(value, *test)
        values, name = test
        right = self._score_of(value, values)
        targets = values[self.file.data.target or ""]
        return read_public(self.file, right if self.right_or_wrong else 1.0 - right, targets, name)

    def choice(self, found: Found) -> Choice:
        scores = np.asarray(found[SCORES], float)
        return Choice(int(np.argmax(scores)), tuple(map(float, scores)))

    def shown(self, choice: Choice | None) -> dict[str, Any]:
        """What the result says of the search: what was tried, which was taken, and the noise."""
        search = self.file.search
        assert search is not None
        entries = len(self.candidates) + self.averages
        scores = [None] * entries if choice is None else choice.scores
        mean: dict[str, Any] = {"model": self._average_words, "algorithm": "", "settings": {}}
        return {
            "method": search.method,
            "chosen": 1 if choice is None else choice.best + 1,
            "measure": "share of right predictions"
            if self.right_or_wrong
            else "1 - mean absolute error as a share of the target's range",
            "noise": self.noise,
            "judges": sum(self.file.judges),
            "learnt_from": not self.kept_apart,
            "epsilon_of_one": self.epsilon,
            "candidates": [
                {
                    "model": own.file.model.name,
                    "algorithm": own.algorithm.name,
                    "settings": {
                        f"{section}.{name}": value
                        for section, own_settings in one.items()
                        for name, value in own_settings.items()
                        if name != "name"
                    },
                    "score": score,
                }
                for own, one, score in zip(self.candidates, search.overrides, scores, strict=False)
            ]
            + [mean | {"score": scores[-1]}] * self.averages,
        }

    @property
    def _average_words(self) -> str:
        places = ", ".join(str(place + 1) for place in self.members)
        return f"the average of candidates {places}"

    @property
    def noise(self) -> float:
        """The standard deviation of the noise in the difference of two candidates' scores."""
        assert self.judged is not None
        problem, facts = self.judged.method.problem, self.judged.facts
        event = self.judged.algorithm.event(facts, self.judged.trust)
        deviation = event.noise.deviation(problem.models + 1)
        return score_deviation(problem, deviation, sum(facts.records))


def right_or_wrong(file: StudyFile) -> bool:
    return isinstance(file.data.columns[file.data.target or ""], NamedColumn)


_RUN = re.compile(r"run-(\d+)(?:-|$)")


def run_stage(run: int) -> str:
    """How the stage that learns in a run is called."""
    return f"run-{run + 1}"


def stage_name(place: int) -> str:
    """How the stage of a candidate is called."""
    return FIT if place == 0 else f"candidate-{place + 1}"


def build_search(file: StudyFile) -> SearchBuilt:
    """All candidates, each for a part of the promise, and the release that judges them."""
    assert file.search is not None
    files = [tried(file, one) for one in file.search.overrides]
    promise = file.promise

    def made(epsilon: float) -> tuple[SearchBuilt, float]:
        built = _with(file, files, epsilon)
        try:
            return built, _spent(built, epsilon)
        except UnknownEvent:
            raise InvalidInput(
                f"{file.source.where(('search', 'method'))}: {UNPROVED.format('method = ')}"
            ) from None

    start = promise.epsilon / math.sqrt(len(files))
    found = largest_part(promise.epsilon, start, made)
    if found is None:
        raise InvalidInput(
            f"{file.source.where(('search',))}: no noise makes a search among {len(files)} "
            f"candidates keep epsilon {promise.epsilon:g}: try fewer, or a larger budget"
        )
    return found[0]


def _with(file: StudyFile, files: Sequence[StudyFile], epsilon: float) -> SearchBuilt:
    assert file.search is not None
    privacy = file.privacy.model_copy(update={"epsilon": epsilon})
    candidates = tuple(build_one(unremembered(own, {"privacy": privacy})) for own in files)
    shared = _shared(candidates)
    at_random = file.search.method == "random-stopping"
    if at_random and len(set(shared)) < len(shared):
        raise InvalidInput(
            f"{file.source.where(('search', 'method'))}: some candidates are functions of one "
            'release, which random stopping would make again for each: use method = "all"'
        )
    share, fits = file.search.score_share, 1 if at_random else len(set(shared))
    # A record that only judges may show as much in a score as another does in a run.
    apart = at_random and file.search.holdout
    part = 1.0 if apart else math.sqrt(fits * share / (1 - share))
    paid = Privacy(epsilon * part, privacy.delta, privacy.relation)
    judged = 1 if at_random else len(candidates) + file.search.average
    facts = agree_facts(
        file.judges,
        judged,
        file.trust.mode,
        minimum_parties=file.survivors,
        colluders=file.colluders,
    )
    gain = 1.0 if right_or_wrong(file) else NUMBERS_GAIN
    method = HELD_OUT_SCORES.method(JudgedModels(judged, gain), paid)
    first = candidates[0]
    found = SearchBuilt(
        file,
        first.study,
        first.posed,
        first.algorithm,
        first.reason,
        None,
        first.start,
        None,
        {},
        candidates,
        shared,
        Study(method, facts, file.trust.mode),
        epsilon,
    )
    if file.search.average:
        _require_average(found)
    return found


def _require_average(built: SearchBuilt) -> None:
    """Refuse, before anything is paid, an average of what cannot be averaged: tried on what stages
    tell before they begin."""
    where = built.file.source.where(("search", "average"))
    if len(built.members) < 2:
        raise InvalidInput(
            f"{where}: all candidates are functions of one release, and an average is of several: "
            "leave it out"
        )
    blank = {}
    for place in built.members:
        [*_, stage] = built.stages_of(place)
        blank[stage.name] = stage.study.algorithm.result(_first_state(stage.study))
    try:
        built.average(blank)
    except (UnisonoError, ArithmeticError, ValueError, AssertionError) as error:
        raise InvalidInput(
            f"{where}: {str(error) or 'a candidate predicts nothing'}; leave it out"
        ) from None


def _first_state(study: Study) -> Any:
    return study.algorithm.init(study.facts)[0]


def _shared(candidates: Sequence[Built]) -> tuple[int, ...]:
    """By candidate, the first whose release serves it too: of the same records, encoded alike."""
    known: dict[Any, int] = {}
    found = []
    for place, own in enumerate(candidates):
        study, key = own.study, None
        if own.start is None and study.algorithm.rounds == 1 and study.method.kind.afterwards:
            agreed = Study(study.method.released, study.facts, study.trust).hash
            key = (own.file.model, own.algorithm.name, agreed)
        found.append(place if key is None else known.setdefault(repr(key), place))
    return tuple(found)


def _spent(built: SearchBuilt, epsilon: float) -> float:
    """What all stages together cost, against those to whom one candidate keeps its promise."""
    privacy = built.file.privacy
    kept = list(SEES_BEST_ONLY) if built.at_random else _kept(built.candidates[0], epsilon)
    kinds = {id(cost): cost for cost in built.costs}.values()
    return max(
        (
            ACCOUNTANT.epsilon(cost[viewer], privacy.relation, privacy.delta)
            for cost in kinds
            for viewer in kept
        ),
        default=math.inf,
    )


def _kept(built: Built, epsilon: float) -> list[Viewer]:
    privacy, cost = built.file.privacy, built.costs[0]
    return [
        viewer
        for viewer, seen in cost.items()
        if not seen.discloses
        and ACCOUNTANT.fits(seen, privacy.relation, 1.001 * epsilon, privacy.delta)
    ]


def plan_words(built: SearchBuilt) -> str:
    """What a study says of its search beforehand."""
    fits, number = len(set(built.shared)), len(built.candidates)
    if built.at_random:
        assert built.file.search is not None
        return (
            f"It is the best of a secret random number of runs, at most {built.file.search.most}, "
            f"each of one of {number} candidates that is drawn at random and learnt for epsilon "
            f"{built.epsilon:.3g}, by noisy scores of {built.whose} (noise of standard deviation "
            f"{built.noise:.2g} between two). Who "
            "sees the final result sees the best run only; who sees intermediate results pays for "
            "as many runs as there can be."
        )
    alike = "" if fits == number else f", of whom some share a release: {fits} are made"
    mean = ", or the average of what they are" if built.averages else ""
    return (
        f"It is one of {number} candidates{alike}{mean}. Each is learnt for epsilon "
        f"{built.epsilon:.3g}; the noisy scores of all, by {built.whose}, "
        f"say which is taken. Two scores differ by noise of standard deviation {built.noise:.2g}. "
        "The costs below are for all of it."
    )


def cannot_help(built: SearchBuilt) -> str:
    """Why a search will not find a better model than the file's own would be with all of epsilon;
    nothing where it may."""
    assert built.judged is not None
    if built.noise > DROWNED / built.judged.method.problem.gain:
        return (
            f"noise of standard deviation {built.noise:.2g} between two scores drowns what "
            "candidates usually differ by, so the choice is nearly blind"
        )
    if words := _only_networks(built):
        return words
    alone = unremembered(built.candidates[0].file, {"search": None})
    kind = built.candidates[0].algorithm
    whole, part = (planned_grade(own, kind) for own in (alone, built.candidates[0].file))
    if part is Grade.USELESS and whole is not Grade.USELESS:
        return (
            f"with epsilon {built.epsilon:.3g} for each candidate noise is predicted to drown what "
            f"{kind.name} learns, and with all of epsilon it is not"
        )
    return ""


def _only_networks(built: SearchBuilt) -> str:
    """Where nothing but networks is tried beside a line, whether these can be better."""
    first, *others = [own.file.model.name for own in built.candidates]
    if first == "network" or set(others) != {"network"}:
        return ""
    file = built.file
    target = file.data.columns[file.data.target or ""]
    classes = len(target.levels) if isinstance(target, NamedColumn) else 0
    records, epsilon = sum(file.training), file.privacy.epsilon
    return network_beside_line(records, epsilon, classes, built.averages)


def each_candidate(built: Built) -> list[Built]:
    """All that a policy must allow: every candidate, or the study itself."""
    return list(built.candidates) if isinstance(built, SearchBuilt) else [built]


def candidate_words(one: Mapping[str, Any]) -> str:
    """What a candidate is; an average is learnt by nothing."""
    return f"{one['model']} by {one['algorithm']}" if one["algorithm"] else str(one["model"])


def searched_words(found: Mapping[str, Any]) -> list[str]:
    """What a result says of its search, in lines."""
    judged = "were learnt from" if found.get("learnt_from") else "none learnt from"
    lines = [
        f"candidate {found['chosen']} of {len(found['candidates'])} was taken, by the noisy "
        f"{found['measure']} of {found['judges']:,} records that {judged}; two scores "
        f"differ by noise of standard deviation {found['noise']:.2g}"
    ]
    for place, one in enumerate(found["candidates"], 1):
        own = [f"{name} = {value}" for name, value in one["settings"].items()]
        said = ", ".join([candidate_words(one), *own])
        score = "not shown" if one["score"] is None else f"{one['score']:.4f}"
        lines.append(f"{'*' if place == found['chosen'] else ' '} {place:>3}  {score:>8}  {said}")
    lines.append(
        "The score of the one that was taken is too good on average: it was taken for being large."
    )
    return lines


__all__ = [
    "LOTS",
    "SCORES",
    "Choice",
    "Lots",
    "SearchBuilt",
    "Taken",
    "build_search",
    "candidate_words",
    "cannot_help",
    "each_candidate",
    "plan_words",
    "run_stage",
    "searched_words",
    "stage_name",
]
