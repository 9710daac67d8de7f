"""Noise as publications print it: what it is, what it costs, who is told, and who pays for it."""

import math
from functools import partial

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.accounting import gaussian, moments
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import statistics
from unisono.algorithms.registry import algorithms
from unisono.core.algorithm import Facts
from unisono.core.events import Gaussian, Laplace
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, ITERATES, PARTY, Relation, Trust, Unit
from unisono.core.values import Private
from unisono.engines import in_process, one_round
from unisono.engines.distributed.spender import Spender
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import PublishedConfig

from .. import methods

FEATURES = 3
LOGISTIC = RecordLoss(
    lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
    np.zeros(FEATURES, np.float32),
    (np.zeros(FEATURES, np.float32), np.float32(0)),
)
AGE = statistics.total(0, (0.0, 1.0), step=1.0)


def study_of(method, sizes=(20, 20), trust=Trust.LOCAL, **facts):
    return Study(method, Facts(sizes, FEATURES, len(sizes), **facts), trust)


def noise_of(study):
    return study.algorithm.event(study.facts, study.trust).noise


def charged(study, delta, relation=Relation.REPLACE_ONE, viewer=ITERATES):
    return ACCOUNTANT.epsilon(study.cost[viewer], relation, delta)


def parties_of(study, budget=100.0, seed=None, published=True, unit=Unit.RECORD):
    generator, made = np.random.default_rng(0), []
    for number, size in enumerate(study.facts.records):
        rows = generator.normal(size=(size, FEATURES)).astype(np.float32)
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        relation = Relation.ZERO_OUT if unit is Unit.PARTY else Relation.REPLACE_ONE
        policy = Policy(f"p{number}", Budget(budget, 1e-5), (), relation, unit, published=published)
        ledger = Ledger.in_memory(policy, ACCOUNTANT, None if seed is None else seed + number)
        columns = (rows, np.where(rows[:, 0] > 0, 1.0, -1.0).astype(np.float32))
        made.append(Party(f"p{number}", Private(columns), ledger))
    return made


# ------------------------------------------------------------- the noise, by its formula


def test_gradient_perturbation_has_the_printed_sigma():
    """8 G² T log(1/δ) / (m n_(1) ε)², of the mean; of the sum, n times its root."""
    method = methods.gradient_perturbation(1.0, 1e-6, rounds=100, published=True)
    equal = study_of(method, (100,) * 10, Trust.SECURE_SUM)
    assert noise_of(equal).std / 1000 == pytest.approx(0.1051, rel=1e-3)
    squared = 8 * 100 * math.log(1e6) / (10 * 100 * 1.0) ** 2
    assert (noise_of(equal).std / 1000) ** 2 == pytest.approx(squared, rel=1e-12)
    weighted = methods.gradient_perturbation(
        1.0, 1e-6, rounds=100, published=True, objective="equal-parties"
    )
    unequal = study_of(weighted, (100, 300))
    printed = math.sqrt(8 * 100 * math.log(1e6)) / (2 * 100 * 1.0)
    assert noise_of(unequal).std / 400 == pytest.approx(printed)


def test_the_others_have_theirs():
    sgd1 = methods.sgd_sequential(0.5, 1e-10, steps=4, uses=1, published=True)
    assert noise_of(study_of(sgd1, (1000,))).std == pytest.approx(2.965e5, rel=1e-3)
    sgd2 = methods.sgd_synchronous(1.0, 1e-6, rounds=100, published=True)
    assert noise_of(study_of(sgd2)).std == pytest.approx(453.9, rel=1e-4)
    classical = study_of(methods.statistics([AGE], 0.9, 1e-5, published=True))
    event = classical.algorithm.event(classical.facts, classical.trust)
    distance = event.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
    assert event.noise.std / distance == pytest.approx(5.383, rel=1e-4)
    output = methods.output_perturbation(2.0, regularisation=0.1, published=True)
    unequal = study_of(output, (20, 50))
    noise = noise_of(unequal)
    assert isinstance(noise, Laplace)
    assert noise.scale == pytest.approx(2 / (20 * 0.1 * 2.0), rel=1e-8)


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_dp_sgd_has_that_of_the_moments_accountant(rate):
    """With the noise multiplier of which the accountant says epsilon, and with no less."""
    rounds, z = 77, 5.0 if rate == 1 else 1.3
    epsilon = moments.epsilon(rounds * moments.log_moments(rate, z), 1e-5)
    options = {"rounds": rounds, "sampling_rate": rate, "published": True}
    for study in (
        study_of(methods.dp_sgd_convex(epsilon, 1e-5, **options), (400,)),
        study_of(methods.dp_sgd(LOGISTIC, optax.sgd(0.1), epsilon, 1e-5, **options), (400,)),
    ):
        event = study.algorithm.event(study.facts, study.trust)
        clip = event.sensitivity.under(Relation.ZERO_OUT).in_norm("l2")
        assert event.noise.std / clip == pytest.approx(z, rel=1e-6)
        assert charged(study, 1e-5, Relation.ZERO_OUT) < epsilon  # 32 moments waste some
        assert charged(study, 1e-5, Relation.REPLACE_ONE) > 1.2 * epsilon


