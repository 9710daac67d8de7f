"""What a study would give: its noise, and how useful its result would be.

    task             what is predicted
    mean             standard error that noise adds, exactly
    classification   accuracy lost against the same model without privacy, roughly
    regression       share of R² lost, roughly
    network          accuracy lost, roughly, from the signal-to-noise of its steps
    posterior        how many times wider a slope's posterior gets

A prediction reads no records: it needs the public facts of a `Study` only. What a loss means is
decided by `verdicts`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unisono.algorithms.registry import algorithm_named
from unisono.algorithms.survey import Opened, pack
from unisono.core.study import Result, Study
from unisono.core.trust import Trust, Unit
from unisono.errors import InvalidInput
from unisono.planning import laws
from unisono.planning.answers import PlannedError, Present, answers_of
from unisono.planning.laws import Band
from unisono.planning.noise import Noise, noise_of, released_numbers, weights_in_words
from unisono.planning.posteriors import width_of
from unisono.planning.tasks import Task
from unisono.planning.verdicts import HEADROOM, Grade, verdict

# Answers, each with what its error is compared with (`models.model.Posed`).
Planned = Callable[[Study, Result], Sequence[tuple[Mapping[str, Any], float]]]
MEASURES = {
    Task.MEAN: "standard error of the noise",
    Task.CLASSIFICATION: "accuracy lost",
    Task.REGRESSION: "share of R² lost",
    Task.NETWORK: "accuracy lost",
    Task.POSTERIOR: "posterior wider by",
}


@dataclass(frozen=True)
class Prediction:
    """What is to be expected of a study, in the units of `MEASURES`; `rough` where it is a law
    fitted to simulations, whose band does not always hold. `weights`: what weights of parties cost,
    in words, where they cost anything."""

    task: Task
    algorithm: str
    trust: Trust
    unit: Unit
    noise: Noise
    band: Band
    grade: Grade
    rough: bool
    answers: tuple[PlannedError, ...] = ()
    weights: str = ""
    about: str = ""  # the answer that is worst for its range, where there are several
    compared_with: float = 1.0  # what the error of an answer is compared with

    @property
    def likely(self) -> float:
        return self.band.likely

    def to_json(self) -> dict[str, Any]:
        noise = self.noise
        return {
            "algorithm": self.algorithm,
            "trust": str(self.trust),
            "unit": str(self.unit),
            "noise": {
                **noise._asdict(),
                "signal_to_noise": noise.ratio,
                "signal_to_noise_of_the_run": noise.total,
            },
            "measure": MEASURES[self.task],
            **self.band._asdict(),
            "grade": str(self.grade),
            "rough": self.rough,
            "weights": self.weights,
            "answers": [one._asdict() for one in self.answers],
        }


def predict(
    study: Study,
    task: Task,
    classes: int = 0,
    headroom: float | None = None,
    without_privacy: float | None = None,
) -> Prediction:
    """For everything that is learned; `classes` 0 where a number is predicted. `headroom` is how
    far a model without privacy is ahead of knowing nothing (`verdicts`); nothing is lost that a
    classifier `without_privacy` does not have, if somebody knows its accuracy."""
    noise = noise_of(study)
    if task is Task.POSTERIOR:
        width = width_of(study, noise)
        band = Band(width.inflation, width.inflation, width.inflation)
        grade = verdict(task, band, 1.0) if width.learnt else Grade.USELESS
        return _made(study, task, noise, band, grade, width.rough)
    own = algorithm_named(study.algorithm.name).laws
    if task not in own:
        raise InvalidInput(
            f"nobody has measured what noise costs {study.algorithm.name} in a {task}: it is not "
            "predicted; its noise is in `unisono check`"
        )
    band = laws.band(own[task], noise.total, classes)
    if classes and without_privacy is not None:
        band = Band(*(min(end, max(0.0, without_privacy - 1 / classes)) for end in band))
    grade = verdict(task, band, HEADROOM[task] if headroom is None else headroom)
    return _made(study, task, noise, band, grade, True)


def predict_figures(study: Study, planned: Planned, columns: tuple[np.ndarray, ...]) -> Prediction:
    """For answers that say themselves what their errors are compared with."""

    def present(study: Study, result: Any) -> Mapping[str, Any]:
        return {"answers": [answer for answer, _ in planned(study, result)]}

    nothing = np.zeros(released_numbers(study))
    value = pack(Opened(nothing, study.facts.parties, sum(study.facts.records)))
    ranges = [width for _, width in planned(study, Result(value, None, None))]  # type: ignore[arg-type]
    return predict_answers(study, present, columns, ranges)


def predict_answers(
    study: Study, present: Present, columns: tuple[np.ndarray, ...], ranges: Sequence[float]
) -> Prediction:
    """For the questions of a survey, tried on made-up `columns`; `ranges` (answers,) is what each
    error is compared with."""
    noise = noise_of(study)
    answers = tuple(answers_of(study, present, columns, noise.std))
    errors = [one.margin / 2 if one.error is None else one.error for one in answers]
    shares = [error / width for error, width in zip(errors, ranges, strict=True)]
    worst = int(np.argmax(shares))
    band = Band(errors[worst], errors[worst], errors[worst])
    grade = verdict(Task.MEAN, Band(*[shares[worst]] * 3), 1.0)
    made = _made(study, Task.MEAN, noise, band, grade, False, answers)
    about = answers[worst].name if len(answers) > 1 else ""
    return replace(made, about=about, compared_with=ranges[worst])


def _made(
    study: Study,
    task: Task,
    noise: Noise,
    band: Band,
    grade: Grade,
    rough: bool,
    answers: tuple[PlannedError, ...] = (),
) -> Prediction:
    unit = study.algorithm.event(study.facts, study.trust).sensitivity.unit
    name = study.algorithm.name
    weights = weights_in_words(study)
    return Prediction(task, name, study.trust, unit, noise, band, grade, rough, answers, weights)


__all__ = ["MEASURES", "Prediction", "predict", "predict_answers", "predict_figures"]
