"""What is learned: a loss of one record and the first parameters, from a network or a function."""

from typing import Any

import numpy as np

from unisono.errors import InvalidInput
from unisono.training.data import Collected


def model_of(model: Any, parameters: Any) -> tuple[Any, Any, Any]:
    """The loss of a record, the first parameters, and the network, if it is one."""
    import jax

    from unisono.problems.networks import Network

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

    from unisono.problems.record_loss import RecordLoss

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
    return RecordLoss(of_arrays, parameters, record)


__all__ = ["model_of", "problem_of"]
