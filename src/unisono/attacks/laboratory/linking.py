"""Linkage in the laboratory: one town, one hospital's release, one public register, all defences.

The town is synthetic. Its ZIP codes have about as many inhabitants as those of the United States
had when Sweeney (2000) counted, so that about as many people are unique by ZIP code, birth date and
sex (87 %). The hospital releases its patients without names; the register has most of the town with
names. Diagnoses are drawn *independently* of everything in the register: what an attacker knows
beyond their public shares was learnt about one person, not about people of that age.

Two attackers guess each patient's diagnosis, and both know the public shares and every detail of
the defence:

    outsider   has the register, and nothing else
    insider    has the records of all other patients too: the one that differential privacy is about

Generalising and suppressing do not hinder an insider, who subtracts the others' rows. The
private release is a contingency table (ZIP code x birth year x sex x diagnosis) by
`unisono.statistics.histogram`, paid from a ledger. Everything is simulated, with fixed seeds.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks.laboratory.results import plain
from unisono.attacks.linkage import (
    Table,
    anonymity,
    generalise,
    guess_from_counts,
    guess_from_rows,
    largest_guess,
    link,
    link_by_likelihood,
    suppress,
    uniqueness,
)
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation
from unisono.statistics import histogram

SHARED = ("zip", "birth", "sex")
SENSITIVE = "diagnosis"
DIAGNOSES = ("hypertension", "diabetes", "asthma", "depression", "cancer", "HIV")
PREVALENCE = np.array([0.30, 0.22, 0.18, 0.15, 0.10, 0.05])
EPSILONS = (0.1, 1.0, 10.0)
LEAST = 5  # rows in a group that is not suppressed
MOVED = 0.2  # share of patients whose ZIP code is no longer that of the register
_ZIP_SIZE, _FIRST_YEAR, _YEARS = 7_000, 1905, 90
_COVERED = 0.9  # of the town is in the register
_MISTAKES = {"zip": MOVED, "birth": 0.001, "sex": 0.001}


@dataclass(frozen=True)
class Town:
    """Everybody; who is in the register; who is a patient."""

    people: Table
    registered: np.ndarray
    patients: np.ndarray

    def register(self) -> Table:
        """Public: quasi-identifiers, and `person` in the place of a name."""
        return {name: self.people[name][self.registered] for name in ("person", *SHARED)}

    def release(self) -> Table:
        """What the hospital holds, without names."""
        return {name: self.people[name][self.patients] for name in (*SHARED, SENSITIVE)}


def town(inhabitants: int, patients: int, seed: int) -> Town:
    """Draw a town: ZIP codes of unequal size, ages that thin out after 60, even sexes."""
    generator = np.random.default_rng(seed)
    codes = max(2, round(inhabitants / _ZIP_SIZE))
    sizes = generator.dirichlet(np.full(codes, 8.0))
    ages = np.arange(_YEARS)
    pyramid = np.where(ages < 60, 1.0, np.exp(-(((ages - 60) / 18.0) ** 2)))
    years = (
        _FIRST_YEAR + _YEARS - 1 - generator.choice(ages, inhabitants, p=pyramid / pyramid.sum())
    )
    days = generator.integers(0, 365, inhabitants)
    people = {
        "person": np.arange(inhabitants),
        "zip": 2130 + 7 * generator.choice(codes, inhabitants, p=sizes),
        "birth": (years - 1970).astype("datetime64[Y]").astype("datetime64[D]") + days,
        "sex": generator.integers(0, 2, inhabitants),
        SENSITIVE: generator.choice(len(PREVALENCE), inhabitants, p=PREVALENCE),
    }
    registered = np.flatnonzero(generator.random(inhabitants) < _COVERED)
    return Town(people, registered, generator.choice(inhabitants, patients, replace=False))


# ------------------------------------------------------------------ defences


@dataclass(frozen=True)
class Linked:
    """One row: what a defence leaves. Shares of all patients; None where the question has no sense.

    `matched` were given a name, `reidentified` the right one; `outsider` and `insider` are how
    often a diagnosis was guessed, `bound` is the most that epsilon allows an insider.
    """

    name: str
    defence: str
    rows: int
    anonymity: int | None
    matched: float | None
    reidentified: float | None
    outsider: float
    insider: float
    epsilon: float | None
    bound: float | None


@dataclass(frozen=True)
class LinkageFound:
    """All rows, the blind guess, and how many of the town are unique."""

    rows: tuple[Linked, ...]
    baseline: float
    unique: float
    inhabitants: int
    patients: int
    registered: float
    seed: int
    quick: bool


def _year(births: np.ndarray) -> np.ndarray:
    return births.astype("datetime64[Y]")


def _decade(births: np.ndarray) -> np.ndarray:
    return births.astype("datetime64[Y]").astype(np.int64) // 10


def _prefix(codes: np.ndarray) -> np.ndarray:
    """Three of five digits."""
    return codes // 100


Coarser = dict[str, Callable[[np.ndarray], np.ndarray]]
_COARSER: tuple[tuple[str, str, Coarser], ...] = (
    ("none", "no names, nothing else", {}),
    ("year", "birth year only", {"birth": _year}),
    ("decade", "birth decade, 3-digit ZIP", {"birth": _decade, "zip": _prefix}),
)


def run_linkage(seed: int = 0, quick: bool = False) -> LinkageFound:
    """All defences on one town; a smaller one to be quick."""
    inhabitants, patients = (14_000, 1_000) if quick else (56_000, 5_000)
    place = town(inhabitants, patients, seed)
    rows = [_coarse(place, *case) for case in _COARSER]
    rows.append(_suppressed(place))
    rows += _moved(place, seed)
    rows += [_private(place, epsilon, seed) for epsilon in EPSILONS]
    return LinkageFound(
        tuple(rows),
        float(PREVALENCE.max()),
        uniqueness(place.people, SHARED),
        inhabitants,
        patients,
        _COVERED,
        seed,
        quick,
    )


def linkage_document(found: LinkageFound) -> dict[str, Any]:
    """Plain JSON, as it lies in attacks.json under "linkage"."""
    return {"format": "unisono-linkage-1", **plain(asdict(found))}


def _coarse(place: Town, name: str, words: str, coarser: Coarser) -> Linked:
    release, register = (generalise(one, coarser) for one in (place.release(), place.register()))
    return _published(place, name, words, release, register, np.ones(len(place.patients), bool))


def _suppressed(place: Town) -> Linked:
    coarser: Coarser = {"birth": _year}
    release, kept = suppress(generalise(place.release(), coarser), SHARED, LEAST)
    register = generalise(place.register(), coarser)
    words = f"birth year, groups under {LEAST} left out"
    return _published(place, "suppress", words, release, register, kept)


def _published(
    place: Town, name: str, words: str, release: Table, register: Table, kept: np.ndarray
) -> Linked:
    """Rows as they are, without names. An insider finds the one row that is not another's."""
    found = link(release, register, SHARED)
    people = place.patients[kept]
    targets = _targets(place, register)
    truth = place.people[SENSITIVE][place.patients]
    guesses = np.full(len(truth), PREVALENCE.argmax())
    seen = np.isin(place.patients, register["person"])
    guesses[seen] = guess_from_rows(release, targets, SHARED, SENSITIVE, PREVALENCE)
    blind = truth == PREVALENCE.argmax()
    return Linked(
        name,
        words,
        len(people),
        anonymity(release, SHARED),
        found.matched * len(people) / len(truth),
        found.reidentified(people, register["person"]) * len(people) / len(truth),
        float(np.mean(guesses == truth)),
        float(np.mean(kept | blind)),
        None,
        None,
    )


