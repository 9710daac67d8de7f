"""Source 003 (Sharma's thesis draft): accounting, DP-SGD and stopping. Algorithm 3: see below."""

import math
from functools import partial

import jax
import numpy as np
import pytest

from unisono.accounting import gaussian, moments, pld
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.compiled import numbers
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, Poisson, WithoutReplacement, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import release
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private, clipped_sum
from unisono.core.wallet import Remaining, Wallet
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, GrantMisused, InvalidInput

from .. import methods

# Figure 4.4 of the thesis: noise multiplier 5, 78 rounds, delta 1e-5.
SIGMA, ROUNDS, DELTA = 5.0, 78, 1e-5


def book(epsilon=10.0, relation=Relation.ADD_OR_REMOVE, accountant=ACCOUNTANT):
    policy = Policy("thesis", Budget(epsilon, DELTA), relation=relation)
    return Ledger.in_memory(policy, accountant, seed=1)


def test_delta_is_not_the_probability_of_a_large_loss():
    """E003-1: at mu = epsilon = 1 delta is 0.1269, yet the loss exceeds 1 in 30.85 % of runs."""
    assert gaussian.delta(1.0, 1.0) == pytest.approx(0.1269, abs=1e-4)
    assert gaussian.loss_tail(1.0, 1.0) == pytest.approx(0.3085, abs=1e-4)
    losses = 0.5 + np.random.default_rng(0).normal(size=100_000)
    # Binomial standard error 0.0015: five of them, false-alarm rate below 1e-6.
    assert np.mean(losses > 1.0) == pytest.approx(0.3085, abs=0.0075)
    for epsilon in np.linspace(0.1, 4, 14):
        for larger in epsilon + np.array([0.1, 0.5, 2.0]):
            for mu in (0.3, 1.0, 3.0):
                allowed = gaussian.delta(epsilon, mu) / -math.expm1(epsilon - larger)
                assert gaussian.loss_tail(larger, mu) <= allowed * (1 + 1e-9)
                assert gaussian.delta(epsilon, mu) <= gaussian.loss_tail(epsilon, mu)


def test_delta_zero_satisfies_the_printed_tail_bound():
    """E003-2: with "delta <= exp(alpha - lambda epsilon)" delta = 0 qualifies and is false."""
    spent = ROUNDS * moments.log_moments(1.0, SIGMA)
    for epsilon in (1.0, 4.0, 8.0, 10.0):
        bound = moments.delta(spent, epsilon)
        exact = gaussian.delta(epsilon, math.sqrt(ROUNDS) / SIGMA)
        printed = 0.0
        assert printed <= bound  # so the source would call the run (epsilon, 0)-private
        assert printed < exact <= bound  # it is not; the bound itself is true


def test_figure_4_4_under_both_relations():
    """E003-5: definitions replace a record, the accountant adds one: 8.59 against 20.65."""
    history = Event(Gaussian(SIGMA), bounded_sum(l2=1.0)) * ROUNDS
    assert PrivacyCurve(history, Relation.ADD_OR_REMOVE).epsilon(DELTA) == pytest.approx(
        8.58750376, rel=1e-8
    )
    assert PrivacyCurve(history, Relation.REPLACE_ONE).epsilon(DELTA) == pytest.approx(
        20.65360339, rel=1e-8
    )


def test_clipped_statistics_have_a_diameter_of_twice_the_clip():
    """E003-5: (x^2, xy) clipped to C comes as near to 2C apart as one likes, never beyond."""
    clip, grid = 1.0, 2.0**-20
    widest = 0.0
    for x in (0.5, 0.1, 0.01):
        rows = np.array([[x * x, x * (3 / x)], [x * x, -x * (3 / x)]])
        one, other = (clipped_sum(row[None], clip, grid) for row in rows)
        widest = max(widest, np.linalg.norm(one.value - other.value) * grid)
    assert widest > 1.999 * clip
    assert widest <= one.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")


