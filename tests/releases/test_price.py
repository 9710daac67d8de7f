"""The price of a release: derived once, whatever asks for it how often."""

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.costs import added
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.mechanisms import gaussian
from unisono.releases import algorithm
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Release, price
from unisono.releases.together import together

from .. import methods


@pytest.fixture
def calibrations(monkeypatch):
    """How often noise was calibrated since."""
    calls, whole = [], gaussian.calibrate

    def counted(*given, **options):
        calls.append(options)
        return whole(*given, **options)

    monkeypatch.setattr(gaussian, "calibrate", counted)
    algorithm._bound_hashable.cache_clear()
    return calls


def test_a_constant_event_is_calibrated_once(calibrations):
    """Through a plan, its costs, a run of forty rounds and its certificate."""
    facts = Facts((20, 30, 25), 3, 3, 1)
    method = methods.gradient_perturbation(1.25, 1e-5, rounds=40)
    study = Study(method, facts, Trust.SECURE_SUM)
    assert study.costs
    assert Study(method, facts, Trust.SECURE_SUM).hash == study.hash
    generator = np.random.default_rng(0)
    parties = []
    for number, size in enumerate(facts.records):
        rows = generator.uniform(-0.5, 0.5, (size, 3))
        ledger = Ledger.in_memory(Policy(f"{number}", Budget(2.0, 1e-5)), ACCOUNTANT, seed=number)
        parties.append(Party(f"{number}", Private((rows, np.sign(rows[:, 0]))), ledger))
    in_process.run(study, parties)
    assert len(calibrations) == 1


def test_a_price_belongs_to_one_study():
    """Whoever takes a priced algorithm to other facts is refused, not given the old noise."""
    facts = Facts((20, 30), 3, 2, 0)
    bound = Study(methods.gradient_perturbation(1.0, 1e-5), facts, Trust.LOCAL).algorithm
    with pytest.raises(InvalidInput, match="was priced for other facts or another trust"):
        bound.event(Facts((20, 30, 40), 3, 2, 0), Trust.LOCAL)


@pytest.mark.parametrize("trust", list(Trust))
def test_the_noise_of_the_opened_sum_is_stated(trust):
    """Every party's own noise, all shares over those that are certain, or the server's alone."""
    facts = Facts((20, 30, 25, 40), 3, 3, 1)
    priced = price(Release(ClippedSum(1.0, 3), rounds=5), Privacy(1.0, 1e-5), facts, trust)
    times = {Trust.LOCAL: 4, Trust.SECURE_SUM: 4 / 2, Trust.TRUSTED_SERVER: 1}[trust]
    assert priced.noise_std == pytest.approx(priced.event.noise.std * times**0.5)


def test_two_stages_are_priced_where_a_larger_part_of_the_promise_means_more_rounds():
    """With one round all parties share one cost, with two each has its own, and an equal one."""
    promise, facts = Privacy(0.3, 1e-5), Facts((2058, 343, 823), 5, 3, 1)
    method = methods.hazard_scoring(3, promise.epsilon, promise.delta)
    assert method.earlier is not None

    def study(kind, part):
        return Study(kind.method(method.problem, part), facts, Trust.SECURE_SUM)

    kind, share = method.earlier
    first, rest = together(
        promise,
        share,
        lambda part: study(kind, part),
        lambda part: study(method.kind, part),
        lambda one, other: (one.costs, other.costs),
    )
    assert rest.algorithm.rounds == 2
    assert study(method.kind, promise.split(share)[1]).algorithm.rounds == 1
    for cost in (added(pair) for pair in zip(first.costs, rest.costs, strict=True)):
        history = cost[FINAL_MODEL]
        assert ACCOUNTANT.fits(history, promise.relation, promise.epsilon, promise.delta)
        assert not ACCOUNTANT.fits(history, promise.relation, 0.9 * promise.epsilon, promise.delta)
