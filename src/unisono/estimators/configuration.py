"""Which algorithm learns, and with which settings: a published rule on public facts only.

"auto" takes gradient perturbation where delta > 0 and output perturbation for pure epsilon.

What is left out follows the algorithm's own published rule, which reads no records.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unisono.core.algorithm import Facts
from unisono.core.events import Composed, positive
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result, Study
from unisono.core.trust import Relation, Trust, Viewer
from unisono.core.words import did_you_mean
from unisono.errors import InvalidInput

ENGINES = ("in-process", "flower")


@dataclass(frozen=True)
class FitRequest:
    """What an estimator asks for: all of it public. `regularisation` None: the rule's own."""

    algorithm: str
    loss: str
    classes: int
    epsilon: float
    delta: float
    relation: Relation
    regularisation: float | None
    rounds: int

    def __post_init__(self) -> None:
        require_numbers(self.epsilon, self.rounds, self.regularisation)


def require_numbers(epsilon: float, rounds: int, regularisation: float | None) -> None:
    """Refuse what is no budget, no number of rounds, or no penalty."""
    positive(epsilon=epsilon, rounds=rounds)
    ridge = regularisation
    if ridge is not None and not (math.isfinite(ridge) and ridge >= 0):
        raise InvalidInput(
            f"regularisation = {ridge!r}: give a finite number, zero or above, or None for the "
            "published rule"
        )
    if int(rounds) != rounds:
        raise InvalidInput(f"rounds = {rounds!r}: count whole rounds")


@dataclass(frozen=True)
class FitPlan:
    """What a run costs each viewer, the run itself, and what its maker keeps with it."""

    cost: Mapping[Viewer, Composed]
    run: Callable[[Sequence[Party]], Result]
    study: Study
    kept: Any = None


def plan(request: FitRequest, facts: Facts, trust: Trust) -> FitPlan:
    """The published rule: an algorithm, its settings and what they cost."""
    name = request.algorithm
    if name == "auto":
        name = "gradient-perturbation" if request.delta else "output-perturbation"
    if name not in (*ALGORITHMS, *(_SQUARES if request.loss == "squares" else ())):
        raise InvalidInput(
            f"algorithm = {request.algorithm!r}: choose one of {', '.join(ALGORITHMS)}"
            f"{did_you_mean(name, ALGORITHMS)}"
        )
    if not request.delta and name not in _PURE:
        raise InvalidInput(
            f"delta = {request.delta!r} with {name}: Gaussian noise has no pure epsilon; choose "
            "delta in (0, 1), or output-perturbation"
        )
    request = replace(request, algorithm=name)
    return _in_rounds(request, facts, trust)


def in_rounds(algorithm: Any, facts: Facts, trust: Trust, engine: str = "in-process") -> FitPlan:
    """A plan for an engine; JAX has been imported by the algorithm already."""
    run, study = runner(engine), Study(algorithm, facts, trust)
    return FitPlan(study.cost, lambda parties: run(study, parties), study)


def runner(engine: str) -> Callable[[Study, Sequence[Party]], Result]:
    """The function that runs a study; Flower is imported only if it is asked for."""
    if engine == "in-process":
        from unisono.engines import in_process

        return in_process.run
    if engine != "flower":
        raise InvalidInput(f"engine = {engine!r}: choose one of {', '.join(ENGINES)}")
    try:
        from unisono.engines.flower import loopback
    except ModuleNotFoundError as missing:
        raise InvalidInput(
            f"engine = 'flower', but {missing.name} is not installed: pip install unisono[flower], "
            "or use engine='in-process'"
        ) from missing
    return loopback.run


def _in_rounds(request: FitRequest, facts: Facts, trust: Trust) -> FitPlan:
    """Algorithms of the registry: their settings are those that the estimator has too."""
    from unisono.algorithms.registry import algorithm_named
    from unisono.problems.linear import linear_loss

    kind = algorithm_named(request.algorithm)
    asked = {"rounds": int(request.rounds), "regularisation": request.regularisation}
    if kind.name == "objective-perturbation":  # proved with a ridge only: 0 means that of its rule
        asked["regularisation"] = request.regularisation or None
    given = {
        name: value
        for name, value in asked.items()
        if name in kind.config.model_fields and value is not None
    }
    problem = linear_loss(request.loss, max(2, request.classes))
    privacy = Privacy(request.epsilon, request.delta, request.relation)
    return in_rounds(kind.method(problem, privacy, **given), facts, trust)


_ROUNDS = ("gradient-perturbation", "output-perturbation", "dp-sgd-convex")
ALGORITHMS = ("auto", *_ROUNDS, "objective-perturbation")
_SQUARES = ("adaptive-statistics",)  # of regressions only
_PURE = ("output-perturbation", *_SQUARES)

__all__ = [
    "ALGORITHMS",
    "ENGINES",
    "FitPlan",
    "FitRequest",
    "in_rounds",
    "plan",
    "require_numbers",
    "runner",
]
