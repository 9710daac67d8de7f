"""Compiled rounds: programs that equal studies share, and records that are copied once."""

import jax
import numpy as np
import pytest

from unisono.core.algorithm import Facts
from unisono.core.study import Study
from unisono.engines import rounds
from unisono.engines.layout import stacked
from unisono.engines.rounds import program, stack

from .. import methods


def study(epsilon=1.0, sizes=(5, 3), **settings):
    facts = Facts(sizes, 4, 1)
    return Study(methods.gradient_perturbation(epsilon, 1e-5, rounds=3, **settings), facts, "local")


def test_equal_studies_share_a_program():
    assert program(study(), 0.5, False) is program(study(), 0.5, False)


@pytest.mark.parametrize(
    "other", [study(2.0), study(sizes=(5, 4)), study(clipping_norm=0.1)], ids=["eps", "n", "clip"]
)
def test_other_studies_have_programs_of_their_own(other):
    assert program(study(), 0.5, False) is not program(other, 0.5, False)
    assert program(study(), 0.5, False) is not program(study(), 0.25, False)


def test_an_algorithm_that_was_changed_has_a_program_of_its_own():
    """Begun with what an earlier stage released, or priced by hand: equal in all but functions."""
    changed = object.__new__(Study)
    one = study()
    changed.__dict__.update(one.__dict__, algorithm=one.algorithm._replace(ask=lambda state: state))
    assert changed == one
    assert program(changed, 0.5, False) is not program(one, 0.5, False)
    assert not rounds._can_be_shared(Study(one.algorithm, one.facts, one.trust))


def test_records_are_stacked_where_the_device_can_use_them():
    parts = [np.full((2, 3), 1.5, np.float32), np.full((5, 3), 2.5, np.float32)]
    found = stacked(parts, 5)
    assert found.shape == (2, 5, 3)
    assert np.array_equal(found[0], np.vstack([parts[0], np.zeros((3, 3), np.float32)]))
    assert np.array_equal(found[1], parts[1])
    assert jax.device_put(found).unsafe_buffer_pointer() == found.ctypes.data


def test_large_parties_of_unequal_sizes_sum_to_what_each_computes():
    """One after the other out of a stack, against each by itself; equal to the last integer, up to
    a step for each block."""
    sizes, generator = (1500, 700, 1030), np.random.default_rng(2)
    large = Study(methods.gradient_perturbation(1.0, 1e-5, rounds=1), Facts(sizes, 4, 1), "local")
    columns = [
        (
            generator.normal(size=(size, 4)).astype(np.float32) / 4,
            np.sign(generator.normal(size=size)).astype(np.float32),
        )
        for size in sizes
    ]
    data = stack(large, columns)
    algorithm = large.algorithm
    public = algorithm.ask(algorithm.init(large.facts)[0])
    _, together, valid = jax.jit(rounds._clean_values(large))(public, None, tuple(data), data.real)
    assert np.all(valid)
    for party, (rows, labels) in enumerate(columns):
        local = jax.jit(lambda *given: algorithm.local(large.facts, *given)[1].value)
        size = np.int32(sizes[party])
        alone = local(public, None, (rows, labels), np.ones(len(rows), bool), size)
        assert np.abs(together[party] - alone).max() <= -(-sizes[party] // 64)
        assert np.abs(alone).max() > 1000