def test_lots_without_replacement_cost_more_than_poisson():
    """E003-6: one record of ten without replacement, accounted as Poisson q = 0.1, is too little.

    The other nine hold -1 and the tenth turns from -1 to 1: each step compares
    0.9 N(-1) + 0.1 N(1) with N(-1), twice the distance that Poisson under add-or-remove has.
    """
    steps, bound = 100, bounded_sum(l2=1.0)
    poisson = Event(Gaussian(SIGMA), bound, Poisson(0.1)) * steps
    claimed = PrivacyCurve(poisson, Relation.ADD_OR_REMOVE).epsilon(DELTA)
    true = pld.compose([(pld.GaussianPair(2 / SIGMA, rate=0.1), steps)]).epsilon(DELTA)
    assert true.lower > 1.9 * claimed
    lots = Event(Gaussian(SIGMA), bound, WithoutReplacement(1, 10)) * steps
    assert PrivacyCurve(lots, Relation.REPLACE_ONE).epsilon(DELTA) >= true.lower


def test_a_shuffle_cannot_be_booked_as_poisson():
    """E003-6: the draw that sampled without replacement refuses the noise of a Poisson event."""
    rows, grid = np.ones((10, 1)), 1 / 64
    value = clipped_sum(rows, 1.0, grid)
    event = Event(Gaussian(20.0), value.sensitivity, Poisson(0.1))
    ledger = book()
    draw = ledger.authorize(everyone(event * 1)).draw(0)
    chosen = draw.sample(WithoutReplacement(1, 10), 10)
    assert chosen.sum() == 1
    with pytest.raises(GrantMisused, match="accounted as"):
        release(draw, clipped_sum(rows, 1.0, grid, chosen), event)


class ThesisAccountant:
    """The moments accountant as the thesis states it, for steps of one noise multiplier."""

    def epsilon(self, history, relation, delta):
        ((_, steps),) = history.parts
        return moments.epsilon(steps * moments.log_moments(1.0, SIGMA), delta)

    def begin(self, epsilon, delta):
        return Wallet(epsilon, delta, None, 0.0, 1.0, 0.0)

    def charge(self, wallet, history, relation):
        """Steps are counted by the clock, which moments add up along."""
        ((event, steps),) = history.parts
        after = wallet._replace(clock=wallet.clock + steps)
        fits = self.epsilon(event * int(after.clock), relation, wallet.delta) <= wallet.epsilon
        return after if fits else None

    def left(self, wallet):
        return Remaining(0.0, 0.0, 0.0)


@pytest.mark.parametrize(("accountant", "allowed"), [(ThesisAccountant(), 77), (ACCOUNTANT, 99)])
def test_the_ledger_refuses_before_the_step_that_would_overspend(accountant, allowed):
    """E003-7: stopping after epsilon passed 10 releases step 78; the ledger refuses it first."""
    step = moments.log_moments(1.0, SIGMA)
    assert moments.epsilon(77 * step, DELTA) == pytest.approx(9.997641822)
    assert moments.epsilon(78 * step, DELTA) == pytest.approx(10.07764182)
    assert moments.steps_within(10.0, DELTA, 1.0, SIGMA) == 77
    event, ledger = Event(Gaussian(SIGMA), bounded_sum(l2=1.0)), book(accountant=accountant)
    for _ in range(allowed):
        ledger.authorize(everyone(event * 1))
    with pytest.raises(BudgetExceeded, match="Budget exceeded for"):
        ledger.authorize(everyone(event * 1))
    assert ledger.grants == allowed
    assert ledger.spent(SERVER) <= 10.0


def test_the_unclipped_sum_is_unbounded():
    """E003-8: line 8 sums the unclipped gradients; one record moves the sum as far as it likes."""
    rows = np.concatenate([np.full((9, 2), 0.1), [[3e4, 4e4]]])
    assert np.linalg.norm(rows.sum(0) - rows[:-1].sum(0)) == pytest.approx(5e4)
    whole, without = (clipped_sum(r, 1.0, 2.0**-10) for r in (rows, rows[:-1]))
    moved = np.linalg.norm(whole.value - without.value) * 2.0**-10
    assert moved <= whole.sensitivity.under(Relation.ADD_OR_REMOVE).in_norm("l2") < 1.01
    event = Event(Gaussian(20.0), whole.sensitivity)
    draw = book().authorize(everyone(event * 1)).draw(0)
    with pytest.raises(GrantMisused, match="no proved sensitivity"):
        release(draw, rows.sum(0), event)


