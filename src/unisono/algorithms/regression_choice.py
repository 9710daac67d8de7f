"""Which algorithm fits a line best: the R² that each is predicted to lose, from public facts alone.

A prediction needs a supposition about data that nobody looks at: d columns that do not depend on
each other, each with a deviation of a quarter of its half range, like the target's, of whose
variance they explain R² = .3, and whose mean lies a deviation from the middle of its range. Then
with n records and the noise that a study will add, whose law is public, what is lost follows from
the algorithm's own equations. In one direction of the rows,

    fisher-scoring          standardised rows have curvature n h, h the share of weight that bounds
                            leave. A round's gradient has noise s_g, its curvature s_h, so what is
                            left of the loss is  L' = a / (1 + a / L),
                            a = p (s_g / n h)² (1 - R² + L) + (p + 1) / 2 (s_h / n h)² L
                            from R² and the square error of the target's middle, that of 32 noisy
                            counts: (4 s_0 / n)² with noise s_0 in a count (`steady_scales`), or
                            (10 s_0 / n)² where quantiles of counts are read as they are
    gradient-perturbation   the mean and the variance of heavy-ball descent along an eigenvalue of
                            the rows in the unit ball, after T rounds, averaged as it averages
    adaptive-statistics     ridge κ and noise v:  R² (κ / (nλ + κ))² + d v λ / ((nλ + κ)² Var t)
    output-perturbation     ridge λ and noise in the minimiser likewise

Rows in the unit ball are (u, 1) / r, u in [0, 1] with a mean of about 1/2 and a deviation c of 1/8,
so that λ = c² / r² with r² = 1 + d (1/4 + c²); their mean is a direction of its own, in which λ =
(1 + d / 4) / r² and the target's mean is learnt, and a little noise costs much. Nothing is
predicted of other algorithms. Columns that fill less of their range cost those in the unit ball
more, while scales are known to Fisher scoring from its first stage.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from unisono.algorithms import fisher_scoring
from unisono.algorithms.column_scales import Scales
from unisono.core.study import Study
from unisono.releases.release import copies

_SPREAD, _EXPLAINED, _OFF = 0.25, 0.3, 1.0
# Of the weights of records within and without bounds, what is left on average.
_KEPT = 0.7


class FitChoice(NamedTuple):
    """An algorithm, and why: what each of those that can run is predicted to lose of R²."""

    algorithm: str
    reason: str
    lost: Mapping[str, float]


def choice_of(studies: Mapping[str, Study]) -> FitChoice:
    """The one that is predicted to lose least; of equals the first."""
    lost = {name: predicted_loss(study) for name, study in studies.items()}
    best = min(lost, key=lambda name: lost[name])
    others = ", ".join(f"{name} {_words(own)}" for name, own in lost.items() if name != best)
    beside = f" ({others})" if others else ""
    return FitChoice(best, f"R² lost is predicted to be {_words(lost[best])}{beside}", lost)


def _words(lost: float) -> str:
    return f"{lost:.3f}" if lost < 0.995 * _EXPLAINED else "all"


def predicted_loss(study: Study) -> float:
    """R² that noise and what is done about it cost, which may be more than there is; infinite where
    nobody has an equation."""
    rule = _RULES.get(study.algorithm.name)
    return math.inf if rule is None else rule(study)


def _by_scoring(study: Study) -> float:
    terms = fisher_scoring.terms_for(study)
    problem, records = terms.problem, _KEPT * sum(study.facts.records)
    p, lost = problem.parameters, _EXPLAINED + (_middle_noise(study) / records) ** 2
    nothing = np.zeros(problem.features)
    scales = Scales(nothing, nothing + _SPREAD, 0.0, _SPREAD, 0.0)
    start = fisher_scoring.start_of(terms.config, problem, scales, records)
    state = fisher_scoring.first_state(terms, start)
    for number in range(len(terms.noise)):
        scored = fisher_scoring.opened(np, terms, state, number).scored
        gradient = p * (float(scored.s_gradient) / records) ** 2 * (1 - _EXPLAINED + lost)
        curvature = (p + 1) / 2 * (float(scored.s_curvature) / records) ** 2 * lost
        noise = gradient + curvature
        lost = noise / (1 + noise / lost)
    return lost


def _middle_noise(study: Study) -> float:
    """Error of the target's middle in deviations, times the records."""
    method = study.method
    config = fisher_scoring.terms_for(study).config
    own = config, method.problem, study.facts, method.privacy, study.trust
    return (4 if config.prediction else 10) * fisher_scoring.count_noise(*own)


