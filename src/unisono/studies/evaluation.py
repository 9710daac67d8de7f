"""How good a result is: on records that were kept out of training, or on public ones.

The score of a record lies in [0, 1] (`plan.Parts.score`): 1 where the predicted class is right and
0 where it is wrong, or the absolute error as a share of the target's range. With m records kept by
all parties together,

    private     ONE release of  Σ score + noise,  divided by m, which is public; the noise is that
                of a statistic of epsilon `evaluation.epsilon` (unit record, the study's relation,
                delta and trust, everybody takes part), paid in addition to the training. Where
                sizes are hidden, m is drawn by coins (`order`), and released with the scores:
                (Σ score, m) + noise, or right and wrong predictions, each with noise
    all         with `metrics = "all"` counts and sums instead, of models with scores in two
                rounds, from which all metrics follow (`algorithms.evaluation`)
    public      the mean score; nothing is released, and nothing is paid

Intervals hold the sampling error, and in the private case the noise too: they are about records
like these and not only about these. Those of shares are exact for independent records (Clopper and
Pearson), those of errors rest on the normal approximation. The result is fixed before its test, and
no record that was learnt from is in it, unless the secret order was lost (see `order`).
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaincinv, stdtrit

from unisono.algorithms import statistics
from unisono.algorithms.evaluation import evaluated_json, released_blocks
from unisono.algorithms.survey import STATISTICS, Question, Survey
from unisono.core.algorithm import agree_facts
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.data.columns import NamedColumn, NumericColumn
from unisono.models.evaluation import Judging, judging
from unisono.models.prediction import HazardRatio
from unisono.releases.together import studies_of
from unisono.studies.schema import StudyFile

SHARE, ERROR = "share of right predictions", "mean absolute error"
_REDRAWN = (
    "; the run was stopped, the secret choice of them was lost and they were drawn anew, so some "
    "had been learnt from before: expect too good a figure"
)


@dataclass(frozen=True)
class Examination:
    """The release that tests a result on records that were kept out of training; `how` where all
    metrics are asked for, and the `start` of those that take two rounds."""

    survey: Survey
    study: Study
    how: Judging | None = None
    start: Study | None = None


def examination(file: StudyFile) -> Examination | None:
    """The private test that a file asks for, if it does."""
    asked, privacy = file.evaluation, file.privacy
    if asked is None or asked.epsilon is None:
        return None
    promise, how = Privacy(asked.epsilon, privacy.delta, privacy.relation), None
    kind = STATISTICS
    if asked.metrics == "all":
        chances = file.model_kind.chances
        timed = file.model_kind.prediction is HazardRatio
        how = judging(
            file.data, asked.by, sum(file.held_out), promise, chances=chances, timed=timed
        )
        survey, kind = how.survey, how.kind
    else:
        survey = Survey([_question(file)])
    facts = agree_facts(
        file.held_out,
        1 if how is None else how.width,
        file.trust.mode,
        minimum_parties=file.survivors,
        colluders=file.colluders,
        exact_sizes=file.data.sizes == "exact",
    )
    if file.data.group is not None:  # one record of each person, drawn in secret, is tested
        facts = replace(facts, records_per_person=1, person_at_parties=file.data.person_at_parties)
    start, study = studies_of(kind.method(survey, promise), facts, file.trust.mode)
    return Examination(survey, study, how, start)


def _question(file: StudyFile) -> Question:
    """The mean score."""
    if _classes(file):
        return statistics.proportion(0, name="score")
    return statistics.mean(0, (0.0, 1.0), name="score")


def read_private(
    file: StudyFile, test: Examination, result: Result, redrawn: bool = False
) -> dict[str, Any]:
    """The document of a private test; where the choice of records was lost on the way and made
    again (`redrawn`) it says so."""
    assert file.evaluation is not None
    confidence = file.evaluation.confidence
    exact = file.data.sizes == "exact"
    known = {"records": sum(file.held_out)} if exact else _counted(test, result)
    shown = {
        **known,
        "baseline": None,
        "how": f"held-out records, paid with epsilon {file.evaluation.epsilon:g}"
        + ("" if exact else "; their number is noisy")
        + (_REDRAWN if redrawn else ""),
    }
    if test.how is not None:
        return _all_metrics(test.how, test.study, result, confidence) | shown
    [found] = test.survey.read(test.study, result, confidence)
    interval = found.population_interval
    if _classes(file) and exact:
        [noise] = test.survey.read(test.study, result, (1 + confidence) / 2)
        interval = noisy_share_interval(noise.interval, sum(file.held_out), confidence)
    assert interval is not None
    return _document(file, float(found.value), interval, confidence) | shown


def _counted(test: Examination, result: Result) -> dict[str, Any]:
    """About how many records were tested, where their number is released with their scores, and the
    deviation of its noise."""
    first = released_blocks(test.survey, test.study, result)[0]
    counts = first.values[:, 0]  # of each outcome; or of all, before the sums of their values
    noise = first.law.std * math.sqrt(len(counts))
    return {"records": max(0, round(float(counts.sum()))), "records_noise": noise}


def _all_metrics(how: Judging, study: Study, result: Result, confidence: float) -> dict[str, Any]:
    """The first metric as the score, and all of them."""
    found = how.read(study, result, confidence)
    first = found.overall.metrics[0]
    known = first.determined
    return {
        "measure": SHARE if first.name == "accuracy" else first.name,
        "value": first.value if known else None,
        "low": first.low if known else None,
        "high": first.high if known else None,
        "confidence": confidence,
        "metrics": evaluated_json(found),
    }


def read_public(
    file: StudyFile, scores: np.ndarray, targets: np.ndarray, name: str
) -> dict[str, Any]:
    """The document of a test on public records: their scores (n,), and their targets (n,) as
    places of classes or as numbers."""
    confidence = file.evaluation.confidence if file.evaluation else 0.95
    interval = (
        share_interval(int(scores.sum()), len(scores), confidence)
        if _classes(file)
        else mean_interval(scores, confidence)
    )
    shown = {
        "records": len(scores),
        "how": f"public file {name}",
        "baseline": _baseline(file, targets),
    }
    return _document(file, float(scores.mean()), interval, confidence) | shown


def share_interval(right: int, records: int, confidence: float) -> tuple[float, float]:
    """Clopper and Pearson's interval for a probability, exact for independent records.

    >>> [round(end, 3) for end in share_interval(9, 10, 0.95)]
    [0.555, 0.997]
    """
    tail, wrong = (1 - confidence) / 2, records - right
    low = 0.0 if right == 0 else float(betaincinv(right, wrong + 1, tail))
    high = 1.0 if wrong == 0 else float(betaincinv(right + 1, wrong, 1 - tail))
    return low, high


def noisy_share_interval(
    counted: tuple[float, float], records: int, confidence: float
) -> tuple[float, float]:
    """An interval for a probability where `counted` holds the share of right ones with half of the
    error: the exact intervals of the fewest and the most that it allows, with the other half.

    >>> [round(end, 3) for end in noisy_share_interval((0.88, 1.0), 30, 0.95)]
    [0.71, 1.0]
    """
    fewest, most = math.ceil(counted[0] * records - 1e-9), math.floor(counted[1] * records + 1e-9)
    half = (1 + confidence) / 2
    return share_interval(fewest, records, half)[0], share_interval(most, records, half)[1]


def mean_interval(scores: np.ndarray, confidence: float) -> tuple[float, float]:
    """Student's interval for a mean in [0, 1]; one record alone says nothing."""
    if len(scores) < 2:
        return 0.0, 1.0
    quantile = float(stdtrit(len(scores) - 1, (1 + confidence) / 2))
    margin = quantile * float(scores.std(ddof=1)) / math.sqrt(len(scores))
    middle = float(scores.mean())
    return max(0.0, middle - margin), min(1.0, middle + margin)


def _document(
    file: StudyFile, value: float, interval: tuple[Any, Any], confidence: float
) -> dict[str, Any]:
    """Scores in the user's units: shares, or errors of the target."""
    unit = 1.0 if _classes(file) else _range(file)
    low, high = map(float, interval)
    return {
        "measure": SHARE if _classes(file) else ERROR,
        "value": unit * value,
        "low": unit * low,
        "high": unit * high,
        "confidence": confidence,
    }


def _baseline(file: StudyFile, targets: np.ndarray) -> float:
    """What who always says the commonest class, or the mean, would reach on these records."""
    if _classes(file):
        return float(np.bincount(targets.astype(int)).max() / len(targets))
    return float(np.abs(targets - targets.mean()).mean())


def _classes(file: StudyFile) -> bool:
    return isinstance(file.data.columns[file.data.target or ""], NamedColumn)


def _range(file: StudyFile) -> float:
    column = file.data.columns[file.data.target or ""]
    assert isinstance(column, NumericColumn)
    return column.span[1] - column.span[0]


__all__ = ["Examination", "examination", "read_private", "read_public"]
