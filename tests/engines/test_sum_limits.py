"""A party, or a sampler, that breaks its bound: every trust, in one process and between parties."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import unisono
from unisono.core import release as core_release
from unisono.core.algorithm import Facts
from unisono.core.compiled import numbers
from unisono.core.study import Study
from unisono.core.trust import SERVER, Trust
from unisono.engines import chunks, driver, in_process
from unisono.engines.distributed.work import Worker
from unisono.engines.sum_limits import StudyLimits, SumLimits
from unisono.errors import SumRefused

from .test_conformance import ALGORITHMS, SIZES, loopback, members, study, toy

TRUSTS = list(Trust)
HUGE = 2**28


def poisoned(monkeypatch, change, party=1, times=100):
    """One party changes what it sends, after it was bounded, noised and paid for."""
    honest, left = Worker.one_release, iter(range(times))

    def one_release(self, *given):
        value, after, part = honest(self, *given)
        if self.index == party and next(left, None) is not None:
            value = replace(value, value=change(value.value.copy()))
        return value, after, part

    monkeypatch.setattr(Worker, "one_release", one_release)


def constant(size):
    def change(value):
        value.reshape(-1)[0] += size
        return value

    return change


POISONS = {
    "constant": constant(HUGE),
    "near the modulus": constant(2**31 - 1),
    "below the modulus": constant(-(2**31)),
    "scaled": lambda value: value * 2000,
    "scaled and flipped": lambda value: value * -2000,
}


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("poison", POISONS)
def test_what_no_honest_party_sends_is_refused(monkeypatch, trust, poison):
    """Where values are seen one by one, the party is left out and named; else the study ends."""
    agreed = study(ALGORITHMS["gradient-perturbation"], trust)
    parties = members(toy(), trust)
    poisoned(monkeypatch, POISONS[poison])
    if trust is not Trust.LOCAL:
        with pytest.raises(SumRefused, match="does not show which one"):
            loopback.run(agreed, parties, at_once=False)
        assert [party.ledger.grants for party in parties] == [1] * 4  # charged, and no more
        return
    result = loopback.run(agreed, parties, at_once=False)
    counted = [m.value for m in result.transcript.seen_by(SERVER) if m.name == "sum"]
    assert len(counted) == agreed.algorithm.rounds
    assert np.abs(counted).max() < HUGE / 2


def test_values_are_named_and_the_study_ends_where_too_few_are_left(monkeypatch):
    agreed = study(ALGORITHMS["gradient-perturbation"], Trust.LOCAL, survivors=4)
    poisoned(monkeypatch, POISONS["constant"])
    with pytest.raises(SumRefused, match="value of party-1 is refused: number 1 of 3"):
        loopback.run(agreed, members(toy(), Trust.LOCAL), at_once=False)


def test_a_trusted_server_adds_fresh_noise_to_a_sum_that_is_tried_again(monkeypatch):
    """The refused sum was released too: with the same noise, the two would show a clean sum."""
    facts = Facts(SIZES, 3, 3, 1, retries=1)
    agreed = Study(ALGORITHMS["gradient-perturbation"], facts, Trust.TRUSTED_SERVER)
    poisoned(monkeypatch, POISONS["constant"], times=1)
    seen = loopback.run(agreed, members(toy(), agreed.trust), at_once=False).transcript
    first = [m for m in seen.seen_by(SERVER) if m.round == 0]
    clean = [
        sum(own.astype(int) for own in m.value.values()) for m in first if m.name == "messages"
    ]
    noisy = [m.value for m in first if m.name in ("refused sum", "sum")]
    assert [m.name for m in first if "sum" in m.name] == ["refused sum", "sum"]
    noise = [one - other for one, other in zip(noisy, clean, strict=True)]
    assert np.all(noise[0] != noise[1])


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_flipped_sign_is_within_every_limit(monkeypatch, trust):
    """What is not claimed: a party may send anything that its records could have made."""
    poisoned(monkeypatch, np.negative)
    agreed = study(ALGORITHMS["gradient-perturbation"], trust)
    assert loopback.run(agreed, members(toy(), trust)).value is not None


@pytest.mark.parametrize("size", [1, 4, 7])
def test_sums_of_another_size_are_refused(size):
    """They would be broadcast over all numbers of the result, or end the server."""
    limits = SumLimits(np.zeros(5), np.arange(5.0) + 1, np.inf, np.inf, 1.0)
    assert limits.fault(np.zeros(size, int)) == f"it holds {size} numbers where 5 belong"
    assert not limits.fault(np.zeros(5, int))


def test_bytes_that_are_no_integers_are_refused():
    limits = SumLimits(-10.0, 10.0, np.inf, np.inf, 1.0)
    for odd in ([np.nan, 0.0], [np.inf, 0.0], [1.0, 2.0]):
        assert "float64" in limits.fault(np.array(odd))
    as_integers = np.array([np.nan, -np.nan], np.float32).view(np.int32)
    assert "number" in limits.fault(as_integers)
    assert limits.fault(np.array([10, -10])) == ""


# ------------------------------------------------------------- in one process


def faulty_noise(monkeypatch):
    """A sampler that is far too wide, wherever it is called."""
    honest = core_release.noise_steps

    def wide(*given, **named):
        return honest(*given, **named) + 2 * HUGE

    monkeypatch.setattr(core_release, "noise_steps", wide)
    monkeypatch.setattr(chunks, "noise_steps", wide)


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("kept", [True, False])
def test_in_one_process_a_faulty_sum_ends_the_run(monkeypatch, tmp_path, trust, kept):
    """Whether sums are kept in the transcript or are too large for it; nothing of it is saved."""
    agreed = study(ALGORITHMS["gradient-perturbation"], trust)
    if not kept:
        monkeypatch.setattr(chunks, "_RECORDED_NUMBERS", 0)
    in_process.run(agreed, members(toy(), trust))  # the control
    saved = []
    monkeypatch.setattr(driver.Checkpoint, "save", lambda _, number, __: saved.append(number))
    faulty_noise(monkeypatch)
    parties = members(toy(), trust)
    with pytest.raises(SumRefused, match="Round 1: "):
        in_process.run(agreed, parties, checkpoint=tmp_path / "run")
    assert not any(saved)
    assert all(party.ledger.grants for party in parties)


def test_one_round_is_held_to_its_limits(monkeypatch, tmp_path):
    ledger = unisono.open_ledger(tmp_path / "ages.ledger", dataset="ages", epsilon=9.0)
    ages = [34, 51, 29, 62] * 50
    unisono.mean(ages, bounds=(18, 100), epsilon=1.0, ledger=ledger)
    faulty_noise(monkeypatch)
    with pytest.raises(SumRefused, match="Round 1: the value of"):
        unisono.mean(ages, bounds=(18, 100), epsilon=1.0, ledger=ledger)


# ------------------------------------------------------------- clean sums

EXTREMES = {
    "equal": lambda rows, labels: (0 * rows + [1.0, 0.0, 0.0], 0 * labels + 1),
    "huge": lambda rows, labels: (1e9 * rows, labels),
    "corner": lambda rows, labels: (np.sign(rows), 0 * labels - 1),
    "least": lambda rows, labels: (0 * rows - 1.0, 0 * labels - 1),
    "zero": lambda rows, labels: (0 * rows, 0 * labels + 1),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_clean_sums_of_extreme_records_are_within_their_terms(name):
    """What limits rest on, without any noise: n records add no more than n terms."""
    trust = sorted(ALGORITHMS[name].trusts)[0]
    agreed = study(ALGORITHMS[name], trust).begun(None)
    algorithm, facts = agreed.algorithm, agreed.facts
    if algorithm.inner is not None or algorithm.inside is not None:
        pytest.skip("reports are cut to their range; noise inside is no clean sum")
    server, state = algorithm.init(facts)
    local = numbers(partial(algorithm.local, facts))
    terms, size = algorithm.terms, facts.records[0]
    for change in EXTREMES.values():
        rows = size if algorithm.batch is None else algorithm.batch(facts)
        data = [np.resize(c, (rows, *c.shape[1:])) for c in change(*toy()[0])]
        if name == "score-influence":  # records of seven columns
            data[0] = np.tile(data[0], 3)[:, :7]
        mask = np.arange(rows) < size
        columns = tuple(np.asarray(column, np.float32) for column in data)
        value = np.asarray(local(algorithm.ask(server), state, columns, mask, np.int32(size))[1])
        bound = SumLimits(*(size_of(terms, 0, end) for end in ("low", "high", "l1", "l2")), 1.0)
        assert bound.fault(value) == ""


def size_of(terms, party, end):
    return terms.number[party] * getattr(terms, end)


def test_limits_are_near_what_records_can_do():
    """A party of 40 records of norm 1, and the noise: no looser than that by a tenth."""
    agreed = study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM)
    limits = StudyLimits(agreed).of(range(4), 0, 3)
    std = agreed.algorithm.event(agreed.facts, agreed.trust).noise.std
    clean = sum(agreed.facts.records)
    assert clean < limits.high * limits.step < 1.1 * clean + 10 * std
    assert limits.l2 * limits.step < 1.1 * clean + 14 * std
