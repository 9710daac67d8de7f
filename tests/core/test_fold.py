"""Noise inside a compiled loop: fresh every step, paid for, with its sampler's error."""

import jax.numpy as jnp
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, Laplace
from unisono.core.fold import fold, in_graph_event
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation
from unisono.core.values import _BOUNDED_ONLY, Contribution, clipped_sum, sum_sensitivity
from unisono.errors import GrantMisused, InvalidInput

GRID, STEPS, DIMENSION = 2.0**-6, 50, 20
EVENT = in_graph_event(
    Event(Gaussian(20.0), sum_sensitivity(1.0, GRID, DIMENSION)), GRID, DIMENSION, STEPS
)


def draw(event=EVENT, count=STEPS, seed=3):
    book = Ledger.in_memory(Policy("d", Budget(100.0, 1e-5)), ACCOUNTANT, seed=seed)
    cost = everyone(event * count)
    return book.authorize(cost).draw(0)


def before(state, step):
    return clipped_sum(jnp.zeros((3, DIMENSION)), 1.0, GRID)


def after(state, noised, step):
    return state.at[step].set(noised)


def run(source, before=before, event=EVENT):
    return np.asarray(
        fold(source, event, GRID, STEPS, before, after, jnp.zeros((STEPS, DIMENSION)))
    )


def test_every_step_has_its_own_noise_of_the_right_size():
    """X-2: a variance of 1,000 draws lies within 30 % but for 1e-9."""
    noise = run(draw())
    assert len(np.unique(noise[:, 0])) > 0.9 * STEPS
    correlation = np.corrcoef(noise)[np.triu_indices(STEPS, 1)]
    assert np.abs(correlation).max() < 0.95
    assert noise.var() == pytest.approx(400.0, rel=0.3)
    np.testing.assert_array_equal(noise, run(draw()))
    assert not np.array_equal(noise, run(draw(seed=4)))


def test_the_samplers_error_is_in_the_price():
    ideal = PrivacyCurve(Event(Gaussian(20.0), EVENT.sensitivity) * STEPS, Relation.REPLACE_ONE)
    real = PrivacyCurve(EVENT * STEPS, Relation.REPLACE_ONE)
    assert ideal.epsilon(1e-5) < real.epsilon(1e-5) < ideal.epsilon(1e-5) + 1e-3
    assert real.delta(3.0) > ideal.delta(3.0)
    assert not real.fits(ideal.epsilon(1e-5), 1e-5)
    assert real.fits(ideal.epsilon(1e-5) + 1e-3, 1e-5)
    assert real.trade_off(0.1) <= ideal.trade_off(0.1)


def test_all_steps_are_paid_before_the_loop():
    with pytest.raises(GrantMisused, match="as often"):
        run(draw(count=STEPS - 1))


def test_wrong_contributions_and_events_are_refused():
    with pytest.raises(GrantMisused, match="more than was authorised"):
        run(draw(), lambda state, step: clipped_sum(jnp.zeros((3, DIMENSION)), 2.0, GRID))
    with pytest.raises(GrantMisused, match="on grid"):
        run(draw(), lambda state, step: clipped_sum(jnp.zeros((3, DIMENSION)), 0.5, GRID / 2))
    with pytest.raises(InvalidInput, match="integer grid"):
        run(
            draw(),
            lambda state, step: Contribution(
                state[0], GRID, EVENT.sensitivity, maker=_BOUNDED_ONLY
            ),
        )
    plain = Event(Gaussian(20.0), EVENT.sensitivity)
    with pytest.raises(GrantMisused, match="in_graph_event"):
        run(draw(plain), event=plain)
    light = in_graph_event(plain, GRID, 1, STEPS)  # another dimension: too little error
    with pytest.raises(GrantMisused, match="in_graph_event"):
        run(draw(light), event=light)
    with pytest.raises(GrantMisused, match="no in-graph sampler"):
        in_graph_event(Event(Laplace(1.0), EVENT.sensitivity), GRID, 1, 1)
