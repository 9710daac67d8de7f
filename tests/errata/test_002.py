"""Source 002 (lecture 13): sensitivities that are too small there, and data called safe."""

import math

import numpy as np
import pytest
from scipy import stats

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks import linear_recovery
from unisono.attacks.audit import audit, check
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, Relation
from unisono.core.values import clipped_sum
from unisono.errors import AuditFailed, ClippedValues
from unisono.statistics import total

REPLACE = Relation.REPLACE_ONE


def residual(hidden, output, x, y):
    """f(x) - y of the two-layer network sum_j a_j tanh(w_j . x)."""
    return float(output @ np.tanh(hidden @ x)) - y


def gradients(hidden, output, x, y):
    """The corrected gradients (E002-5): by a_j, shape (m,), and by w_j, shape (m, d)."""
    r, activation = residual(hidden, output, x, y), np.tanh(hidden @ x)
    slope = 1 - activation**2
    return 2 * r * activation, 2 * r * (output * slope)[:, None] * x[None, :]


def bounds(hidden, output):
    """Replace-one L1 and L2 sensitivity from public weights alone (E002-10)."""
    spectral, (m, d) = np.linalg.norm(hidden, 2), hidden.shape
    reach = np.linalg.norm(output) * spectral + 1
    l1 = 4 * reach * (math.sqrt(m) * spectral + math.sqrt(d) * np.abs(output).sum())
    return l1, 4 * reach * math.hypot(spectral, np.linalg.norm(output))


def unit(vector):
    return vector / np.linalg.norm(vector)


def steepest(hidden, output):
    """A record that drives the output as far as it goes: the top singular direction."""
    _, _, right = np.linalg.svd(hidden)
    sign = 1.0 if output @ np.tanh(hidden @ right[0]) >= 0 else -1.0
    return sign * right[0]


def test_sum_of_ages_gets_a_hundredth_of_its_noise():
    """E002-1: adjacency ||x - x'||_1 <= 1 gives Delta = 1; one person moves the sum by 100."""
    epsilon, runs, generator = 0.5, 2000, np.random.default_rng(3)
    published = [age + generator.laplace(scale=1 / epsilon, size=runs) for age in (100.0, 0.0)]
    with pytest.raises(AuditFailed):
        check(epsilon, 0.0, audit(*published, 0.0, gaussian=False))
    book = Ledger.in_memory(Policy("ages", Budget(1.0)), ACCOUNTANT, seed=1)
    with pytest.warns(ClippedValues):
        total([20.0, 70.0, 1e9], bounds=(0, 100), epsilon=epsilon, ledger=book)
    scale = book.history(FINAL_MODEL).parts[0][0].noise.scale
    assert scale >= 100 / epsilon  # true epsilon of the released sum is 100 / scale
    assert book.spent(FINAL_MODEL) <= epsilon


@pytest.mark.filterwarnings("ignore::unisono.errors.ClippedValues")
def test_ages_beyond_the_public_bounds_are_clipped():
    """E002-1: the bound is enforced, so an age of a billion moves the sum no further."""
    values = []
    for last in (100.0, 1e9):
        book = Ledger.in_memory(Policy("ages", Budget(1.0)), ACCOUNTANT, seed=1)
        values.append(total([20.0, 70.0, last], bounds=(0, 100), epsilon=0.5, ledger=book).value)
    assert values[0] == values[1]


def test_the_residual_also_moves_with_the_label(generator):
    """E002-7: (4.7) forgets y - y'; with x = x' it says 0 and the truth is 2."""
    hidden, output = generator.normal(size=(8, 5)), np.full(8, 1 / 8)
    x = unit(generator.normal(size=5))
    published = float(output @ (np.tanh(hidden @ x) - np.tanh(hidden @ x)))
    true = residual(hidden, output, x, 1.0) - residual(hidden, output, x, -1.0)
    assert published == 0.0
    assert abs(true) == pytest.approx(2.0)
    one, other = (
        np.concatenate([g.ravel() for g in gradients(hidden, output, x, y)]) for y in (1.0, -1.0)
    )
    assert np.linalg.norm(one - other, 1) > 0.1
    assert np.linalg.norm(one - other, 1) <= bounds(hidden, output)[0]


def test_the_bound_on_one_activation_gradient_is_false(generator):
    """E002-8: (4.8) uses one residual; where it is 0 the bound is 0 and the gradient moves."""
    hidden, output = generator.normal(size=(6, 4)), np.full(6, 1 / 6)
    x, other = unit(generator.normal(size=4)), unit(generator.normal(size=4))
    label = float(output @ np.tanh(hidden @ x))  # in [-1, 1], and makes r = 0
    r, r_other = residual(hidden, output, x, label), residual(hidden, output, other, -1.0)
    here, there = np.tanh(hidden @ x), np.tanh(hidden @ other)
    moved = np.abs(r * here - r_other * there)
    assert np.all(np.abs(r) * (np.abs(here) + np.abs(there)) < 1e-12)
    assert moved.max() > 0.1
    assert np.all(moved <= max(abs(r), abs(r_other)) * (np.abs(here) + np.abs(there)) + 1e-12)


