"""How wide intervals of hazard ratios will be, before there are data; as `widths` does for others.

The algorithm's own functions (`algorithms.hazard_scoring`) work on sums of supposed records, with
noise of the deviation that the study will add. Supposed are independent columns as in `widths`,
effects that are small, a constant hazard, and records that are all followed up to the horizon, at
which a given share has had the event, a half unless told. What counts is that share: censoring
costs what it takes away of it.
"""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.algorithms import hazard_scales, hazard_scoring
from unisono.algorithms.noisy_scores import numpy_loop
from unisono.algorithms.survey import Opened, pack
from unisono.core.study import Study
from unisono.errors import InvalidInput
from unisono.models.inference import determined
from unisono.planning.widths import (
    DRAWS,
    SPREAD,
    Widths,
    by_column,
    sampling_errors,
    supposed_columns,
    widths_of,
)
from unisono.problems.survival import BEYOND, ProportionalHazards
from unisono.releases.release import price

FAMILY = "proportional hazards"
_SUPPOSED = 4096


def interval_widths(study: Study, share: float | None = None) -> Widths:
    """The prediction for a study that has intervals of coefficients; `share` of the records have
    the outcome, or the event."""
    problem = study.method.problem
    if not isinstance(problem, ProportionalHazards):
        return widths_of(study, share)
    if share is not None and not 0 < share < 1:
        raise InvalidInput(f"share = {share!r}: the share of records with an event is in (0, 1)")
    share = 0.5 if share is None else share
    rows = jnp.asarray(_supposed(problem, share), jnp.float32)
    errors, known = [], []
    for own in _fits(study, problem, rows):
        unit = np.where(problem.numeric, SPREAD / own.scale, 1 / own.scale)
        matrix = np.concatenate([np.zeros((len(unit), problem.pieces)), np.diag(unit)], axis=1)
        errors.append(np.sqrt(np.diagonal(matrix @ own.covariance @ matrix.T)))
        known.append(determined(own.covariance, own.prior, matrix) & (not own.few_events))
    records = sum(study.facts.records)
    columns = by_column(
        problem.columns,
        np.median(np.stack(errors), axis=0),
        sampling_errors(problem.columns, records * share),  # Cox's, of so many events
        np.mean(known, axis=0),
    )
    return Widths(FAMILY, records, own.rounds, columns)


def _supposed(problem: ProportionalHazards, share: float) -> np.ndarray:
    """Rows (n, features + 2), always the same."""
    random = np.random.default_rng(20)
    columns = supposed_columns(problem.columns, _SUPPOSED, random)
    place = random.permutation((np.arange(_SUPPOSED) + 0.5) / _SUPPOSED)
    time = np.log1p(-place) / math.log1p(-share)  # a constant hazard, with this share by time 1
    event = (time <= 1).astype(float)
    return np.column_stack([columns, np.where(time > 1, BEYOND, time), event])


def _fits(
    study: Study, problem: ProportionalHazards, rows: Any
) -> Iterator[hazard_scoring.FittedHazards]:
    """What the algorithm would say of sums of these rows, as many as the study has, with noise."""
    method, facts, algorithm = study.method, study.facts, study.algorithm
    config = hazard_scoring.resolve(method.config, problem, facts, method.privacy, study.trust)
    released = hazard_scoring.release(config, problem, facts)
    priced = price(released, method.privacy, facts, study.trust)
    terms = hazard_scoring.terms_of(config, problem, priced)
    [block] = hazard_scoring.table(problem, facts).blocks
    assert algorithm.begin is not None
    first = jax.tree.map(np.array, algorithm.begin(facts, _scales(study, problem, rows))[0])
    records = sum(facts.records)
    for seed in range(DRAWS):
        noise = np.random.default_rng(seed)
        # The rounds of `hazard_scoring.build`, in NumPy: nothing is compiled for a plan.
        state = jax.tree.map(np.copy, first)
        for number, deviation in enumerate(terms.noise):
            for kept, point in zip(state.points, state.point, strict=True):
                kept[number] = point
            values = block.values(algorithm.ask(state), rows)
            sums = np.asarray(block.rows.of(values), float).mean(axis=0) * records
            state.sums[number] = sums + deviation * noise.standard_normal(len(sums))
            state.records[number] = records
            point = hazard_scoring.next_point(np, numpy_loop, terms, state, number)
            state = state._replace(point=point, round=number + 1)
        yield hazard_scoring.fitted(terms, state)


def _scales(study: Study, problem: ProportionalHazards, rows: Any) -> Any:
    """What the first stage would have released of these rows, without its noise, which is small."""
    records = sum(study.facts.records)
    [block] = hazard_scales.table(problem, study.facts).blocks
    assert block.cells is not None
    cells = np.asarray(block.cells((), rows)).ravel()
    counts = np.bincount(cells, minlength=sum(block.level_sizes)) * (records / len(rows))
    total = jnp.asarray(counts, jnp.float32)
    return pack(Opened(total, jnp.int32(study.facts.parties), jnp.float32(records)))


__all__ = ["FAMILY", "interval_widths"]