class _Direction(NamedTuple):
    """So many directions of the supposed rows in the unit ball with this eigenvalue, and what there
    is to be learnt in them, in variances of the target."""

    number: int
    eigenvalue: float
    signal: float


def _square(study: Study) -> float:
    """r² of the supposed rows; ranges begin at zero."""
    return float(1 + (study.facts.features - 1) * (0.25 + (_SPREAD / 2) ** 2))


def _directions(study: Study) -> tuple[_Direction, _Direction]:
    """Those of single columns, and that of their mean."""
    d, square = study.facts.features - 1, _square(study)
    mean = _Direction(1, (1 + d / 4) / square, _OFF**2)
    return _Direction(d, (_SPREAD / 2) ** 2 / square, _EXPLAINED), mean


def _lost(study: Study, short: Callable[[float], float], noise: Callable[[float], float]) -> float:
    """What coefficients lose that are too short by this share, with noise of this deviation, each
    by the eigenvalue."""
    target = _SPREAD**2 / _square(study)  # the variance of the target of rows in the unit ball
    return sum(
        own.signal * short(own.eigenvalue) ** 2
        + own.number * own.eigenvalue * noise(own.eigenvalue) ** 2 / target
        for own in _directions(study)
    )


def _noise(study: Study) -> float:
    """The deviation of noise in one number of the opened sum."""
    event = study.algorithm.event(study.facts, study.trust)
    deviation = event.noise.deviation(study.facts.features)
    return float(deviation) * math.sqrt(copies(study.facts, study.trust))


def _by_gradients(study: Study) -> float:
    noise = _noise(study) / sum(study.facts.records)

    def short(eigenvalue: float) -> float:
        return 1 - float(_descended(study, eigenvalue)[0])

    def scatter(eigenvalue: float) -> float:
        return noise * float(np.linalg.norm(_descended(study, eigenvalue)[1:]))

    return _lost(study, short, scatter)


def _descended(study: Study, eigenvalue: float) -> np.ndarray:
    """Where descent ends (1 + rounds,): of the way from zero, and of the noise of every round."""
    settings = study.algorithm.settings
    rounds, momentum, rate = (settings[k] for k in ("rounds", "momentum", "learning_rate"))
    late, ridge = int(rounds * (1 - settings["average_last"])), settings["regularisation"]
    place, speed, mean = (np.zeros(rounds + 1) for _ in range(3))
    for number in range(rounds):
        slope = (eigenvalue + ridge) * place
        slope[0] -= eigenvalue
        slope[1 + number] += 1.0
        speed = momentum * speed + slope
        place = place - rate * speed
        if number >= late:
            mean += (place - mean) / (number - late + 1)
    return mean if settings["average_last"] else place


def _by_statistics(study: Study) -> float:
    size, records = study.facts.features, sum(study.facts.records)
    noise, given = _noise(study), study.algorithm.settings["regularisation"]
    smallest = records * _directions(study)[0].eigenvalue
    ridge = max(0.0, math.sqrt(2 * size) * noise - smallest)
    if given is not None:
        ridge = given * records
    return _lost(
        study,
        lambda eigenvalue: ridge / (records * eigenvalue + ridge),
        lambda eigenvalue: noise / (records * eigenvalue + ridge),
    )


def _by_output(study: Study) -> float:
    ridge, records = study.algorithm.settings["regularisation"], study.facts.records
    noise = _noise(study) * min(records) / sum(records)
    return _lost(study, lambda eigenvalue: ridge / (eigenvalue + ridge), lambda _: noise)


_RULES: Mapping[str, Callable[[Study], float]] = {
    "fisher-scoring": _by_scoring,
    "gradient-perturbation": _by_gradients,
    "adaptive-statistics": _by_statistics,
    "output-perturbation": _by_output,
}

__all__ = ["FitChoice", "choice_of", "predicted_loss"]