def test_moments_prove_nothing_below_what_32_of_them_can():
    assert moments.noise_multiplier_for(9.997641822, 1e-5, 1.0, 77) == pytest.approx(5.0)
    with pytest.raises(InvalidInput, match=r"nothing below 0\.36"):
        moments.noise_multiplier_for(0.3, 1e-5, 0.1, 10)


def test_algorithm_3_has_shares_of_what_the_sum_would_take():
    """T = 78 rounds with a noise multiplier of 5 are said to cost 8.59 (zero-out)."""
    epsilon = gaussian.epsilon(1e-5, math.sqrt(78) / 5)
    assert epsilon == pytest.approx(8.59, abs=0.005)
    method = methods.clipped_updates(epsilon=epsilon, rounds=78, published=True)
    study = study_of(method, (10,) * 20)
    event = study.algorithm.event(study.facts, study.trust)
    clip = event.sensitivity.under(Relation.ZERO_OUT).in_norm("l2")
    assert event.noise.std * math.sqrt(20) == pytest.approx(5 * clip)
    bound = gaussian.epsilon(1e-5, math.sqrt(78 * 20) / 5)
    assert charged(study, 1e-5, Relation.ZERO_OUT) == pytest.approx(bound, rel=1e-6)


def test_algorithm_3_has_other_dynamics():
    """A party's factor holds its own noise, and what is sent is what the factor grew by."""
    method = methods.clipped_updates(epsilon=2.0, rounds=3, published=True)
    study = study_of(method, (10,) * 4)
    own = study.algorithm.init(study.facts)[1]
    noisy = jnp.full_like(own.sent, 0.25)
    kept = study.algorithm.inner.absorb(study.facts, None, own, noisy)
    np.testing.assert_array_equal(study.algorithm.inner.report(kept), noisy)
    after = study.algorithm.settle(kept, True)
    np.testing.assert_allclose(after.factors[0], method.config.damping * noisy)
    np.testing.assert_array_equal(study.algorithm.settle(kept, False).factors, own.factors)


def test_everybody_who_is_printed_has_the_field_and_its_words():
    named = {name for name, kind in algorithms().items() if kind.printed is not None}
    assert named == {
        *("gradient-perturbation", "output-perturbation", "sgd-sequential", "sgd-synchronous"),
        *("statistics", "dp-sgd", "dp-sgd-convex", "pvi-clipped-updates"),
    }
    for name, kind in algorithms().items():
        assert issubclass(kind.config, PublishedConfig) == (name in named)


# ------------------------------------------------------------- what it costs


@pytest.mark.parametrize(("claim", "true"), [(1.0, 0.7584), (16.0, 19.14), (32.0, 49.91)])
def test_gradient_perturbation_is_charged_its_true_epsilon(claim, true):
    study = study_of(methods.gradient_perturbation(claim, 1e-5, rounds=10, published=True))
    assert charged(study, 1e-5) == pytest.approx(true, rel=5e-3)  # rounding adds 0.2 %


def test_calibrated_and_printed_studies_are_two_studies():
    plain, printed = (
        study_of(methods.gradient_perturbation(1.0, 1e-5, rounds=10, published=published))
        for published in (False, True)
    )
    assert plain.hash != printed.hash
    assert plain.algorithm.printed is None
    assert "published" not in plain.algorithm.settings  # as before there was a choice
    assert printed.algorithm.settings["published"] is True


def test_ledgers_are_charged_the_true_cost_and_everybody_is_told_both():
    study = study_of(methods.gradient_perturbation(16.0, 1e-5, rounds=4, published=True))
    parties = parties_of(study)
    certificate = in_process.run(study, parties).certificate
    for party in parties:
        assert party.ledger.spent(FINAL_MODEL) == pytest.approx(19.14, rel=5e-3)
    said = "noise as printed in Chen 2019, theorem on gradient perturbation; the printed epsilon "
    assert said + "is 16, the true one at most 19.1" in certificate.text()
    assert certificate.to_json()["printed"].startswith(said)
    with pytest.raises(BudgetExceeded):  # the claim would fit
        in_process.run(study, parties_of(study, budget=17.0))


