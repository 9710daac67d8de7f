"""Table 1: figures that are right, intervals that hold, a split that follows its rule, and layouts.

Runs are simulations: their noise is predictable.
"""

import csv
import io
import json
import math
from itertools import combinations

import jax.numpy as jnp
import numpy as np
import pytest

from unisono.algorithms.noise_law import sum_law
from unisono.algorithms.survey import STATISTICS, Opened, pack
from unisono.algorithms.table_layout import as_csv, as_html, as_markdown, as_text, layout
from unisono.algorithms.table_one import NamedVariable, NumberVariable, TableOne, weighted_tail
from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Relation, Trust
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import GaussianSum
from unisono.mechanisms.laplace import LaplaceSum
from unisono.models.registry import model_named
from unisono.problems.columns import Groups

COLUMNS = {
    "age": {"kind": "number", "bounds": (18.0, 100.0), "integer": True},
    "creatinine": {"kind": "number", "bounds": (0.0, 4.0), "missing": "drop record"},
    "sex": {"kind": "category", "values": ("f", "m")},
    "stage": {"kind": "category", "values": ("I", "II", "III"), "missing": "drop record"},
    "arm": {"kind": "category", "values": ("placebo", "drug", "surgery")},
}
KIND = model_named("table-one")


def people(records, seed=3, arms=2):
    """Made-up records: the arms differ in age and stage, a few values are missing."""
    generator = np.random.default_rng(seed)
    arm = generator.integers(0, arms, records).astype(float)
    stage = np.where(
        arm == 0,
        generator.choice(3, records, p=[0.5, 0.3, 0.2]),
        generator.choice(3, records, p=[0.3, 0.3, 0.4]),
    )
    return {
        "age": np.clip(np.round(generator.normal(55 + 6 * arm, 12)), 18, 100),
        "creatinine": np.where(
            generator.random(records) < 0.17,
            np.nan,
            np.clip(generator.lognormal(0.0, 0.4, records), 0, 4),
        ),
        "sex": generator.integers(0, 2, records).astype(float),
        "stage": np.where(generator.random(records) < 0.05, np.nan, stage),
        "arm": arm,
    }


class Simulated:
    """A table over made-up records: the sums before the noise once, noise as often as wanted."""

    def __init__(
        self, values, epsilon, delta, by="arm", arms=2, relation=Relation.REPLACE_ONE, **settings
    ):
        columns = {name: own for name, own in COLUMNS.items() if name in values}
        columns["arm"] = COLUMNS["arm"] | {"values": COLUMNS["arm"]["values"][:arms]}
        hidden = relation is Relation.ADD_OR_REMOVE
        self.schema = Schema.model_validate(
            {"columns": columns, "sizes": "hidden" if hidden else "exact"}
        )
        config = KIND.configured(by=by, **settings)
        assert not list(KIND.faults(config, self.schema))
        privacy = Privacy(epsilon, delta, relation)
        self.posed = KIND.pose(config, self.schema, STATISTICS, privacy)
        self.values, self.by = values, by
        rows = self.posed.encode(values)[0].astype(np.float32)
        facts = Facts((len(rows),), rows.shape[1], 1, exact_sizes=not hidden)
        self.study = Study(STATISTICS.method(self.posed.problem, privacy), facts, Trust.LOCAL)
        table, step = self.posed.problem.table(facts), self.study.algorithm.grid(facts, Trust.LOCAL)
        mask = jnp.ones(len(rows), bool)
        made, _ = table.integers(facts, privacy, step, ((), jnp.asarray(rows)), mask)
        self.clean = np.asarray(made.value, np.float64) * step
        event = self.study.algorithm.event(facts, Trust.LOCAL)
        self.law = sum_law(event, facts, Trust.LOCAL, 1, step)

    def table(self, seed):
        generator = np.random.default_rng(seed)
        draw = generator.normal if self.law.gaussian else generator.laplace
        total = self.clean + draw(0.0, self.law.scale, self.clean.shape)
        result = Result(pack(Opened(total, 1, len(self.values["age"]))), None, None)
        return self.posed.present(self.study, result)["table"]

    def truth(self):
        """Every figure of the table as it is without noise, in the table's own shape."""
        groups = [np.ones(len(self.values["age"]), bool)]
        if self.by:
            labels = self.schema.columns["arm"].levels
            groups += [self.values["arm"] == code for code in range(len(labels))]
        found = {("records", c): float(g.sum()) for c, g in enumerate(groups)}
        for name, column in self.schema.columns.items():
            if name == self.by:
                continue
            own = [self.values[name][g] for g in groups]
            known = [one[~np.isnan(one)] for one in own]
            if name == "arm":
                continue
            if column.incomplete:
                found |= {(name, "missing", c): float(np.isnan(o).sum()) for c, o in enumerate(own)}
            if column.numeric:
                found |= {(name, "mean", c): k.mean() for c, k in enumerate(known)}
                found |= {(name, "deviation", c): k.std() for c, k in enumerate(known)}
                for q, level in enumerate((0.25, 0.5, 0.75)):
                    for c, k in enumerate(known):
                        found[name, "quantiles", q, c] = np.quantile(
                            k, level, method="inverted_cdf"
                        )
                found[name, "difference"] = max(
                    (
                        abs(a.mean() - b.mean()) / math.sqrt((a.var() + b.var()) / 2)
                        for a, b in combinations(known[1:], 2)
                    ),
                    default=None,
                )
            else:
                levels = len(column.levels)
                for level in range(levels):
                    for c, k in enumerate(known):
                        found[name, "levels", level, "count", c] = float((k == level).sum())
                        found[name, "levels", level, "share", c] = (k == level).mean()
                found[name, "difference"] = max(
                    (yang_dalton(a, b, levels) for a, b in combinations(known[1:], 2)),
                    default=None,
                )
        return {place: value for place, value in found.items() if value is not None}


