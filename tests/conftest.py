"""Shared fixtures: policies, ledgers and small parties."""

import gc
import hashlib
import itertools
import os
import time
from pathlib import Path

# Most of the time goes into compiling small programs: spare it, where nobody else decides.
# Programs mean the same without the detour by MLIR and without LLVM's optimisation, and compile in
# a quarter of the time; `make test-slow` also runs golden values, engines and the neighbour fuzzer
# with what users get.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1 "
    "--xla_llvm_disable_expensive_passes=true --xla_backend_optimization_level=0",
)

if os.environ.get("UNISONO_TEST_CLOCK") == "jump":
    from .jumping_clock import install

    install()

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
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    jax.config.update("jax_compilation_cache_dir", str(_COMPILED))
# To read the smallest takes a fifth of compiling it.
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

# Where a red build must mean a change for the worse, examples and noise are the same every time.
SAME_EVERY_TIME = bool(os.environ.get("CI"))
settings.register_profile("continuous-integration", derandomize=True)
if SAME_EVERY_TIME:
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


def pytest_collection_finish():
    """Thousands of modules and tests live until the end, and every traced program makes objects
    by the thousand: the collector of garbage took a tenth of the time to look at them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def pytest_unconfigure():
    gc.unfreeze()


class NamedEntropy:
    """What stands for the entropy of the system: bytes that follow from the name of a test, or of a
    fixture that several share. Processes that are forked draw from the system."""

    def __init__(self):
        self.system, self.process = os.urandom, os.getpid()
        self.restart("collection")

    def restart(self, name):
        self.state = name, itertools.count()

    def __call__(self, size):
        if os.getpid() != self.process:
            return self.system(size)
        name, numbers = self.state
        return hashlib.shake_256(f"{next(numbers)} {name}".encode()).digest(size)


ENTROPY = NamedEntropy()
if SAME_EVERY_TIME:
    os.urandom = ENTROPY


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    ENTROPY.restart(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """What a module's first test sets up is the same whichever test comes first."""
    if fixturedef.scope == "function":
        return (yield)
    own = f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param', '')}]"
    before = ENTROPY.state
    ENTROPY.restart(own)
    try:
        return (yield)
    finally:
        ENTROPY.state = before


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
    from unisono.estimators import classifiers, glm

    def public_classes(estimator, y, classes, binary, given, checked=classifiers.public_classes):
        return checked(estimator, y, np.unique(y) if classes is None else classes, binary, given)

    for module in (classifiers, glm):
        monkeypatch.setattr(module, "public_classes", public_classes)


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
def set_ahead(monkeypatch, policy):
    """Set the clock ahead by decades, for all that is made from now on."""
    real = Ledger.in_memory(policy, ACCOUNTANT)

    def ahead():
        return 4e9 + time.monotonic()  # 2096, also beside a clock that jumps

    def jump():
        monkeypatch.setattr(time, "time", ahead)
        monkeypatch.setattr("unisono.deployment.record.now", lambda: time.ctime(ahead()))
        # Where nothing differs, it is not because nobody has read the clock.
        assert Ledger.in_memory(policy, ACCOUNTANT)._header.time[:4] > real._header.time[:4]

    return jump


@pytest.fixture
def generator():
    return np.random.default_rng(20240229)