def _targets(place: Town, register: Table) -> Table:
    """The register's lines of those patients who are in it, in the patients' order."""
    home = np.full(len(place.people["person"]), -1)
    home[register["person"]] = np.arange(len(register["person"]))
    lines = home[place.patients]
    return {name: values[lines[lines >= 0]] for name, values in register.items()}


def _moved(place: Town, seed: int) -> list[Linked]:
    """Some have moved, to anywhere in town: the exact join, and the join by likelihood."""
    generator = np.random.default_rng([seed, 1])
    release, register = dict(place.release()), place.register()
    rows = len(place.patients)
    elsewhere = generator.choice(place.people["zip"], rows)
    release["zip"] = np.where(generator.random(rows) < MOVED, elsewhere, release["zip"])
    words = f"{100 * MOVED:.0f} % have moved since"
    exact = _published(place, "moved", words, release, register, np.ones(rows, bool))
    found = link_by_likelihood(release, register, _MISTAKES)
    truth, targets = place.people[SENSITIVE][place.patients], _targets(place, register)
    guesses = np.full(rows, PREVALENCE.argmax())
    # The other way round: of each target the likeliest row, however likely.
    lines, best = link_by_likelihood(targets, release, _MISTAKES, certain=0.0).pairs.T
    guesses[np.flatnonzero(np.isin(place.patients, register["person"]))[lines]] = release[
        SENSITIVE
    ][best]
    better = replace(
        exact,
        name="likelihood",
        defence="the same, joined by likelihood",
        matched=found.matched,
        reidentified=found.reidentified(place.patients, register["person"]),
        outsider=float(np.mean(guesses == truth)),
    )
    return [exact, better]


