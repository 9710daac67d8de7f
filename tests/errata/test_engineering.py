"""X-1 to X-11 but X-6: ways a correct formula becomes a false claim. X-6: test_engineering_wire."""

import copy
import math
import os
import pickle
import stat

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtr

from unisono.accounting import gaussian, hidden_order, integer_noise, shares
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.core.algorithm import Facts
from unisono.core.costs import everyone
from unisono.core.events import DiscreteGaussian, Event, Gaussian, bounded_sum
from unisono.core.fold import fold, in_graph_event
from unisono.core.ledger import Ledger
from unisono.core.noise import rounded_share_gap
from unisono.core.noise.in_graph_error import LARGEST_NORMAL, composed_error
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps, release
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private, clipped_sum
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, ConditionViolated, GrantMisused, InvalidInput

from .. import methods


def test_a_float_sum_moves_by_twice_the_clip():
    """X-1: a compiled float32 running sum moves by 2C when a record of norm C = 1 goes; ours by C.

    With the record the sum passes 4096, where steps of float32 double, and each later record of
    0.6 steps is rounded up to a whole one; without it they are rounded to half of that.
    """
    small = np.full(2**12, 0.6 * 2.0**-11, np.float32)
    rows = np.concatenate([np.ones(2**12, np.float32), small])[:, None]
    running = jax.jit(lambda r: jax.lax.scan(lambda s, x: (s + x, None), jnp.zeros(1), r)[0])
    moved = float(running(rows)[0]) - float(running(rows[1:])[0])
    assert moved == 2.0
    grid = 2.0**-16
    whole, without = (clipped_sum(r, 1.0, grid) for r in (rows, rows[1:]))
    steps = int(whole.value[0]) - int(without.value[0])
    assert steps * grid == 1.0
    assert steps * grid <= whole.sensitivity.under(Relation.ZERO_OUT).in_norm("l2")


def test_one_key_in_a_scan_repeats_its_noise():
    """X-2: a key used inside lax.scan gives one noise in all 50 steps; `fold` gives 50."""
    key = jax.random.key(0)
    _, repeated = jax.lax.scan(lambda c, _: (c, jax.random.normal(key)), 0, jnp.arange(50))
    assert len(set(np.asarray(repeated).tolist())) == 1
    grid, value = 2.0**-10, clipped_sum(np.zeros((1, 1)), 1.0, 2.0**-10)
    event = in_graph_event(Event(Gaussian(500.0), value.sensitivity), grid, 1, 50)
    ledger = Ledger.in_memory(Policy("d", Budget(1.0, 1e-6)), ACCOUNTANT, seed=1)
    draw = ledger.authorize(everyone(event * 50)).draw(0)

    noise = fold(
        draw,
        event,
        grid,
        50,
        lambda seen, step: clipped_sum(jnp.zeros((1, 1)), 1.0, grid),
        lambda seen, noised, step: seen.at[step].set(noised[0]),
        jnp.zeros(50),
    )
    noise = np.asarray(noise)
    assert len(set(noise.tolist())) > 45


def test_a_grant_gives_fresh_noise_at_every_step():
    """X-2: draws of one grant are indexed by step; a step cannot be drawn twice."""
    value = clipped_sum(np.zeros((1, 2)), 1.0, 2.0**-10)
    event = Event(Gaussian(500.0), value.sensitivity)
    ledger = Ledger.in_memory(Policy("d", Budget(1.0, 1e-6)), ACCOUNTANT, seed=1)
    grant = ledger.authorize(everyone(event * 50), releases=50)
    noise = [release(grant.draw(i), value, event).value for i in range(50)]
    assert len({tuple(n) for n in noise}) == 50
    with pytest.raises(GrantMisused, match="used already"):
        grant.draw(49)


def hockey_stick(law, epsilon, shift=1):
    """sup_A P(A) - e^epsilon P'(A) for a law on consecutive integers and its shift."""
    moved = np.roll(law, shift)
    return float(np.maximum(law - math.exp(epsilon) * moved, 0).sum())


def test_a_discrete_gaussian_lies_above_the_continuous_curve():
    """X-3: std 1, epsilon .2: delta is .332, not .322; our bound for the integer law covers it."""
    k = np.arange(-40, 41)
    law = np.exp(-(k**2) / 2)
    law /= law.sum()
    assert hockey_stick(law, 0.2) == pytest.approx(0.332, abs=5e-4)
    assert gaussian.delta(0.2, 1.0) == pytest.approx(0.322, abs=5e-4)
    assert integer_noise.discrete_gaussian_delta(0.2, 1.0) >= hockey_stick(law, 0.2)
    event = Event(DiscreteGaussian(1.0, 1.0, 1), bounded_sum(l1=1.0, l2=1.0, linf=1.0))
    assert PrivacyCurve(event * 1, Relation.ZERO_OUT).delta(0.2) >= hockey_stick(law, 0.2)


