"""Which algorithm learns, and with which settings: a published rule on public facts only.

"auto" takes output perturbation for pure epsilon. Where delta > 0 it takes preconditioned gradients
for logistic losses of single records with not too many features, and gradient perturbation else.

What is left out follows the algorithm's own published rule, which reads no records.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from unisono.core.algorithm import Facts
from unisono.core.certificate import certify
from unisono.core.costs import added
from unisono.core.events import Composed, positive
from unisono.core.ledger import Ledger
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
    rounds: int | None
    weighted: bool = False
    features: int | tuple[int, ...] | None = None  # columns that are kept of what was released

    def __post_init__(self) -> None:
        require_numbers(self.epsilon, self.rounds, self.regularisation)


def require_numbers(epsilon: float, rounds: int | None, regularisation: float | None) -> None:
    """Refuse what is no budget, no number of rounds, or no penalty."""
    positive(epsilon=epsilon, rounds=1 if rounds is None else rounds)
    ridge = regularisation
    if ridge is not None and not (math.isfinite(ridge) and ridge >= 0):
        raise InvalidInput(
            f"regularisation = {ridge!r}: give a finite number, zero or above, or None for the "
            "published rule"
        )
    if rounds is not None and int(rounds) != rounds:
        raise InvalidInput(f"rounds = {rounds!r}: count whole rounds")


@dataclass(frozen=True)
class FitPlan:
    """What a run costs each viewer, the run itself, and what its maker keeps with it. `start` is
    the release that it begins with, if there is one."""

    cost: Mapping[Viewer, Composed]
    run: Callable[[Sequence[Party]], Result]
    study: Study
    kept: Any = None
    start: Study | None = None


def plan(request: FitRequest, facts: Facts, trust: Trust) -> FitPlan:
    """The published rule: an algorithm, its settings and what they cost."""
    name = request.algorithm
    if name == "auto":
        name = _usual(request, facts)
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


def _usual(request: FitRequest, facts: Facts) -> str:
    """What "auto" means: a rule of public facts."""
    if not request.delta:
        return "output-perturbation"
    from unisono.algorithms.preconditioned_gradients import MOST_FEATURES

    probabilities = request.loss in ("logistic", "multinomial")
    if probabilities and facts.group == 1 and facts.features <= MOST_FEATURES:
        return "preconditioned-gradients"
    return "gradient-perturbation"


def in_rounds(
    algorithm: Any, facts: Facts, trust: Trust, engine: str = "in-process", purpose: str = ""
) -> FitPlan:
    """A plan for an engine; JAX has been imported by the algorithm already. Ledgers name its
    studies with the `purpose`, if any."""
    if algorithm.earlier is not None:
        return in_stages(algorithm, facts, trust, engine, purpose)
    run, study = runner(engine, purpose), Study(algorithm, facts, trust)
    return FitPlan(study.cost, lambda parties: run(study, parties), study)


def in_stages(
    algorithm: Any, facts: Facts, trust: Trust, engine: str, purpose: str = ""
) -> FitPlan:
    """A plan for an algorithm that begins with another's release: priced together, and run one
    after the other."""
    from unisono.releases.together import studies_of

    start, study = studies_of(algorithm, facts, trust)
    assert start is not None
    cost, run = added([start.cost, study.cost]), runner(engine, purpose)

    def both(parties: Sequence[Party]) -> Result:
        with Ledger.declared([party.ledger for party in parties], [cost] * len(parties)):
            found = run(start, parties)
            result = run(study.begun(found.value), parties)
        books = {party.name: party.ledger for party in parties}
        certificate = certify(
            study,
            books,
            parties[0].ledger.accountant,
            secure_sum=result.certificate.secure_sum,
            transport=result.certificate.transport,
            costs=[cost] * len(books),
        )
        return replace(result, certificate=certificate)

    return FitPlan(cost, both, study, start=start)


def runner(engine: str, purpose: str = "") -> Callable[[Study, Sequence[Party]], Result]:
    """The function that runs a study; Flower is imported only if it is asked for."""
    if engine == "in-process":
        from unisono.engines import in_process

        return partial(in_process.run, purpose=purpose)
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
    # Weights of squares are in the rows already.
    weighted = request.weighted and request.loss != "squares"
    if weighted and not kind.weighs:
        able = [name for name in _ROUNDS if algorithm_named(name).weighs]
        raise InvalidInput(
            f"sample_weight or class_weight with {kind.name}: it does not weigh records; choose "
            f"one of {', '.join(able)}, with delta > 0, or leave weights out; nothing was spent"
        )
    rounds = None if request.rounds is None else int(request.rounds)
    if rounds is None and kind.unit_rows:
        rounds = ROUNDS
    asked = {
        "rounds": rounds,
        "regularisation": request.regularisation,
        "features": request.features,
    }
    if kind.name == "objective-perturbation":  # proved with a ridge only: 0 means that of its rule
        asked["regularisation"] = request.regularisation or None
    given = {
        name: value
        for name, value in asked.items()
        if name in kind.config.model_fields and value is not None
    }
    problem = linear_loss(request.loss, max(2, request.classes), weighted)
    privacy = Privacy(request.epsilon, request.delta, request.relation)
    return in_rounds(kind.method(problem, privacy, **given), facts, trust)


# Estimators take more rounds than study files, where messages travel, unless coordinates in which
# columns vary alike make them needless.
ROUNDS = 200
_ROUNDS = (
    *("preconditioned-gradients", "gradient-perturbation"),
    *("output-perturbation", "dp-sgd-convex"),
)
ALGORITHMS = ("auto", *_ROUNDS, "objective-perturbation")
_SQUARES = ("adaptive-statistics",)  # of regressions only
_PURE = ("output-perturbation", *_SQUARES)

__all__ = [
    "ALGORITHMS",
    "ENGINES",
    "FitPlan",
    "FitRequest",
    "in_rounds",
    "in_stages",
    "plan",
    "require_numbers",
    "runner",
]