def yang_dalton(a, b, levels):
    """The standardised difference of two groups in a column of several levels."""
    p, q = (np.array([(x == level).mean() for level in range(1, levels)]) for x in (a, b))
    pooled = sum(np.diag(x) - np.outer(x, x) for x in (p, q)) / 2
    return math.sqrt((p - q) @ np.linalg.solve(pooled, p - q))


def at(table, place):
    """A figure by its place."""
    name, *rest = place
    found = table[name] if name == "records" else next(
        row for row in table["rows"] if row["variable"] == name
    )
    for step in rest:
        found = found[step]
    return found


def misses(simulated, seeds):
    """How often each figure's interval misses what the records have."""
    truth = simulated.truth()
    missed = dict.fromkeys(truth, 0)
    for seed in seeds:
        table = simulated.table(seed)
        for place, value in truth.items():
            one = at(table, place)
            known = one["determined"] or place[-1] != "difference"
            if known and not one["low"] - 1e-6 <= value <= one["high"] + 1e-6:
                missed[place] += 1
    return missed


CASES = {
    "two arms": {"records": 3000, "epsilon": 2.0, "delta": 1e-6},
    "three arms, pure": {"records": 6000, "epsilon": 6.0, "delta": 0.0, "arms": 3},
    "overall": {"records": 3000, "epsilon": 1.0, "delta": 1e-6, "by": None},
    "hidden sizes": {
        "records": 3000,
        "epsilon": 2.0,
        "delta": 1e-6,
        "relation": Relation.ADD_OR_REMOVE,
    },
    "much noise": {"records": 400, "epsilon": 0.5, "delta": 1e-6},
}


def simulated(records, arms=2, **settings):
    return Simulated(people(records, arms=arms), arms=arms, **settings)


@pytest.mark.parametrize("name", CASES)
def test_intervals_of_the_table_hold(name):
    """95 % intervals over 40 tables miss more than 10 times with probability below 5e-6 each, and
    over all figures of a case (at most 110, each with 2 expected misses) below 6e-4; of all together
    no more than 5 % and three standard errors, were all figures of one table to miss at once."""
    missed = misses(simulated(**CASES[name]), range(40))
    assert max(missed.values()) <= 10, {k: v for k, v in missed.items() if v > 10}
    assert sum(missed.values()) / (40 * len(missed)) <= 0.06