@pytest.mark.parametrize(("share", "parties"), [(1.0, 1), (1.0, 2), (1.0, 5), (0.4, 2)])
def test_sums_of_rounded_shares_stay_on_the_continuous_curve(share, parties):
    """X-3: rounded Gaussian shares keep the exact curve, up to a gap that the event carries."""
    k = np.arange(-60, 61)
    one = ndtr((k + 0.5) / share) - ndtr((k - 0.5) / share)
    law = one
    for _ in range(parties - 1):
        law = np.convolve(law, one)
    mu = 1 / (share * math.sqrt(parties))
    for epsilon in (0.0, 0.2, 1.0, 2.0):
        gap = (1 + math.exp(epsilon)) * rounded_share_gap(share, parties)
        assert hockey_stick(law, epsilon) <= gaussian.delta(epsilon, mu) + gap + 1e-14
    # Shares below a grid step do exceed the bare curve; at 4 steps nothing is left to see.
    assert (hockey_stick(law, 0.2) > gaussian.delta(0.2, mu)) is (share < 1)
    assert rounded_share_gap(4.0, 100) < 1e-68


def test_shares_are_planned_for_the_survivors_who_do_not_collude():
    """X-4: 20 shares planned, 5 lost to colluders: 8.59 becomes 10.24; ours plans h = s - t.

    Variances of 40,000 draws scatter by 0.7 %; the tolerance is five of that.
    """
    mu = math.sqrt(78) / 5.0
    for colluding, epsilon in ((0, 8.59), (1, 8.86), (5, 10.24), (10, 13.19), (15, 20.65)):
        found = gaussian.epsilon(1e-5, shares.mu_with_fewer(mu, 20, 20 - colluding))
        assert found == pytest.approx(epsilon, abs=0.005)
    facts = Facts((10,) * 20, 3, minimum_parties=16, colluders=5)
    assert facts.honest == shares.honest_shares(16, 5) == 11
    event = Event(Gaussian(8.0, gap=1e-6), bounded_sum(l2=1.0))
    drawn = noise_steps(bytes(32), event, 1 / 64, (40_000,), honest=facts.honest)
    variance = np.var(drawn / 64)
    assert variance == pytest.approx(shares.share_variance(64.0, 16, 5), rel=0.035)
    assert facts.honest * variance == pytest.approx(64.0, rel=0.035)
    with pytest.raises(InvalidInput, match="no honest party"):
        Facts((10,) * 20, 3, minimum_parties=5, colluders=5)
    with pytest.raises(ConditionViolated, match="no honest noise"):
        shares.honest_shares(5, 5)


def test_inexact_minimisers_stay_within_the_public_tolerance(generator):
    """X-5: minimisers found to a gradient of tau differ by at most 2G/(n lambda) + 2 tau/lambda."""
    n, d, strength, tau = 30, 4, 0.05, 0.01
    rows = generator.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.where(generator.random(n) < 0.5, -1.0, 1.0)

    def solve(x, y, stop):
        theta = np.zeros(d)
        while True:
            margins = y * (x @ theta)
            gradient = -(y / (1 + np.exp(margins))) @ x / n + strength * theta
            if np.linalg.norm(gradient) <= stop:
                return theta
            theta = theta - 2.0 * gradient

    exact = 2 / (n * strength)
    beyond_tau = []
    for _ in range(30):
        other_rows, other_labels = rows.copy(), labels.copy()
        other_rows[-1], other_labels[-1] = -rows[-1], generator.choice([-1.0, 1.0])
        pair = ((rows, labels), (other_rows, other_labels))
        best = [solve(x, y, 1e-10) for x, y in pair]
        rough = [solve(x, y, tau) for x, y in pair]
        assert np.linalg.norm(best[0] - best[1]) <= exact
        assert np.linalg.norm(rough[0] - rough[1]) <= exact + 2 * tau / strength
        beyond_tau.append(max(np.linalg.norm(r - b) for r, b in zip(rough, best, strict=True)))
    assert 0.01 < max(beyond_tau) <= tau / strength


def test_copies_of_a_ledger_share_one_budget(ledger, cost):
    """X-7: deep copies, as scikit-learn's clone makes them, spend from one book; no pickles."""
    estimator = {"ledger": ledger, "alpha": 1.0}
    clones = [copy.deepcopy(estimator)["ledger"], copy.copy(ledger), ledger]
    alone = 0
    while gaussian.epsilon(1e-6, math.sqrt(alone + 1) * 2 / 20) <= 1.0:
        alone += 1
    for number in range(alone):
        clones[number % 3].authorize(cost)
    for clone in clones:
        with pytest.raises(BudgetExceeded):
            clone.authorize(cost)
    assert ledger.grants == alone > 2
    assert ledger.spent(SERVER) <= 1.0
    for unpicklable in (ledger, Private([1])):
        with pytest.raises(GrantMisused, match="pickled"):
            pickle.dumps(unpicklable)


