"""Shared fixtures: policies, ledgers and small parties."""

import os
from pathlib import Path

# Most of the time goes into compiling small programs: spare it, where nobody else decides.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_llvm_disable_expensive_passes=true --xla_backend_optimization_level=1"
)

import jax
import numpy as np
import pytest
from hypothesis import settings

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.engines import rounds

jax.config.update("jax_platforms", "cpu")
# Many tests compile the same programs: workers, and later runs, share them.
_COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
jax.config.update("jax_compilation_cache_dir", str(_COMPILED))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

# Where a red build must mean a change for the worse, examples are the same every time.
settings.register_profile("continuous-integration", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("continuous-integration")


SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text().splitlines())


def pytest_addoption(parser):
    parser.addoption(
        "--write-golden", action="store_true", help="write tests/golden/golden.json anew"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def programs_of_their_own(request):
    """Equal studies share their compiled program. One that a test has changed is compiled anew,
    and forgotten, lest another test runs it."""
    changes = "monkeypatch" in request.fixturenames
    if changes:
        rounds._shared_program.cache_clear()
    yield
    if changes:
        rounds._shared_program.cache_clear()


@pytest.fixture
def labels_are_public(monkeypatch):
    """scikit-learn's checks make up records whose labels no parameter names."""
    from unisono.estimators import classifiers

    def public_classes(estimator, y, classes, binary, given, checked=classifiers.public_classes):
        return checked(estimator, y, np.unique(y) if classes is None else classes, binary, given)

    monkeypatch.setattr(classifiers, "public_classes", public_classes)


@pytest.fixture
def policy():
    return Policy("ages", Budget(1.0, 1e-6))


@pytest.fixture
def event():
    """A Gaussian release of epsilon about 0.397 at delta 1e-6 under replace-one."""
    return Event(Gaussian(20.0), bounded_sum(l1=1.0, l2=1.0, linf=1.0))


@pytest.fixture
def cost(event):
    return everyone(event * 1)


@pytest.fixture
def ledger(policy):
    return Ledger.in_memory(policy, ACCOUNTANT, seed=1)


@pytest.fixture
def file_ledger(tmp_path, policy):
    return Ledger.create(tmp_path / "ages.ledger", policy, ACCOUNTANT)


@pytest.fixture
def generator():
    return np.random.default_rng(20240229)
