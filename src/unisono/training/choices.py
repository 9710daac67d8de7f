"""What a training run is built from: model, coins, rounds, clipping, optimizer and algorithm."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unisono.core.algorithm import Algorithm
from unisono.core.events import positive
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.estimators.schedules import MOMENTUM
from unisono.training.data import Collected

LEARNING_RATE = 0.5  # where neither a rate nor an optimizer is given


class Request(NamedTuple):
    """What every algorithm is built from; all of it public."""

    epsilon: float
    delta: float
    rate: float
    rounds: int
    clipping: Any
    averaged: float
    decay: float
    noise_scales: tuple[float, ...]
    relation: Relation
    problem: Any
    optimizer: Any


def _dp_sgd(request: Request) -> Algorithm:
    from unisono.algorithms.dp_sgd import Settings, dp_sgd

    settings = Settings(
        request.epsilon, request.delta, request.rounds, request.rate, request.clipping,
        request.averaged, request.decay, request.noise_scales, request.relation,
    )  # fmt: skip
    return dp_sgd(settings, request.problem, request.optimizer)


# One line for each algorithm that learns from a loss of one record.
ALGORITHMS: dict[str, Callable[[Request], Algorithm]] = {"dp-sgd": _dp_sgd}


def built(name: str, request: Request) -> Algorithm:
    if name not in ALGORITHMS:
        raise InvalidInput(f"algorithm = {name!r}: choose one of {', '.join(ALGORITHMS)}")
    return ALGORITHMS[name](request)


def model_of(model: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """The loss of a record, the first parameters, and the network, if it is one."""
    import jax

    from unisono.models.networks import Network

    if isinstance(model, Network):
        first = model.init(jax.random.key(0)) if parameters is None else parameters
        return model.loss, first, model
    if not callable(model):
        raise InvalidInput(f"model is a {type(model).__name__}: give a Network, or a loss function")
    if parameters is None:
        raise InvalidInput("a loss alone does not say where to start: give its first parameters")
    return model, parameters, None


def problem_of(loss: Any, parameters: Any, held: Collected) -> Any:
    """The loss of a record whose arrays come as a tuple, which is how parties hold them."""
    import jax

    from unisono.algorithms.optimise import Problem

    def of_arrays(parameters: Any, arrays: Any) -> Any:
        return loss(parameters, jax.tree.unflatten(held.structure, arrays))

    record = tuple(np.zeros(column.shape[1:], np.float32) for column in held.columns[0])
    try:
        jax.eval_shape(of_arrays, parameters, record)
    except (TypeError, ValueError) as error:
        shapes = [column.shape[1:] for column in held.columns[0]]
        raise InvalidInput(
            f"the loss fails on one record of shapes {shapes}: {error}. A record is one row, "
            "without a batch axis"
        ) from error
    except NameError:
        pass  # a loss that speaks of a batch: the algorithm says what is wrong with it
    return Problem(of_arrays, parameters, record)


def clipping_of(given: Any) -> Any:
    from unisono.algorithms.clipping import Clipping

    return given if isinstance(given, Clipping) else Clipping(bound=given)


def optimizer_of(given: Any, learning_rate: float | None) -> Any:
    import optax

    if given is not None:
        if learning_rate is not None:
            raise InvalidInput(
                f"learning_rate = {learning_rate!r} beside an optimizer: the optimizer has its own"
            )
        return given
    used = LEARNING_RATE if learning_rate is None else learning_rate
    positive(learning_rate=used)
    return optax.sgd(used, momentum=MOMENTUM)


__all__ = [
    "ALGORITHMS", "LEARNING_RATE", "Request", "built", "clipping_of", "model_of",
    "optimizer_of", "problem_of"
]  # fmt: skip
