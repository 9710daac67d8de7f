"""Which algorithm learns, and with which settings: a published rule on public facts only.

"auto" takes gradient perturbation where delta > 0 and output perturbation for pure epsilon.

Noisy gradients follow the rule of `algorithms.choose`; "dp-sgd-convex" draws a tenth of the records
in each round. The rule reads no records.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.core.algorithm import Algorithm, Facts
from unisono.core.defaults import RIDGE
from unisono.core.events import Composed, positive
from unisono.core.study import Party, Result, Study
from unisono.core.trust import Relation, Trust, Viewer
from unisono.errors import InvalidInput

_RATE = 0.1
ENGINES = ("in-process", "flower")


@dataclass(frozen=True)
class Request:
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
        positive(epsilon=self.epsilon, rounds=self.rounds)
        ridge = self.regularisation
        if ridge is not None and not (math.isfinite(ridge) and ridge >= 0):
            raise InvalidInput(
                f"regularisation = {ridge!r}: give a finite number, zero or above, or None for the "
                "published rule"
            )
        if int(self.rounds) != self.rounds:
            raise InvalidInput(f"rounds = {self.rounds!r}: count whole rounds")


@dataclass(frozen=True)
class Plan:
    """What a run costs each viewer, and the run itself."""

    cost: Mapping[Viewer, Composed]
    run: Callable[[Sequence[Party]], Result]


def plan(request: Request, facts: Facts, trust: Trust) -> Plan:
    """The published rule: an algorithm, its settings and what they cost."""
    name = request.algorithm
    if name == "auto":
        name = "gradient-perturbation" if request.delta else "output-perturbation"
    if name not in _PLANS:
        raise InvalidInput(
            f"algorithm = {request.algorithm!r}: choose one of {', '.join(ALGORITHMS)}"
        )
    if not request.delta and name != "output-perturbation":
        raise InvalidInput(
            f"delta = {request.delta!r} with {name}: Gaussian noise has no pure epsilon; choose "
            "delta in (0, 1), or output-perturbation"
        )
    return _PLANS[name](request, facts, trust)


def _parameters(request: Request, facts: Facts) -> int:
    return facts.features * (request.classes if request.loss == "multinomial" else 1)


def in_rounds(algorithm: Algorithm, facts: Facts, trust: Trust, engine: str = "in-process") -> Plan:
    """A plan for an engine; JAX has been imported by the algorithm already."""
    run, study = runner(engine), Study(algorithm, facts, trust)
    return Plan(study.cost, lambda parties: run(study, parties))


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


def _ridge(request: Request) -> float:
    return RIDGE if request.regularisation is None else request.regularisation


def _descent(request: Request) -> dict[str, Any]:
    """Settings that both kinds of noisy gradient share."""
    from unisono.algorithms.choose import AVERAGED, CLIP, MOMENTUM

    return {
        "epsilon": request.epsilon, "delta": request.delta, "loss": request.loss,
        "classes": request.classes, "rounds": int(request.rounds), "clip": CLIP,
        "momentum": MOMENTUM, "averaged": AVERAGED, "relation": request.relation,
        "regularisation": _ridge(request),
    }  # fmt: skip


def _gradient_perturbation(request: Request, facts: Facts, trust: Trust) -> Plan:
    from unisono.algorithms.choose import gradient_rate, signal
    from unisono.algorithms.gradient_perturbation import Settings, gradient_perturbation

    strength = signal(
        facts, trust, request.epsilon, request.delta, request.relation, _parameters(request, facts)
    )
    rate = gradient_rate(strength, request.loss, _ridge(request), int(request.rounds))
    settings = Settings(**_descent(request), learning_rate=rate)
    return in_rounds(gradient_perturbation(settings), facts, trust)


def _dp_sgd_convex(request: Request, facts: Facts, trust: Trust) -> Plan:
    """As gradient perturbation; the noise of a round comes from its calibrated event."""
    from unisono.algorithms.choose import MOMENTUM, NOISE_LENGTH, stable_rate
    from unisono.algorithms.dp_sgd_convex import Settings, dp_sgd_convex

    options = _descent(request) | {"rate": _RATE}
    noise = dp_sgd_convex(Settings(**options)).event(facts, trust).noise
    parts = facts.parties / (facts.honest if trust is Trust.SECURE_SUM else 1)
    spread = 1.0 if trust is Trust.TRUSTED_SERVER else parts
    one_round = noise.std / (_RATE * sum(facts.records))  # type: ignore[union-attr]
    length = one_round * math.sqrt(request.rounds * _parameters(request, facts) * spread)
    quiet = NOISE_LENGTH[request.loss] * (1 - MOMENTUM) / length
    rate = min(stable_rate(request.loss, _ridge(request)), quiet)
    return in_rounds(dp_sgd_convex(Settings(**options, learning_rate=rate)), facts, trust)


def _output_perturbation(request: Request, facts: Facts, trust: Trust) -> Plan:
    from unisono.algorithms.choose import output_ridge
    from unisono.algorithms.output_perturbation import Settings, output_perturbation

    ridge = request.regularisation
    if ridge is None:
        ridge = output_ridge(
            facts, trust, request.epsilon, request.delta, request.loss, request.classes,
            request.relation,
        )  # fmt: skip
    settings = Settings(
        request.epsilon, request.delta, request.loss, request.classes,
        regularisation=ridge, relation=request.relation,
    )  # fmt: skip
    return in_rounds(output_perturbation(settings), facts, trust)


def _objective_perturbation(request: Request, facts: Facts, trust: Trust) -> Plan:
    from unisono.algorithms.objective_perturbation import (
        Settings,
        agreement,
        run_objective_perturbation,
    )

    if trust is not Trust.LOCAL:
        raise InvalidInput(
            f"objective perturbation with trust {trust!s}: its noise cannot come in shares; use "
            "trust local, or gradient-perturbation"
        )
    settings = Settings(
        request.epsilon, request.delta, request.loss, request.regularisation or None,
        relation=request.relation,
    )  # fmt: skip
    return Plan(
        agreement(settings, facts).cost,
        lambda parties: run_objective_perturbation(settings, parties, facts),
    )


_PLANS: dict[str, Callable[[Request, Facts, Trust], Plan]] = {
    "gradient-perturbation": _gradient_perturbation,
    "objective-perturbation": _objective_perturbation,
    "output-perturbation": _output_perturbation,
    "dp-sgd-convex": _dp_sgd_convex,
}
ALGORITHMS = ("auto", *_PLANS)

__all__ = ["ALGORITHMS", "ENGINES", "Plan", "Request", "in_rounds", "plan", "runner"]