def test_nothing_is_said_of_noise_that_was_calibrated():
    study = study_of(methods.gradient_perturbation(1.0, 1e-5, rounds=2))
    certificate = in_process.run(study, parties_of(study, published=False)).certificate
    assert "printed" not in certificate.to_json()
    assert "PRINTED" not in certificate.text()


def test_shares_of_a_secure_sum_amount_to_it():
    """h honest parties' shares have the printed noise; one curious party sees less of it."""
    method = methods.gradient_perturbation(1.0, 1e-5, rounds=4, published=True)
    study = study_of(method, (20,) * 4, Trust.SECURE_SUM)
    assert isinstance(noise_of(study), Gaussian)
    alone = study_of(method, (20,) * 4, Trust.TRUSTED_SERVER)
    assert noise_of(study).std == noise_of(alone).std
    assert charged(study, 1e-5, viewer=PARTY) > charged(study, 1e-5)


# ------------------------------------------------------------- who pays for it


def untouched(parties):
    return all(party.ledger.grants == 0 for party in parties)


STUDIES = {
    "descent": partial(methods.gradient_perturbation, 1.0, 1e-5, rounds=2, published=True),
    "statistics": partial(methods.statistics, [AGE], 1.0, 1e-5, published=True),
    "sgd1": partial(methods.sgd_sequential, 2.0, 1e-5, steps=4, uses=2, published=True),
}


@pytest.mark.parametrize("name", STUDIES)
def test_real_ledgers_pay_where_their_policy_says_so(name):
    study = study_of(STUDIES[name]())
    refusing = parties_of(study, published=False)
    with pytest.raises(PrivacyViolation, match="does not allow that"):
        in_process.run(study, refusing)
    assert untouched(refusing)
    parties = parties_of(study)
    one_refuses = [parties[0], refusing[1]]
    with pytest.raises(PrivacyViolation, match="policy of 'p1' does not allow"):
        in_process.run(study, one_refuses)
    assert untouched(one_refuses)
    with pytest.raises(PrivacyViolation, match="does not allow that"):
        Spender(study, refusing[0], 0, bytes(32), at_once=False)
    in_process.run(study, parties)
    assert not untouched(parties)


def test_one_round_outside_of_programs_asks_too():
    study = study_of(STUDIES["statistics"]())
    parties = parties_of(study, published=False)
    with pytest.raises(PrivacyViolation, match="does not allow that"):
        one_round.run(study, parties)
    assert untouched(parties)
    one_round.run(study, parties_of(study))


def test_simulated_ledgers_just_pay():
    study = study_of(STUDIES["descent"]())
    parties = parties_of(study, seed=3, published=False)
    assert "AS PRINTED" in in_process.run(study, parties).certificate.text()


def test_algorithm_3_is_for_simulations_whatever_a_policy_says():
    study = study_of(methods.clipped_updates(epsilon=1.0, rounds=2, published=True), (10,) * 3)
    parties = parties_of(study, unit=Unit.PARTY)
    with pytest.raises(PrivacyViolation, match="simulations only"):
        in_process.run(study, parties)
    with pytest.raises(PrivacyViolation, match="simulations only"):
        Spender(study, parties[0], 0, bytes(32), at_once=False)
    assert untouched(parties)
    result = in_process.run(study, parties_of(study, seed=1, unit=Unit.PARTY))
    assert "Sharma 2019, Algorithm 3; the printed epsilon is 1" in result.certificate.printed
    for trust in (Trust.SECURE_SUM, Trust.TRUSTED_SERVER):
        with pytest.raises(InvalidInput, match="published = true cannot run with trust"):
            study_of(study.method, (10,) * 3, trust)
    for settings in ({"subset": 2}, {"sampling_rate": 0.5}, {"unit": Unit.RECORD}):
        with pytest.raises(InvalidInput, match="all of which take part"):
            methods.clipped_updates(epsilon=1.0, rounds=2, published=True, **settings)


def test_a_permission_is_no_part_of_a_ledgers_identity(tmp_path):
    """It may be given, and taken back, for a ledger that exists."""
    without, allowed = (
        Policy("ages", Budget(1.0, 1e-6), published=published) for published in (False, True)
    )
    assert without == allowed
    assert without.fingerprint == allowed.fingerprint
    Ledger.create(tmp_path / "ages.ledger", without, ACCOUNTANT).close()
    for policy in (allowed, without):
        ledger = Ledger.open(tmp_path / "ages.ledger", ACCOUNTANT, policy)
        assert ledger.policy.published is policy.published
        ledger.close()
    ledger = Ledger.open(tmp_path / "ages.ledger", ACCOUNTANT)
    assert not ledger.policy.published  # nobody said so
    ledger.close()
