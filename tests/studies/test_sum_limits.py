"""Limits of sums, for every model and algorithm: honest extremes pass, what is beyond does not."""

import math

import numpy as np
import pytest

from unisono.core.kinds import Drawing
from unisono.core.trust import Trust
from unisono.engines.sum_limits import StudyLimits, _most

from .test_build import CASES, built_once, text_of


def noise_of(study, event, parties, dimension, key):
    """What honest parties, or the server, add to a sum, by the exact samplers, in steps."""
    if study.algorithm.inner is not None:  # within reports, which are cut to their range
        return np.zeros(dimension, np.int64)
    step = study.algorithm.grid(study.facts, study.trust)
    honest = study.facts.honest if study.trust is Trust.SECURE_SUM else 1
    drawn = 1 if study.trust is Trust.TRUSTED_SERVER else parties
    one = [bytes([key, number]) * 16 for number in range(drawn)]
    shape = (dimension,)
    return sum(event.noise.steps(Drawing(k, step, shape, dimension, honest)) for k in one)


@pytest.mark.parametrize(("model", "algorithm"), CASES)
def test_honest_extremes_pass_and_what_is_beyond_is_refused(study, model, algorithm):
    """The largest clean sum with its noise passes; by the reach of the noise more, it does not."""
    for stage in built_once(text_of(study, model, algorithm)).stages:
        agreed = stage.study
        if not agreed.algorithm.rounds:
            continue
        _require_sharp(agreed)


def _require_sharp(agreed):
    parties = [0] if agreed.trust is Trust.LOCAL else list(range(agreed.facts.parties))
    terms, dimension = agreed.algorithm.terms, agreed.algorithm.dimension
    event = agreed.algorithm.event_of(agreed.facts, agreed.trust, 0, 0)
    studied = StudyLimits(agreed)
    limits = studied.of(parties, 0, dimension)
    number = _most(sum(terms.number[p] for p in parties), event, studied._chance / 2)
    assert number <= sum(terms.number[p] for p in parties)
    for key in range(3):
        noise = noise_of(agreed, event, len(parties), dimension, key)
        for end, sign in ((terms.high, 1), (terms.low, -1)):
            ends = np.broadcast_to(number * np.asarray(end, float), (dimension,))
            for place in {0, dimension // 2, dimension - 1}:
                clean = np.zeros(dimension)
                longest = number * min(terms.l1, terms.l2)
                clean[place] = sign * min(abs(ends[place]), longest)
                honest = np.trunc(clean).astype(np.int64) + noise
                assert studied.of(parties, 0, dimension).fault(honest) == ""
                limit = np.broadcast_to((limits.low, limits.high)[sign > 0], (dimension,))[place]
                assert abs(limit) >= abs(ends[place])
                beyond = np.zeros(dimension, np.int64)
                beyond[place] = math.floor(2 * limit - ends[place]) + sign
                assert f"number {place + 1} of {dimension}" in limits.fault(beyond)
    for norm in ("l1", "l2"):
        limit = getattr(limits, norm)
        if math.isfinite(limit) and norm == event.noise.norm:
            # Spread over all numbers, so that no single one is too large.
            share = limit / (dimension if norm == "l1" else math.sqrt(dimension))
            within = np.full(dimension, math.floor(share), np.int64)
            beyond = np.full(dimension, math.ceil(1.01 * share) + 1, np.int64)
            assert "norm" not in limits.fault(within)
            assert limits.fault(beyond)
