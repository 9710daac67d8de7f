"""What parties agree on when they agree on a loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.problems.record_loss import RecordLoss

FIRST = np.zeros(3, np.float32)
HOLDS = {
    "itself": lambda held: lambda x: x * held,
    "in a compiled function": lambda held: jax.jit(lambda x: x * held),
    "in one inside another": lambda held: jax.jit(lambda x: 1 + jax.jit(lambda y: y * held)(x)),
    "in a loop": lambda held: lambda x: jax.lax.fori_loop(0, 2, lambda _, y: y * held, x),
}


@pytest.mark.parametrize("where", HOLDS)
def test_the_arrays_that_a_loss_holds_are_part_of_it(where):
    def loss(held):
        scaled = HOLDS[where](np.full(3, held, np.float32))
        return RecordLoss(lambda w, x: jnp.sum((scaled(w) - x) ** 2), FIRST, FIRST).agreed["loss"]

    assert loss(1.0) == loss(1.0) != loss(2.0)


def test_a_loss_keeps_nothing_of_its_example():
    """A row of a table would keep all of it in memory, and somebody's values in the problem."""
    table = np.ones((100, 3), np.float32)
    problem = RecordLoss(lambda w, x: jnp.sum((w - x["row"]) ** 2), FIRST, {"row": table[7]})
    kept = problem.record["row"]
    assert kept.shape == (3,)
    assert kept.dtype == np.float32
    assert not kept.any()
    assert not np.shares_memory(kept, table)