def test_typical_activations_say_nothing_about_the_worst_record(generator):
    """E002-8: E|sigma(w.x)| is O(1) over random x, the supremum over x is ||w|| ~ sqrt(d)."""
    d = 900
    weights = generator.normal(size=d)
    typical = np.mean([abs(weights @ unit(generator.normal(size=d))) for _ in range(200)])
    worst = abs(weights @ unit(weights))
    assert typical < 1.2
    assert worst == pytest.approx(np.linalg.norm(weights))
    assert worst > 20 * typical


def test_public_weights_bound_every_gradient(generator):
    """E002-10: Delta_1 and Delta_2 from ||W||_op and ||a|| hold for every pair of records."""
    tightest = 0.0
    for trial in range(300):
        m, d = generator.integers(1, 20, size=2)
        hidden = generator.normal(size=(m, d)) * generator.choice([0.05, 0.3, 1.0, 5.0])
        output = generator.normal(size=m) if trial % 2 else np.full(m, 1 / m)
        l1, l2 = bounds(hidden, output)
        worst = steepest(hidden, output)
        records = [(worst, -1.0), (-worst, 1.0), (worst, 1.0)]
        for _ in range(6):
            records.append((unit(generator.normal(size=d)), generator.choice([-1.0, 1.0])))
        rows = np.array(
            [
                np.concatenate([g.ravel() for g in gradients(hidden, output, *record)])
                for record in records
            ]
        )
        apart = rows[:, None] - rows[None, :]
        assert np.abs(apart).sum(-1).max() <= l1
        assert np.linalg.norm(apart, axis=-1).max() <= l2
        tightest = max(tightest, float(np.linalg.norm(apart, axis=-1).max() / l2))
    assert tightest > 0.3  # the bound is not empty talk


def test_the_typical_case_constant_is_exceeded_by_a_worst_record(generator):
    """E002-10: calibrated on typical records, (4.10) is passed by one record; clipping is not."""
    m, d = 20, 320
    hidden, output = generator.normal(size=(m, d)), np.full(m, 1 / m)

    def gradient(x, y):
        # Identity activation, |sigma(t)| <= |t|: the widest one that the bound allows.
        r = float(output @ (hidden @ x)) - y
        return np.concatenate([2 * r * (hidden @ x), np.outer(2 * r * output, x).ravel()])

    typical = [
        gradient(unit(generator.normal(size=d)), generator.choice([-1.0, 1.0])) for _ in range(300)
    ]
    largest = np.linalg.norm(typical, 1, axis=1).max()
    worst = gradient(unit(hidden.T @ output), -1.0)
    apart = np.linalg.norm(worst - typical[0], 1)
    assert apart > 3 * (2 * largest)
    assert apart <= bounds(hidden, output)[0]
    rows = np.array([worst, *typical])
    whole, without = (clipped_sum(r, 1.0, 2.0**-12) for r in (rows, rows[1:]))
    moved = np.linalg.norm(whole.value - without.value) * whole.grid
    assert moved <= whole.sensitivity.under(Relation.ZERO_OUT).in_norm("l2") < 1.1


def test_a_linear_network_gives_the_last_record_away(generator):
    """E002-12: d + 1 rounds give X'X and X'y exactly; who knows the others has the last record."""
    d, records = 4, 9
    rows, targets = generator.normal(size=(records, d)), generator.normal(size=records)
    hidden = generator.normal(size=(6, d))
    states, updates = [], []
    for _ in range(d + 1):
        output = generator.normal(size=6)
        residuals = rows @ hidden.T @ output - targets
        states.append({"hidden": hidden, "output": output})
        updates.append({"output": hidden @ (residuals @ rows)})
    directions = np.array([state["hidden"].T @ state["output"] for state in states])
    sums = np.array(
        [np.linalg.lstsq(hidden, update["output"], rcond=None)[0] for update in updates]
    )
    solved = np.linalg.solve(np.column_stack([directions, np.ones(d + 1)]), sums)
    gram, shift = solved[:d], -solved[d]
    np.testing.assert_allclose(gram, rows.T @ rows, atol=1e-8)
    np.testing.assert_allclose(shift, rows.T @ targets, atol=1e-8)
    row, target = linear_recovery.record_of(
        gram - rows[:-1].T @ rows[:-1], shift - rows[:-1].T @ targets[:-1]
    )[:2]
    np.testing.assert_allclose(np.outer(row, row), np.outer(rows[-1], rows[-1]), atol=1e-6)
    np.testing.assert_allclose(row * target, rows[-1] * targets[-1], atol=1e-6)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_privacy_bounds_every_reconstruction(mu):
    """E002-13: of k equally likely secrets mu-GDP lets at most Phi(Phi^-1(1/k) + mu) be found.

    Here the best guess among 1,000 orthogonal secrets, 4,000 trials each: below the bound plus
    five standard errors.
    """
    secrets, trials = 1000, 4000
    noise = np.random.default_rng(3).normal(size=(trials, secrets))
    noise[:, 0] += mu / math.sqrt(2)  # neighbours e_i, e_j are sqrt(2) mu/sqrt(2) = mu apart
    found = np.mean(noise.argmax(axis=1) == 0)
    bound = gaussian.reconstruction_bound(1 / secrets, mu)
    assert bound == pytest.approx(stats.norm.cdf(stats.norm.ppf(1e-3) + mu))
    assert found <= bound + 5 * math.sqrt(bound / trials)
