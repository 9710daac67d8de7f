"""What a server does with noisy gradients: any optax optimizer, and averages of its iterates.

All of it is post-processing of what was released, and costs nothing: learning-rate schedules,
momentum, Adam, weight decay, the average of the last iterates, an exponential moving average.
"""

from typing import Annotated, Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax
from pydantic import Field, model_validator

from unisono.core.algorithm import Facts
from unisono.core.defaults import MOMENTUM
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.problems.record_loss import RecordLoss, fingerprint
from unisono.releases.algorithm import AlgorithmConfig, UtilityLaw
from unisono.releases.blocked_sum import Clipping

Rounds = Annotated[int, Field(gt=0, le=1_000_000)]


# Fitted to DP-SGD on planes; other algorithms share it unmeasured (see `planning.laws`).
NETWORK_LAW = UtilityLaw(0.161, 0.536, 1.76, 2.65, by_class=True)


class NetworkResult(NamedTuple):
    """What is learnt: the model, the last clipping bounds, and the last loss. Bounds and loss are
    None where they stay with the parties; a loss that was not released is NaN."""

    parameters: Any
    bounds: Any = None
    loss: Any = None


class NetworkConfig(AlgorithmConfig):
    """What algorithms that learn any loss have in common."""

    clipping: Clipping = Field(
        Clipping(),
        description="How one record's gradient is bounded, and what is released with it.",
    )
    learning_rate: float | None = Field(
        None,
        gt=0,
        description="The length of a step, with momentum 0.9, unless there is an optimizer.",
    )
    optimizer: Any = Field(None, exclude=True, description="Of optax, in place of a learning rate.")
    average_last: float = Field(
        0.5, ge=0, le=1, description="The last share of rounds whose iterates are averaged."
    )
    decay: float = Field(0.0, ge=0, lt=1, description="Of a moving average of iterates; 0: none.")

    usual_learning_rate: ClassVar[float] = 0.5
    # Which optimizer has the learning rate: the server's, or that of parties at home.
    steered: ClassVar[str] = "optimizer"

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.average_last and self.decay:
            raise ValueError("average the last iterates or take a moving average, not both")
        if self.learning_rate is not None and getattr(self, self.steered) is not None:
            raise ValueError(
                f"learning_rate = {self.learning_rate!r} beside an optimizer, which has its own"
            )
        return self

    def agreed(self, problem: RecordLoss) -> dict[str, Any]:
        return {
            **super().agreed(problem),
            "optimizer": optimizer_print(optimizer_of(self), problem),
        }


def resolve_learning_rate(
    config: Any, problem: RecordLoss, facts: Facts, privacy: Privacy, trust: Trust
) -> Any:
    """The usual learning rate, where neither it nor an optimizer is given."""
    if config.learning_rate is not None or getattr(config, config.steered) is not None:
        return config
    return config.model_copy(update={"learning_rate": config.usual_learning_rate})


def optimizer_of(config: NetworkConfig) -> Any:
    """The optimizer that is given, or steps of the learning rate with momentum."""
    if config.optimizer is not None:
        return config.optimizer
    assert config.learning_rate is not None  # resolved
    return optax.sgd(config.learning_rate, momentum=MOMENTUM)


def optimizer_print(optimizer: Any, problem: RecordLoss) -> str:
    """An optimizer as what parties agree on: the program of its step."""
    first = problem.parameters
    zeros = jax.tree.map(jnp.zeros_like, first)
    return fingerprint(optimizer.update, zeros, optimizer.init(first), first)


class Averaging(NamedTuple):
    """Which model comes out of `rounds` iterates: the last one, the average of the last `part`
    of them, or a moving average with this `decay`."""

    rounds: int
    part: float = 0.0
    decay: float = 0.0

    def include(self, average: Any, parameters: Any, number: Any) -> Any:
        """The average after round `number` brought these parameters."""
        if not self.part and not self.decay:
            return parameters
        late = int(self.rounds * (1 - self.part))
        weight = jnp.where(number >= late, 1.0 / (number - late + 1), 0.0)
        if self.decay:
            # The first iterates would weigh too much: the usual correction, as a changing weight.
            weight = (1 - self.decay) / (1 - self.decay ** (number + 1.0))
        return jax.tree.map(lambda old, new: old + weight * (new - old), average, parameters)


def stepped(optimizer: Any, gradient: Any, state: Any, parameters: Any) -> tuple[Any, Any]:
    """Parameters and optimizer state after one step along a gradient (a pytree)."""
    change, state = optimizer.update(gradient, state, parameters)
    return jax.tree.map(lambda p, c: p + c, parameters, change), state