def test_the_certificate_prints_who_may_own_what():
    """X-8: records per person and whether parties are disjoint are declared and printed."""
    study = Study(
        methods.gradient_perturbation(epsilon=1.0, delta=1e-5, rounds=2),
        Facts((6, 6), 2, 2),
        Trust.LOCAL,
    )
    data = Private((np.full((6, 2), 0.3), np.ones(6)))
    parties = [
        Party(
            name,
            data,
            Ledger.in_memory(
                Policy(
                    name, Budget(1.0, 1e-5), records_per_person=number, parties_disjoint=number < 3
                ),
                ACCOUNTANT,
                seed=1,
            ),
        )
        for name, number in (("a", 1), ("b", 3))
    ]
    certificate = in_process.run(study, parties).certificate
    # The weakest declaration of all parties is what may be claimed.
    assert certificate.declarations == {"records_per_person": 3, "parties_disjoint": False}
    assert "records per person: 3, parties disjoint: False" in certificate.text()
    assert certificate.to_json()["declarations"]["records_per_person"] == 3
    # What several rows cost: three records move together.
    one = gaussian.mu_for(1.0, 1e-5)
    assert gaussian.epsilon(1e-5, gaussian.group(one, 3)) > 3.0


def test_grants_taken_are_spent_and_keys_are_never_used_again(tmp_path, cost, event):
    """X-9: a crash after a grant costs it, a restart draws other noise, the book is mode 0600."""
    path = tmp_path / "ages.ledger"
    value = clipped_sum(np.zeros((1, 1)), 0.5, 2.0**-20)
    seen = set()
    for attempt in range(1, 3):
        book = (
            Ledger.open(path, ACCOUNTANT)
            if attempt > 1
            else Ledger.create(path, Policy("ages", Budget(1.0, 1e-6)), ACCOUNTANT)
        )
        grant = book.authorize(cost)
        seen.add(int(release(grant.draw(0), value, event).value[0]))
        assert book.grants == attempt
        with pytest.raises(GrantMisused):
            grant.draw(0)
        book.close()
    assert len(seen) == 2  # equal by chance once in 2^24
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_coordinator_who_names_one_record_again_and_again():
    """X-10: a record named n^2 times costs 20-fold; a cap of k_max uses holds mu at sqrt(k_max)."""
    n, delta = 300, 0.5 / 300**3
    sigma = hidden_order.published_sigma(0.5, delta, n, lipschitz=1.0)
    believed = hidden_order.known_order_epsilon(delta, n, 1.0, sigma)
    attacked = gaussian.epsilon(delta, hidden_order.capped_mu(n**2, n, 1.0, sigma))
    assert attacked > 20 * believed
    cap = n + 60
    planned = hidden_order.capped_mu(cap, n, 1.0, sigma)
    assert planned == pytest.approx(math.sqrt(cap) * 2 * n / sigma)
    assert gaussian.epsilon(delta, planned) < 1.1 * believed


def test_summed_total_variation_of_float_noise_is_useless():
    """X-11: float32 normals end near 5.4: over 1e9 draws the missing tail alone sums to above 1.

    Ours bounds every cell's relative error and composes it: below 1e-3 over the same draws.
    """
    largest = max(
        abs(float(jax.lax.erf_inv(jnp.float32(u)))) * math.sqrt(2)
        for u in (np.nextafter(np.float32(-1), np.float32(0)), np.float32(1 - 2.0**-22))
    )
    assert largest < 5.5
    assert 10**9 * 2 * ndtr(-largest) > 1.0
    error = composed_error(10**9, 16.0)
    assert error.epsilon < 1e-3
    assert error.delta <= 1e-12
    total_epsilon, total_delta = error.applied_to(1.0, 1e-6)
    assert total_epsilon < 1.002
    assert total_delta < 1.002e-6
    assert LARGEST_NORMAL > 11
    ideal = Event(Gaussian(16.0), bounded_sum(l2=1.0))
    paid = in_graph_event(ideal, grid=1.0, dimension=50, steps=100)
    costs = [PrivacyCurve(e * 100, Relation.ZERO_OUT).epsilon(1e-5) for e in (ideal, paid)]
    assert costs[0] < costs[1] < costs[0] + 1e-3
    with pytest.raises(ConditionViolated, match="outside"):
        composed_error(10**9, 1.0)
