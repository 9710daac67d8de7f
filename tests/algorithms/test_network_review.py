"""Holes that a reviewer found in private network training: each once let a record show through."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.events import Event, Gaussian, GaussianRun, Poisson, bounded_sum
from unisono.core.in_graph import run_error, share_width
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import release
from unisono.core.study import Party, Study
from unisono.core.trust import EVERYONE, Relation, Trust
from unisono.core.values import Private
from unisono.core.values import clipped_sum as summed_rows
from unisono.engines import in_process
from unisono.errors import ConditionViolated, GrantMisused, InvalidInput
from unisono.problems.networks import logistic
from unisono.problems.per_record import PerRecord
from unisono.problems.record_loss import RecordLoss
from unisono.releases.blocked_sum import STYLES, Clipping, clipped_sum

from .. import methods

GRID = 2.0**-14


def moved_by(loss, parameters, record, clipping, bounds=None):
    """How far one record, alone in its batch, moves the sum, and what is claimed."""
    plan = PerRecord(loss, parameters, record)
    bounds = clipping.start(plan) if bounds is None else bounds
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], record)
    run = jax.jit(
        lambda mask: clipped_sum(plan, clipping, parameters, bounds, batch, mask, GRID, True).value
    )
    length = float(np.linalg.norm(np.asarray(run(jnp.ones(1, bool)), float) * GRID))
    return length, clipping.sensitivity(plan, GRID, True).under(Relation.ADD_OR_REMOVE).l2


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("size", "weight"),
    [(1.8e19, 2e-19), (1e9, 1e-25), (1e-25, 1e25), (1e-39, 1e38), (3e38, 1e-38), (3e38, 3e38)],
)
@pytest.mark.parametrize("bound", [1.0, pytest.param(1e-12, marks=pytest.mark.slow)])
def test_norms_do_not_vanish(style, size, weight, bound):
    """A huge row and a tiny slope: each square left the range of floats on its own."""

    def weighted(parameters, record):
        row, label, own = record
        return -own * jax.nn.log_softmax(row @ parameters)[label.astype(jnp.int32)]

    record = (np.full(3, size, np.float32), np.float32(0), np.float32(weight))
    clipping = Clipping(style=style, bound=bound)
    length, claimed = moved_by(weighted, jnp.zeros((3, 2)), record, clipping)
    assert length <= claimed


@pytest.mark.parametrize("bounds", [1e-37, 0.0, -1.0, np.nan, np.inf, 1e37])
def test_bounds_that_a_server_makes_up_change_nothing(bounds):
    network = logistic(3, 2)
    record = (np.array([1.0, -2.0, 3.0], np.float32), np.float32(1))
    length, claimed = moved_by(
        network.loss,
        network.init(jax.random.key(0)),
        record,
        Clipping(),
        jnp.full(1, bounds, jnp.float32),
    )
    assert np.isfinite(length)
    assert length <= claimed


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.float16])
def test_norms_are_not_computed_in_the_records_own_type(kind):
    def loss(parameters, record):
        row = record[0].astype(kind)
        found = jax.lax.dot_general(
            row, parameters, (((0,), (0,)), ((), ())), preferred_element_type=jnp.float32
        )
        return jnp.sum(found)

    record = (np.full(12, 256.0 if kind != np.uint8 else 16.0, np.float32), np.float32(0))
    length, claimed = moved_by(loss, jnp.ones((12, 2)), record, Clipping())
    assert length <= claimed


def convolved(kernel_of):
    def loss(parameters, record):
        image = record[0].reshape(1, 4, 4, 2)
        return jnp.sum(jnp.tanh(kernel_of(image, parameters)))

    return loss


def plain(image, kernel, groups=1):
    return jax.lax.conv_general_dilated(
        image,
        kernel,
        (1, 1),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


@jax.custom_vjp
def _secretive(values):
    return values


def _backwards(_, slope):
    return (jax.pure_callback(np.asarray, slope, slope, vmap_method="broadcast_all"),)


_secretive.defvjp(lambda values: (values, None), _backwards)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (convolved(lambda x, k: plain(x, k[:, :, :1], groups=2)), "convolution"),
        (convolved(lambda x, k: plain(x, 2.0 * k)), "convolution"),
        (convolved(lambda x, k: plain(x, k) + plain(-x, k)), "convolution"),
        (convolved(lambda x, k: jax.checkpoint(plain)(x, k)), "convolution"),
        (
            lambda p, r: (
                jnp.sum(p) * jax.random.normal(jax.random.key(r[1].astype(jnp.int32), impl="rbg"))
            ),
            "threefry",
        ),
        (
            lambda p, r: (
                jnp.sum(p) * jax.pure_callback(np.sum, r[1], r[0], vmap_method="sequential")
            ),
            "callback",
        ),
        (lambda p, r: jnp.sum(_secretive(p)) * r[1], "callback"),
    ],
)
def test_what_may_mix_records_is_refused(loss, message):
    with pytest.raises(InvalidInput, match=message):
        PerRecord(loss, jnp.ones((2, 2, 2, 2)), (np.zeros(32, np.float32), np.float32(0)))


def test_a_fixed_filter_and_ordinary_random_numbers_are_fine():
    fixed = np.ones((2, 2, 2, 2), np.float32)

    def loss(parameters, record):
        seen = plain(record[0].reshape(1, 4, 4, 2), fixed)
        drawn = jax.random.normal(jax.random.key(record[1].astype(jnp.int32)))
        return jnp.sum(seen.reshape(-1) @ parameters) * drawn

    PerRecord(loss, jnp.ones((18, 2)), (np.zeros(32, np.float32), np.float32(0)))


def test_noise_at_the_edge_of_the_proved_range_is_refused():
    """A width that is in range as a double and out of range as a 32-bit float gave a constant:
    the number that the program receives is the one that is looked at, at both ends."""
    for std in (
        2.0**20 * (1 + 2.0**-40),
        2.0**20 + 0.01,
        4 - 4e-7,
        4 - 2.0**-21,
    ):
        with pytest.raises(ConditionViolated):
            run_error(Gaussian(std), 1.0, 10, 1)
    for std in (4.0, 4 + 1e-9, 2.0**20 - 0.07):
        event = Event(Gaussian(std), bounded_sum(l2=1.0))
        run_error(event.noise, 1.0, 10, 1)
        assert 4.0 <= std <= share_width(event, 1.0, 1) <= 2.0**20
    for std in np.random.default_rng(0).uniform(4, 2.0**20 - 1, 200):  # never narrower
        width = share_width(Event(Gaussian(float(std)), bounded_sum(l2=1.0)), 1.0, 1)
        assert std <= width <= std * (1 + 2.0**-22)
        assert width == float(np.float32(width))


def test_single_releases_are_not_paid_by_the_event_of_a_run():
    rows = np.eye(3, dtype=np.float32)
    contribution = summed_rows(rows, 1.0, GRID)
    run = Event(GaussianRun(4.0, rounds=400), contribution.sensitivity)
    policy = Policy("p", Budget(2.0, 1e-5), relation=Relation.ADD_OR_REMOVE)
    ledger = Ledger.in_memory(policy, ACCOUNTANT, 1)
    grant = ledger.authorize(dict.fromkeys(EVERYONE, run * 1), 400)
    with pytest.raises(GrantMisused, match="does not add up"):
        release(grant.draw(0), contribution, run)
    with pytest.raises(InvalidInput, match="amplification"):
        Event(GaussianRun(4.0, rounds=400), contribution.sensitivity, Poisson(0.1))


@pytest.mark.parametrize(
    ("scales", "trust"),
    [
        ((1.5, 1.0), Trust.SECURE_SUM),
        ((4.0, 1.0), Trust.LOCAL),
        ((1.0, 0.7), Trust.LOCAL),
        pytest.param((1.5, 1.0), Trust.LOCAL, marks=pytest.mark.slow),
        pytest.param((4.0, 1.0), Trust.SECURE_SUM, marks=pytest.mark.slow),
        pytest.param((1.0, 0.7), Trust.SECURE_SUM, marks=pytest.mark.slow),
    ],
)
def test_every_schedule_of_noise_runs_and_is_paid(scales, trust):
    def linear(parameters, record):
        return jnp.sum(parameters * record[0])

    problem = RecordLoss(linear, jnp.zeros(3), (np.zeros(3, np.float32), np.float32(0)))
    method = methods.dp_sgd(
        problem,
        optax.sgd(0.1),
        1.0,
        1e-5,
        Relation.ADD_OR_REMOVE,
        rounds=8,
        sampling_rate=0.5,
        noise_scales=scales,
    )
    parties = 1 if trust is Trust.LOCAL else 2
    facts = Facts((40,) * parties, 3, parties, parties - 1, False)
    policy = Policy("p", Budget(1.0, 1e-5), relation=Relation.ADD_OR_REMOVE, colluders=parties - 1)
    members = [
        Party(
            f"p{k}",
            Private((np.ones((40, 3), np.float32), np.zeros(40, np.float32))),
            Ledger.in_memory(policy, ACCOUNTANT, 1),
        )
        for k in range(parties)
    ]
    study = Study(method, facts, trust)
    assert np.isfinite(in_process.run(study, members).value.parameters).all()


def test_losses_that_hold_other_numbers_are_other_losses():
    def holding(array):
        return lambda parameters, record: jnp.sum(parameters * record[0] * array)

    names = {
        RecordLoss(holding(np.full(3, value, np.float32)), jnp.zeros(3), (jnp.zeros(3),)).agreed[
            "loss"
        ]
        for value in (1.0, 2.0)
    }
    assert len(names) == 2
