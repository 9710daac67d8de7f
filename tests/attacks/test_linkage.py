"""Linkage: a join by hand, what coarsening can and cannot do, and what epsilon leaves."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unisono.attacks.identify import largest_share
from unisono.attacks.laboratory import linking
from unisono.attacks.linkage import (
    anonymity,
    generalise,
    group_sizes,
    guess_from_counts,
    guess_from_rows,
    largest_guess,
    link,
    link_by_likelihood,
    suppress,
    uniqueness,
)
from unisono.core.words import budget_guess
from unisono.errors import InvalidInput

COLUMNS = ["zip", "year", "sex"]
FALSE_ALARM = 1e-6  # of each statistical test below


def table(*rows, columns=("zip", "year", "sex", "own")):
    return dict(zip(columns, (np.array(column) for column in zip(*rows, strict=True)), strict=True))


# `own` is the diagnosis in the release, and the person in the register.
RELEASE = table(
    (2138, 1945, "m", 0), (2138, 1960, "f", 1), (2138, 1960, "f", 1), (2139, 1971, "f", 2)
)
REGISTER = table(
    (2139, 1971, "f", 10), (2138, 1945, "m", 11), (2138, 1960, "f", 12), (2139, 1971, "f", 13)
)  # fmt: skip
PATIENTS = np.array([11, 12, 14, 13])


def test_a_join_by_hand():
    """The man of 1945 is alone in both tables; of the others somebody shares the values."""
    found = link(RELEASE, REGISTER, COLUMNS)
    assert found.pairs.tolist() == [[0, 1]]
    assert found.matched == found.reidentified(PATIENTS, REGISTER["own"]) == 1 / 4
    assert anonymity(RELEASE, COLUMNS) == 1
    assert group_sizes(RELEASE, COLUMNS).tolist() == [1, 2, 2, 1]
    assert uniqueness(RELEASE, COLUMNS) == 1 / 2
    kept, mask = suppress(RELEASE, COLUMNS, 2)
    assert mask.tolist() == [False, True, True, False]
    assert anonymity(kept, COLUMNS) == 2
    assert len(link(kept, REGISTER, COLUMNS).pairs) == 0


def test_a_group_of_one_mind_gives_its_value_away_although_nobody_is_named():
    prior = np.array([0.8, 0.1, 0.1])
    guesses = guess_from_rows(RELEASE, REGISTER, COLUMNS, "own", prior)
    assert guesses.tolist() == [2, 0, 1, 2]
    stranger = table((9999, 1900, "m", 0))
    assert guess_from_rows(RELEASE, stranger, COLUMNS, "own", prior).tolist() == [0]


values = st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=1, max_size=30)


@given(values, st.data())
def test_coarsening_never_makes_more_right_matches(rows, data):
    """Nor more matches at all, where everybody in the release is in the register."""
    people = np.arange(len(rows))
    register = table(*((*row, number) for number, row in enumerate(rows)))
    patients = np.array(
        data.draw(st.lists(st.sampled_from(people.tolist()), min_size=1, unique=True))
    )
    release = {name: column[patients] for name, column in register.items()}
    missing = data.draw(st.sets(st.sampled_from(people.tolist())))
    kept = np.setdiff1d(people, sorted(missing))
    halves = {"zip": lambda codes: codes // 2, "year": lambda years: years // 3}

    def both(register):
        fine = link(release, register, COLUMNS)
        coarse = link(generalise(release, halves), generalise(register, halves), COLUMNS)
        return fine, coarse

    fine, coarse = both(register)
    assert set(map(tuple, coarse.pairs.tolist())) <= set(map(tuple, fine.pairs.tolist()))
    assert fine.matched == fine.reidentified(patients, people)
    assert anonymity(generalise(release, halves), COLUMNS) >= anonymity(release, COLUMNS)
    partial = {name: column[kept] for name, column in register.items()}
    fine, coarse = both(partial)
    assert coarse.reidentified(patients, kept) <= fine.reidentified(patients, kept)


def test_coarsening_can_make_wrong_matches():
    release, register = {"zip": np.array([10])}, {"zip": np.array([11])}
    assert link(release, register, ["zip"]).matched == 0
    tens = {"zip": lambda codes: codes // 10}
    found = link(generalise(release, tens), generalise(register, tens), ["zip"])
    assert found.matched == 1
    assert found.reidentified(np.array([0]), np.array([1])) == 0


def test_likelihood_by_hand_and_without_mistakes():
    """Both live in one place. Of the year 6, which half of the register has, the posterior of the
    second is (0.9 + 0.05) / (0.9 + 0.05 + 0.05) = 0.95; the year 7 speaks for nobody."""
    register = table((1, 5), (1, 6), columns=("zip", "year"))
    release = table((1, 6), (1, 7), columns=("zip", "year"))
    found = link_by_likelihood(release, register, {"zip": 0.1, "year": 0.1})
    assert found.pairs.tolist() == [[0, 1]]
    assert link_by_likelihood(release, register, {"zip": 0.1, "year": 0.1}, 0.96).matched == 0
    assert link_by_likelihood(release, register, {"zip": 0.1, "year": 0.1}, 0.94).matched == 1 / 2
    exact = link_by_likelihood(RELEASE, REGISTER, dict.fromkeys(COLUMNS, 0.0), certain=0.99)
    # Two equal rows of the release both lead to the one person who has their values.
    assert exact.pairs.tolist() == [[0, 1], [1, 2], [2, 2]]


def test_likelihood_finds_those_who_moved():
    found = {row.name: row for row in linking._moved(linking.town(4_000, 300, 3), 3)}
    assert found["likelihood"].reidentified > found["moved"].reidentified + 0.03
    assert found["likelihood"].outsider > found["moved"].outsider


# ------------------------------------------------------------------ the private table


@pytest.fixture(scope="module")
def place():
    return linking.town(14_000, 1_000, seed=5)


def one_of_each_cell(place):
    """Patients of different cells: other noise, so that their guesses are independent."""
    return np.unique(linking.cells(place)[0][place.patients], return_index=True)[1]


def right_guesses(place, noisy, epsilon):
    chosen = one_of_each_cell(place)
    truth = place.people[linking.SENSITIVE][place.patients][chosen]
    return int(np.sum(linking.guesses_of_insider(place, noisy, epsilon)[chosen] == truth)), len(
        truth
    )


@pytest.mark.parametrize("epsilon", linking.EPSILONS)
def test_nobody_guesses_more_than_epsilon_allows(place, epsilon):
    """Seed 7; each guess is right with at most the bound, independently: a binomial tail."""
    noisy, paid = linking.private_table(place, epsilon, seed=7)
    assert paid <= epsilon
    right, count = right_guesses(place, noisy, paid)
    bound = largest_guess(paid, linking.PREVALENCE.max())
    assert stats.binom.sf(right - 1, count, bound) > FALSE_ALARM


def test_the_test_above_notices_too_little_noise(place):
    """A table of epsilon 10 that is said to be of epsilon 1."""
    noisy, paid = linking.private_table(place, 10.0, seed=7)
    right, count = right_guesses(place, noisy, paid)
    bound = largest_guess(1.0, linking.PREVALENCE.max())
    assert stats.binom.sf(right - 1, count, bound) < FALSE_ALARM


def test_the_insider_reads_an_exact_table_and_guesses_blindly_from_noise_alone(place):
    cell, count = linking.cells(place)
    truth = place.people[linking.SENSITIVE][place.patients]
    exact = np.zeros((count, len(linking.PREVALENCE)))
    np.add.at(exact, (cell[place.patients], truth), 1)
    assert np.array_equal(linking.guesses_of_insider(place, exact, 50.0), truth)
    blind = linking.guesses_of_insider(place, exact, 1e-6)
    assert set(blind.tolist()) == {int(linking.PREVALENCE.argmax())}


def test_a_crowd_of_unknown_others_is_averaged_over():
    """With no others expected both attackers are one; with many, one count more says little."""
    noisy, prior = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 2.0]]), np.array([0.7, 0.3])
    nobody = np.zeros_like(noisy)
    known = guess_from_counts(noisy, nobody, prior, 0.5, known=True)
    assert known.tolist() == [1, 0, 1]
    assert guess_from_counts(noisy, nobody, prior, 0.5, known=False).tolist() == known.tolist()
    crowd = np.full_like(noisy, 50.0)
    assert guess_from_counts(crowd + noisy, crowd, prior, 0.5, known=False).tolist() == [0, 0, 0]


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 10.0])
def test_the_bound_is_the_one_said_elsewhere(epsilon):
    assert largest_guess(epsilon, 0.5) == pytest.approx(budget_guess(epsilon, 0.0))
    assert largest_guess(epsilon, 1 / 6) == pytest.approx(largest_share(epsilon, 0.0, 6))
    assert largest_guess(epsilon, 0.3) <= math.exp(epsilon) * 0.3 + 1e-15
    assert largest_guess(900.0, 0.3) == 1


def test_about_as_many_are_unique_as_sweeney_found():
    """87 %; the standard deviation over towns is below 1 %."""
    people = linking.town(28_000, 10, seed=1).people
    assert abs(uniqueness(people, linking.SHARED) - 0.87) < 0.03


def test_what_cannot_be_joined_is_refused():
    with pytest.raises(InvalidInput, match="name columns that both have"):
        link(RELEASE, REGISTER, ["zip", "name"])
    with pytest.raises(InvalidInput, match="different lengths"):
        link({"zip": np.zeros(2), "sex": np.zeros(3)}, REGISTER, ["zip", "sex"])
    with pytest.raises(InvalidInput, match="at least 0 and below 1"):
        link_by_likelihood(RELEASE, REGISTER, {"zip": 1.0})
    with pytest.raises(InvalidInput, match="1 or more"):
        suppress(RELEASE, COLUMNS, 0)
    with pytest.raises(InvalidInput, match="above 0"):
        largest_guess(1.0, 0.0)
    empty = {name: column[:0] for name, column in RELEASE.items()}
    assert link(empty, REGISTER, COLUMNS).matched == anonymity(empty, COLUMNS) == 0
    assert link_by_likelihood(empty, REGISTER, {"zip": 0.1}).matched == 0
