"""A law says of itself what follows from it, and nothing else is a law."""

import ast
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import unisono
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.accounting.law_costs import COSTS
from unisono.core.events import (
    Event,
    NoNoise,
    bounded_sum,
    event_from_json,
    event_to_json,
    random_stopping,
)
from unisono.core.kinds import LAWS, Drawing
from unisono.core.release import noise_steps
from unisono.core.trust import Relation
from unisono.errors import InvalidInput, UnknownEvent
from unisono.mechanisms import MECHANISMS, mechanism_of, tail
from unisono.mechanisms.mechanism import Scale

SOURCES = Path(unisono.__file__).parent
SCALE = Scale(3.0, dimension=4, grid=2.0**-6, choices=5)
BOUND = bounded_sum(l1=1.0, l2=1.0, linf=1.0)


def one_of(law):
    """Some noise of this law, as its mechanism makes it."""
    if law is NoNoise:
        return NoNoise()
    if law.run:
        return law(3.0, rounds=2)
    if law.nested:
        return law((Event(MECHANISMS["gaussian"].unit(SCALE), BOUND) * 2,), 3)
    return MECHANISMS[law.kind].unit(SCALE)


def event_of(law):
    """An event with it; one that chooses has the unit and relations of what it chooses from."""
    noise = one_of(law)
    return random_stopping(noise.options, noise.most) if law.nested else Event(noise, BOUND)


every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)


def test_the_set_of_laws_is_closed_and_complete():
    """One class, one cost and one mechanism for each; what discloses needs no mechanism, and what
    chooses among releases adds no noise of its own."""
    kinds = [law.kind for law in LAWS]
    assert len(set(kinds)) == len(kinds)
    assert set(COSTS) == set(LAWS)
    for law in LAWS:
        if law.nested or law.discloses:
            with pytest.raises(UnknownEvent, match="no mechanism"):
                mechanism_of(one_of(law))
        else:
            assert issubclass(law, mechanism_of(one_of(law)).law)
    assert [m.law.kind for m in MECHANISMS.values()] == list(MECHANISMS)


@every_law
def test_every_law_is_written_to_ledgers_by_its_kind(law):
    event = event_of(law)
    assert event_from_json(event_to_json(event)) == event
    assert event_to_json(event)["noise"]["kind"] == law.kind


@every_law
def test_a_type_derived_from_a_law_is_no_law(law):
    """It could claim little noise and a small cost: every place refuses it by itself."""

    @dataclass(frozen=True)
    class Forged(law):
        pass

    forged = Forged(**one_of(law).__dict__)
    with pytest.raises(UnknownEvent, match="never free"):
        Event(forged, BOUND)
    smuggled = event_of(law)
    object.__setattr__(smuggled, "noise", forged)
    with pytest.raises(UnknownEvent, match="no law of noise"):
        noise_steps(bytes(32), smuggled, SCALE.grid, (4,), 1)
    with pytest.raises(UnknownEvent, match="no mechanism"):
        tail(forged, 1, 0.05)
    if not law.nested and law.discloses:
        return  # it may call itself what it likes: it costs everything
    for delta in (0.0, 1e-5):
        with pytest.raises(UnknownEvent, match="no accountant knows Forged"):
            PrivacyCurve(smuggled * 1, Relation.ZERO_OUT).epsilon(delta)
        with pytest.raises(UnknownEvent, match="no accountant knows Forged"):
            ACCOUNTANT.fits(smuggled * 1, Relation.ZERO_OUT, 100.0, delta)


@every_law
@pytest.mark.parametrize("dimension", [1, 4])
def test_the_deviation_is_that_of_what_is_drawn(law, dimension):
    """5,000 draws: their standard deviation is within 15 %, which is nine times its standard error
    of at most 1.6 % (of Laplace noise, whose kurtosis is 6): a false-alarm rate below 1e-9."""
    if not law.additive:
        with pytest.raises(InvalidInput, match="has no deviation"):
            one_of(law).deviation(dimension)
        with pytest.raises(UnknownEvent, match="cannot be added"):
            noise_steps(bytes(32), event_of(law), SCALE.grid, (4,), 1)
        with pytest.raises(UnknownEvent, match="has no sampler"):
            one_of(law).steps(Drawing(bytes(32), 1.0, (4,), 4, 1))
        return
    noise = one_of(law)
    if hasattr(noise, "dimension"):
        noise = replace(noise, dimension=dimension)
    shape = (5000, dimension)
    drawn = noise_steps(b"d" * 32, Event(noise, BOUND), SCALE.grid, shape, 1, (dimension,))
    assert np.std(drawn[:, 0]) * SCALE.grid == pytest.approx(noise.deviation(dimension), rel=0.15)


@every_law
def test_shares_are_drawn_of_laws_that_have_them_only(law):
    event = event_of(law)
    if law.shared:
        authorised = {"gap": 0.5, "shares": 3}  # what shares of this law must state, if anything
        stated = {f: v for f, v in authorised.items() if f in event.noise.__dict__}
        event = replace(event, noise=replace(event.noise, **stated))
        assert noise_steps(bytes(32), event, SCALE.grid, (4,), 3).shape == (4,)
    else:
        with pytest.raises(UnknownEvent, match="3 shares"):
            noise_steps(bytes(32), event, SCALE.grid, (4,), 3)


OWN = {"core/kinds.py", "accounting/law_costs.py"}
# Theory that exists for the Gaussian alone: samplers in compiled programs, noise in computations.
GAUSSIAN_ONLY = {"core/in_graph.py", "core/release.py"}


def matched(tree):
    """Laws by which a file decides: patterns, and tests of types that are no mere assertions."""
    names = {law.__name__ for law in LAWS}
    asserted = {id(n) for a in ast.walk(tree) if isinstance(a, ast.Assert) for n in ast.walk(a)}
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass):
            tested = [node.cls]
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") in ("isinstance", "issubclass")
            and id(node) not in asserted
        ):
            tested = list(ast.walk(node.args[1]))
        else:
            continue
        yield from {t.id for t in tested if isinstance(t, ast.Name)} & names


def test_nobody_asks_which_law_it_is():
    """But the law itself, its mechanism and its cost: a new law is written in these places only."""
    found = {}
    for file in SOURCES.rglob("*.py"):
        where, text = file.relative_to(SOURCES).as_posix(), file.read_text()
        if not re.search(r"unisono\.core\.(events|kinds) import", text):
            continue  # it has no law at hand
        laws = set(matched(ast.parse(text)))
        own = where.startswith("mechanisms/") or where in OWN
        if laws and not own:
            found[where] = laws
    assert found == {where: {"Gaussian"} for where in GAUSSIAN_ONLY}
    example = "match noise:\n  case Laplace(s): pass\nisinstance(noise, (Skellam, int))"
    assert set(matched(ast.parse(example))) == {"Laplace", "Skellam"}
