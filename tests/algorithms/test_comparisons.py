"""Tests under noise: the right statistic, a level that holds, intervals that cover, plain refusals.

Shares of rejections are counted over many releases with fixed seeds. A bound at four standard
errors of a binomial is crossed by chance with probability 6e-5 where the level is what is claimed.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import comparisons, hypothesis_tests
from unisono.algorithms.estimates import HypothesisTest, answer_text
from unisono.algorithms.quantiles import Tree
from unisono.algorithms.statistics import Groups
from unisono.algorithms.survey import Survey, adjusted, holm_adjusted
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import GaussianSum
from unisono.mechanisms.laplace import LaplaceSum

from ..methods import CleanSums, statistics

QUIET = GaussianSum(1e-9)
NOISY = {"Gaussian": GaussianSum(6.0), "Laplace": LaplaceSum(6.0 / np.sqrt(2))}
BOUNDS = (0.0, 100.0)
ARMS = Groups(1, ("drug", "placebo", "neither"))
TWO = ("drug", "placebo")
LIKES = Groups(2, ("no", "yes"))


def moments(groups):
    u = [(np.clip(own, *BOUNDS) - 50) / 50 for own in groups]
    return np.array([[len(v), v.sum(), np.sqrt(2) * (v**2 - 0.75).sum()] for v in u])


def drawn(generator, law, shape):
    """Laplace noise of one share, or Gaussian noise."""
    if law.gaussian:
        return generator.normal(0, law.std, shape)
    return generator.laplace(0, law.scale, shape)


def about(share, expected, releases):
    """Within four standard errors."""
    return abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / releases)


# ------------------------------------------------------------------- without noise


def test_without_noise_means_are_compared_as_welch_does():
    generator = np.random.default_rng(1)
    groups = generator.normal(40, 8, 90), generator.normal(44, 15, 60)
    found = hypothesis_tests.compare_means(moments(groups), QUIET, 0.05)
    usual = stats.ttest_ind(*groups, equal_var=False)
    assert float(found.statistic) == pytest.approx(usual.statistic, rel=1e-6)
    # Welch divides by n - 1 where we do by n in the degrees, of which there are many.
    assert float(found.p_value) == pytest.approx(usual.pvalue, rel=0.02)
    ends = 50 * np.array(found.interval)
    assert ends == pytest.approx(np.array(usual.confidence_interval()), rel=2e-3)
    assert float(found.privacy_share) < 1e-6


def test_without_noise_tables_are_tested_as_pearson_does_and_shares_as_z_does():
    table = np.array([[30.0, 14, 9], [22, 31, 20]])
    found = hypothesis_tests.independence(table, QUIET, 0.05)
    usual = stats.chi2_contingency(table, correction=False)
    assert found.statistic == pytest.approx(usual.statistic)
    assert found.value == pytest.approx(stats.contingency.association(table.astype(int)), abs=1e-6)
    assert found.interval[0] < found.value < found.interval[1]
    pair = table[:, :2]
    shares = hypothesis_tests.compare_proportions(pair, QUIET, 0.05)
    square = stats.chi2_contingency(pair, correction=False)
    assert float(shares.statistic) ** 2 == pytest.approx(square.statistic)
    assert float(shares.p_value) == pytest.approx(square.pvalue)


def test_without_noise_intervals_of_shares_are_those_of_wilson_and_newcombe():
    counts = np.array([[14.0, 56], [32, 48]])  # the example of Newcombe 1998, 56/70 and 48/80
    found = hypothesis_tests.compare_proportions(counts, QUIET, 0.05)
    assert np.array(found.interval) == pytest.approx([0.0524, 0.3339], abs=1e-4)
    low, high = hypothesis_tests.wilson(counts[:1, 1], np.array([70.0]), QUIET, 0.05)
    wilson = stats.binomtest(56, 70).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((wilson.low, wilson.high), rel=1e-6)


def test_without_noise_the_simulated_test_is_close_to_fisher():
    table = np.array([[12.0, 38], [25, 30]])
    found = hypothesis_tests.fisher(table, GaussianSum(0.05), 0.05)
    usual = stats.fisher_exact(table)
    assert found.value == pytest.approx(usual.statistic, rel=0.01)
    assert found.p_value == pytest.approx(usual.pvalue, abs=0.02)  # of 2,000 tables


# ------------------------------------------------------------------- level and coverage


@pytest.mark.parametrize(("law", "releases"), [("Gaussian", 2000), ("Laplace", 500)])
def test_means_hold_their_level_and_cover(law, releases):
    """60 and 180 records, off the centre and with unequal spreads."""
    generator, noise = np.random.default_rng(2), NOISY[law]
    clean = np.stack(
        [
            moments((generator.normal(30, 18, 60), generator.normal(32, 8, 180)))
            for _ in range(releases)
        ]
    )
    truth = np.clip(np.random.default_rng(3).normal([[30], [32]], [[18], [8]], (2, 10**6)), 0, 100)
    difference = np.subtract(*truth.mean(axis=1))
    noisy = clean + drawn(generator, noise, clean.shape)
    found = hypothesis_tests.compare_means(noisy, noise, 0.05)
    known = found.known.all(axis=-1)
    assert known.mean() > 0.98
    low, high = (50 * end for end in found.interval)
    inside = (low <= difference) & (difference <= high)
    assert about(inside[known].mean(), 0.95, releases)
    # The control: a test that does not know of the noise is wrong several times as often.
    naive = hypothesis_tests.compare_means(noisy, QUIET, 0.05)
    unaware = 50 * np.array(naive.interval)
    assert ((unaware[0] > difference) | (unaware[1] < difference)).mean() > 0.15


@pytest.mark.parametrize(("law", "releases"), [("Gaussian", 4000), ("Laplace", 400)])
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_proportions_hold_their_level_at_small_counts(law, releases, share):
    """80 and 200 records, where about 1.6 of 80 have what is counted."""
    generator, noise = np.random.default_rng(4), NOISY[law]
    sizes = np.array([80, 200])
    yes = generator.binomial(sizes, share, (releases, 2))
    counts = np.stack([sizes - yes, yes], axis=-1)
    noisy = counts + drawn(generator, noise, counts.shape)
    found = hypothesis_tests.compare_proportions(noisy, noise, 0.05)
    known = found.known.all(axis=-1)
    assert known.mean() > 0.98
    assert about((found.p_value < 0.05)[known].mean(), 0.045, releases)
    covered = (found.interval[0] <= 0) & (found.interval[1] >= 0)
    assert covered[known].mean() > 0.95 - 4 * np.sqrt(0.05 * 0.95 / releases)
    naive = hypothesis_tests.compare_proportions(np.maximum(noisy, 0.1), QUIET, 0.05)
    assert (naive.p_value < 0.05).mean() > 0.1


@pytest.mark.parametrize(("law", "releases"), [("Gaussian", 300), ("Laplace", 100)])
def test_tables_hold_their_level_where_few_are_expected(law, releases):
    """3 x 3 tables in which 1.2 of 300 are expected in a corner."""
    generator, noise = np.random.default_rng(5), NOISY[law]
    margins = np.array([0.6, 0.34, 0.06])
    clean = generator.multinomial(300, np.outer(margins, margins).ravel(), releases)
    noisy = (clean + drawn(generator, noise, clean.shape)).reshape(-1, 3, 3)
    found = [hypothesis_tests.independence(one, noise, 0.05) for one in noisy]
    known = np.array([one.known for one in found])
    assert known.all()
    p = np.array([one.p_value for one in found])
    assert about((p < 0.05).mean(), 0.05, releases)
    # The control: Pearson's statistic of the same noisy counts.
    pearson = [
        stats.chi2_contingency(np.maximum(one, 0.5), correction=False).pvalue for one in noisy
    ]
    assert (np.array(pearson) < 0.05).mean() > 0.5


def test_the_grid_of_the_noise_makes_no_null_distribution_longer():
    table, noise = np.array([[60.0, 41, 30], [35, 52, 40]]), NOISY["Laplace"]
    for read in (
        hypothesis_tests.independence,
        lambda t, *how: hypothesis_tests.fisher(t[:, :2], *how),
    ):
        plain, whole = (read(table, replace(noise, step=step), 0.05) for step in (0.0, 1.0))
        assert plain.p_value == whole.p_value


def test_a_table_without_any_association_has_an_interval_all_the_same():
    table = np.outer([100.0, 200], [0.3, 0.7])
    found = hypothesis_tests.independence(table, NOISY["Gaussian"], 0.05)
    assert found.interval[0] == found.value == 0
    assert 0.05 < found.interval[1] < 0.3


def test_fisher_holds_its_level_and_its_odds_ratio():
    generator, noise, releases = np.random.default_rng(6), NOISY["Gaussian"], 150
    chances = np.outer([0.4, 0.6], [0.15, 0.85]).ravel()
    clean = generator.multinomial(600, chances, releases)
    noisy = (clean + drawn(generator, noise, clean.shape)).reshape(-1, 2, 2)
    found = [hypothesis_tests.fisher(one, noise, 0.05) for one in noisy]
    assert about(np.mean([one.p_value < 0.05 for one in found]), 0.05, releases)
    assert np.mean([one.interval[0] <= 1 <= one.interval[1] for one in found]) > 0.88


@pytest.mark.parametrize("law", NOISY)
def test_medians_are_covered_and_their_test_is_conservative(law):
    """200 releases of two laws with one median; 5 % of them are 10, 24 would be four errors."""
    generator, noise = np.random.default_rng(7), NOISY[law]
    tree = Tree(*BOUNDS, 10, 3)
    rejected = missed = 0
    for _ in range(200):
        groups = 41.3 * np.exp(0.3 * generator.normal(size=800)), generator.normal(41.3, 9, 500)
        nodes = np.stack([counted(own, tree) for own in groups])
        nodes = nodes + drawn(generator, noise, nodes.shape)
        found = hypothesis_tests.compare_medians(nodes, tree, noise, 0.05)
        assert found.known.all()
        rejected += found.p_value < 0.05
        missed += not found.interval[0] <= 0 <= found.interval[1]
    assert rejected <= 22
    assert missed <= 22
    assert found.interval[1] - found.interval[0] < 12


def counted(values, tree):
    leaves, _ = np.histogram(np.clip(values, tree.low, tree.high), tree.edges)
    levels = [leaves]
    while len(levels[0]) > tree.branching:
        levels.insert(0, levels[0].reshape(-1, tree.branching).sum(axis=1))
    return np.concatenate(levels).astype(float)


# ------------------------------------------------------------------- releases


def records(sizes=(700, 300, 500), seed=8):
    """Value, arm (0..2), likes it (0/1); the drug raises the value by 6 and the share by .2."""
    generator = np.random.default_rng(seed)
    found = []
    for n in sizes:
        arm = generator.choice(3, n, p=[0.45, 0.45, 0.1])
        value = generator.normal(50 + 6.0 * (arm == 0), 12)
        likes = generator.random(n) < 0.3 + 0.2 * (arm == 0)
        found.append(np.column_stack([value, arm, likes]).astype(np.float32))
    return found


QUESTIONS = {
    "means": comparisons.difference_of_means(0, BOUNDS, ARMS, between=TWO),
    "medians": comparisons.difference_of_medians(0, BOUNDS, ARMS, between=TWO),
    "proportions": comparisons.difference_of_proportions(2, ARMS, between=TWO),
    "chi-square": comparisons.chi_square(ARMS, LIKES),
    "fisher": comparisons.fisher(Groups(1, TWO), LIKES),
}


def asked(questions, rows, epsilon=4.0, delta=1e-6, relation=Relation.REPLACE_ONE, seed=3):
    survey, trust = Survey(questions), Trust.SECURE_SUM
    hidden = relation is Relation.ADD_OR_REMOVE
    sizes = tuple(800 if hidden else len(own) for own in rows)
    facts = agree_facts(sizes, 3, trust, exact_sizes=not hidden)
    study = Study(statistics(questions, epsilon, delta, relation), facts, trust)
    parties = [
        Party(
            str(k),
            Private((own,)),
            Ledger.in_memory(
                Policy(str(k), Budget(1e9, 0.1), relation=relation), ACCOUNTANT, seed=seed + k
            ),
        )
        for k, own in enumerate(rows)
    ]
    return survey.read(study, in_process.run(study, parties))


@pytest.mark.parametrize(
    ("delta", "relation"),
    [(1e-6, Relation.REPLACE_ONE), (0.0, Relation.ZERO_OUT), (1e-6, Relation.ADD_OR_REMOVE)],
)
def test_one_release_answers_all_tests_with_the_truth_in_every_interval(delta, relation):
    """At epsilon 400 for all: intervals are of these records, and narrow."""
    rows = records()
    found = asked(list(QUESTIONS.values()), rows, 400.0, delta, relation)
    value, arm, likes = np.concatenate(rows).T
    value = np.clip(value, *BOUNDS)
    drug, placebo = arm == 0, arm == 1
    table = np.array([[np.sum(likes[arm == a] == b) for b in (0, 1)] for a in range(3)])
    odds = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])
    truth = [
        value[drug].mean() - value[placebo].mean(),
        np.median(value[drug]) - np.median(value[placebo]),
        likes[drug].mean() - likes[placebo].mean(),
        stats.contingency.association(table),
        odds,
    ]
    for one, true in zip(found, truth, strict=True):
        reach = (one.interval[1] - one.interval[0]) / 2 + 1e-3
        assert abs(one.value - true) < 3 * reach + 0.02, one.name
        assert one.population_interval[0] <= true <= one.population_interval[1]
        assert one.test.p_value < 0.01
        assert one.test.p_value <= one.test.adjusted_p <= 5 * one.test.p_value + 1e-12
        assert 0 <= one.test.privacy_share < 0.5
        assert "after Holm" in one.text
        json.dumps(one.to_json(), allow_nan=False)


def test_noise_drowns_an_empty_group_and_that_is_said():
    rows = [own[own[:, 1] != 1] for own in records()]
    tests = [QUESTIONS[name] for name in ("means", "medians", "proportions")]
    for one in asked(tests, rows, 1.0):
        assert one.test.p_value is None
        assert not np.any(one.determined)
        assert "how many records there are of placebo: there may be none" in one.note
        assert "not determined" in one.text
        json.dumps(one.to_json(), allow_nan=False)
    means = asked(tests, rows, 1.0)[0]
    assert means.population_interval == (-100.0, 100.0)


def test_a_table_that_drowns_says_so_and_so_do_categories_that_may_be_empty():
    rows = [own[:20] for own in records()]
    for one in asked([QUESTIONS["chi-square"], QUESTIONS["fisher"]], rows, 0.1):
        assert one.test.p_value is None
        assert "expected counts drown" in one.note
    rows = [own[own[:, 1] != 2] for own in records()]
    [found] = asked([QUESTIONS["chi-square"]], rows, 2.0)
    assert "any records with neither" in found.note
    assert found.test.p_value < 0.05


def test_a_constant_column_is_named_as_what_it_may_be():
    rows = records()
    for own in rows:
        own[:, 0] = 50.0
    [found] = asked([QUESTIONS["means"]], rows, 2.0)
    assert "may as well be constant" in found.note
    assert found.population_interval[0] <= 0 <= found.population_interval[1]
    assert found.test.privacy_share > 0.5
    [usual] = asked([QUESTIONS["means"]], records(), 2.0)
    assert "constant" not in usual.note


def test_a_test_that_says_nothing_counts_for_the_others():
    said = HypothesisTest("no difference", "z", 2.0, None, 0.02, 0.1)
    silent = HypothesisTest("no difference", "z", None, None, None, 1.0)
    [usual] = asked([QUESTIONS["means"]], records())
    assert usual.test.adjusted_p is None  # one test alone
    first, second = adjusted([replace(usual, test=said), replace(usual, test=silent)])
    assert first.test.adjusted_p == pytest.approx(0.04)
    assert second.test.adjusted_p is None
    assert "not determined" in answer_text(second.to_json())


def test_holm_is_that_of_the_textbook():
    p = np.array([0.01, 0.005, 0.04, 0.5])
    assert holm_adjusted(p) == pytest.approx([0.03, 0.02, 0.08, 0.5])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: comparisons.difference_of_means(0, BOUNDS, ARMS), "say with `between` which two"),
        (lambda: comparisons.difference_of_means(0, (5, 5), ARMS, between=TWO), "finite range"),
        (
            lambda: comparisons.difference_of_medians(0, BOUNDS, ARMS, between=("drug", "tea")),
            "'tea' is no group",
        ),
        (
            lambda: comparisons.difference_of_medians(0, BOUNDS, ARMS, between=("drug", "drug")),
            "compared with itself",
        ),
        (
            lambda: comparisons.difference_of_proportions(2, Groups(1, ("drug",)), by_name="arm"),
            "'arm' has one group only, drug",
        ),
        (lambda: comparisons.chi_square(ARMS, Groups(2, ("no",))), "one value only"),
        (lambda: comparisons.fisher(ARMS, LIKES), "these have 3 and 2; ask for chi-square"),
    ],
)
def test_comparisons_that_make_no_sense_are_refused(ask, message):
    with pytest.raises(InvalidInput, match=message):
        ask()


# ------------------------------------------------------------------- what it hides

ASKED = {
    "means": (comparisons.difference_of_means(0, (-1.0, 1.0), LIKES), (1.0, 0, 0), (-1.0, 0, 1)),
    "medians": (
        comparisons.difference_of_medians(0, (-1.0, 1.0), LIKES),
        (1.0, 0, 0),
        (-1.0, 0, 1),
    ),
    "proportions": (comparisons.difference_of_proportions(0, LIKES), (1.0, 0, 0), (0.0, 0, 1)),
    "chi-square": (comparisons.chi_square(ARMS, LIKES), (0, 0.0, 0), (0, 2.0, 1)),
}


@pytest.mark.parametrize(
    ("name", "delta"),
    [*((name, 1e-5) for name in ASKED), ("proportions", 0.0), ("chi-square", 0.0)],
)
def test_audit(name, delta):
    """The two records that are furthest apart: honest noise passes, halved noise is caught; 95 %
    confidence, one fixed seed. (Laplace noise in very many numbers is audited less sharply.)"""
    question, one, other = ASKED[name]
    facts = agree_facts([3], 3, Trust.LOCAL)
    study = Study(statistics([question], 1.0, delta), facts, Trust.LOCAL)
    algorithm, worlds = study.algorithm, []
    sums = CleanSums(algorithm, facts)
    for own in (one, other):
        rows = np.array([own, (0.3, 1, 1), (0.0, 0, 0)], np.float32)
        worlds.append(sums(rows))
    gap, noise = worlds[0] - worlds[1], algorithm.event(facts, Trust.LOCAL).noise
    bound = sums.sensitivity.under(Relation.REPLACE_ONE)
    norm, far = ("l2", np.linalg.norm(gap)) if delta else ("l1", np.abs(gap).sum())
    assert 0.999 * bound.in_norm(norm) < far <= bound.in_norm(norm)
    for factor in (1.0, 0.5):
        generator, scores = np.random.default_rng(8), []
        for centre in (gap, np.zeros_like(gap)):
            moved = gap != 0
            shape = (10_000, int(moved.sum()))
            if delta:
                seen = centre[moved] + factor * generator.normal(0, noise.std, shape)
                scores.append(seen @ gap[moved])
            else:  # the likelihood ratio of Laplace noise, up to a monotone map
                seen = centre[moved] + factor * generator.laplace(0, noise.scale, shape)
                ratio = (np.abs(seen) - np.abs(seen - gap[moved])).sum(axis=1)
                scores.append(ratio.round(9))  # floats would tell the worlds apart
        found = audit(*scores, delta=delta, gaussian=delta > 0)
        best = max(found.epsilon_direct, found.epsilon_model_based or 0.0)
        if factor == 1:
            check(1.0, delta, found)
            assert best > 0.5
        else:
            assert best > 1.0