def test_dividing_by_the_lot_that_happened_to_be_drawn():
    """E003-9: noise for C/L, but dividing by |L_t| moves the mean by C when the lot is small."""
    clip, expected = 1.0, 10
    lot, neighbour = np.array([[1.0], [-1.0]]), np.array([[1.0]])
    moved = abs(lot.sum() / len(lot) - neighbour.sum() / len(neighbour))
    assert moved == pytest.approx(10 * clip / expected)
    method = methods.gradient_perturbation(epsilon=1.0, delta=1e-5, rounds=1, clipping_norm=clip)
    facts = Facts((expected,), 1, 1)
    algorithm = method.bind(facts, Trust.LOCAL)
    start, _ = algorithm.init(facts)
    features, labels = np.full((2, 1), 2.0, np.float32), np.array([1.0, -1.0], np.float32)
    local = jax.jit(numbers(partial(algorithm.local, facts)))
    merge = jax.jit(algorithm.merge)
    iterates = []
    for mask in ([True, True], [True, False]):
        _, value, _ = local(algorithm.ask(start), None, (features, labels), np.array(mask))
        total = np.asarray(value) * np.float32(algorithm.grid(facts, Trust.LOCAL))
        merged = merge(start, Aggregate(total, 1, float(expected)))
        iterates.append(np.asarray(algorithm.result(merged)))
    sensitivity = algorithm.event(facts, Trust.LOCAL).sensitivity
    bound = sensitivity.under(Relation.ZERO_OUT).in_norm("l2")
    assert np.linalg.norm(iterates[0] - iterates[1]) > 0
    assert np.linalg.norm(iterates[0] - iterates[1]) <= 4.0 * bound / expected * (1 + 1e-6)


def test_a_clip_read_from_the_data_moves_every_record():
    """E003-9: the median of the norms as clip lets one record move the sum by half the lot."""
    norms = np.concatenate([np.full(50, 0.01), np.full(50, 100.0)])

    def published(values):
        clip = np.median(values)
        return np.minimum(values, clip).sum(), clip

    before, clip = published(np.append(norms, 0.01))
    after, _ = published(np.append(norms, 100.0))
    assert abs(after - before) > 5000 * clip
    one, other = (
        clipped_sum(np.append(norms, last)[:, None], 1.0, 2.0**-10) for last in (0.01, 100.0)
    )
    bound = one.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
    assert abs(int(one.value[0]) - int(other.value[0])) * 2.0**-10 <= bound
    with pytest.raises(InvalidInput, match="clip"):
        methods.gradient_perturbation(epsilon=1.0, delta=1e-5, clipping_norm=float("nan"))


def test_rounds_until_convergence_are_a_message():
    """E003-27: stopping on clean values tells neighbours apart; our rounds are agreed and paid."""

    def published(records):
        theta, count = 0.0, 0
        while abs(np.mean(records) - theta) > 1e-3:  # the clean, private criterion
            theta, count = theta + 0.5 * (np.mean(records) - theta), count + 1
        return count

    assert published(np.zeros(20)) != published(np.append(np.zeros(19), 1.0))
    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(20, 2)) / 3, np.ones(20)
    other = rows.copy()
    other[-1] = [1.0, -1.0]
    algorithm = methods.gradient_perturbation(epsilon=1.0, delta=DELTA, rounds=7)
    study = Study(algorithm, Facts((20,), 2, 1), Trust.LOCAL)
    seen = []
    for features in (rows, other):
        ledger = Ledger.in_memory(Policy("d", Budget(1.0, DELTA)), ACCOUNTANT, seed=2)
        result = in_process.run(study, [Party("p", Private((features, labels)), ledger)])
        seen.append([(m.round, m.name) for m in result.transcript.seen_by(SERVER)])
        assert ledger.history(SERVER).parts[0][1] == 7  # all rounds, whatever was learnt
    assert seen[0] == seen[1]
    grant = Ledger.in_memory(Policy("d", Budget(1.0, DELTA)), ACCOUNTANT).authorize(study.cost, 7)
    with pytest.raises(GrantMisused, match="paid for 7"):
        grant.draw(7)