# ------------------------------------------------------------------ the private table


def cells(place: Town) -> tuple[np.ndarray, int]:
    """The public cell (ZIP code, birth year, sex) of everybody, and the number of cells."""
    codes = np.unique(place.people["zip"])
    where = np.searchsorted(codes, place.people["zip"])
    year = _year(place.people["birth"]).astype(np.int64) + 1970 - _FIRST_YEAR
    return (where * _YEARS + year) * 2 + place.people["sex"], len(codes) * _YEARS * 2


def private_table(place: Town, epsilon: float, seed: int) -> tuple[np.ndarray, float]:
    """The noisy counts (cells, diagnoses), and the epsilon that they cost: replace-one, delta 0."""
    cell, count = cells(place)
    values = cell[place.patients] * len(PREVALENCE) + place.people[SENSITIVE][place.patients]
    policy = Policy("patients", Budget(epsilon, 0.0), relation=Relation.REPLACE_ONE)
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed)
    answer = histogram(values, range(count * len(PREVALENCE)), epsilon=epsilon, ledger=ledger)
    return np.asarray(answer.value).reshape(count, -1), answer.epsilon


def guesses_of_insider(place: Town, noisy: np.ndarray, epsilon: float) -> np.ndarray:
    """Each patient's diagnosis, by somebody who knows those of all other patients."""
    own, truth = cells(place)[0][place.patients], place.people[SENSITIVE][place.patients]
    others = np.zeros_like(noisy)
    np.add.at(others, (own, truth), 1.0)
    without = others[own]
    without[np.arange(len(own)), truth] -= 1
    # A replaced record moves two counts by one each: noise of scale 2 / epsilon.
    return guess_from_counts(noisy[own], without, PREVALENCE, 2 / epsilon, known=True)


def _private(place: Town, epsilon: float, seed: int) -> Linked:
    noisy, paid = private_table(place, epsilon, seed)
    truth = place.people[SENSITIVE][place.patients]
    cell, count = cells(place)
    own = cell[place.patients]
    # An outsider knows from the register how many others to expect in a cell.
    share = (len(truth) - 1) / len(place.people["person"]) / _COVERED
    living = np.bincount(cell[place.registered], minlength=count)
    expected = (np.maximum(living - 1, 0) * share)[own][:, None] * PREVALENCE
    outsider = guess_from_counts(noisy[own], expected, PREVALENCE, 2 / paid, known=False)
    return Linked(
        f"dp-{epsilon:g}",
        f"noisy table, epsilon {epsilon:g}",
        0,
        None,
        None,
        None,
        float(np.mean(outsider == truth)),
        float(np.mean(guesses_of_insider(place, noisy, paid) == truth)),
        paid,
        largest_guess(paid, float(PREVALENCE.max())),
    )
