"""Linkage: join an "anonymised" table with a register of names on the columns that both have.

A release without names (ZIP code, birth date, sex, diagnosis) and a public register with them
share *quasi-identifiers*. A combination of their values that occurs once in either table names a
patient. Sweeney (2000, "Simple Demographics Often Identify People Uniquely") found 87 % of the
population of the United States likely unique by five-digit ZIP code, sex and date of birth; Golle
(2006) found 63 % with the next census. Narayanan and Shmatikov (2008) did the same to films and
their ratings, where values match only roughly.

    link                 exact join: pairs that are unique on both sides
    link_by_likelihood   the same where values were written down wrongly: naive Bayes
    anonymity            k of k-anonymity (Sweeney 2002): the smallest group of equal rows
    generalise, suppress the classic defences
    guess_from_rows      a person's sensitive value, from the rows that share its quasi-identifiers
    guess_from_counts    the same from a noisy contingency table
    largest_guess        what epsilon leaves of any such guess

A table is a mapping from the name of a column to an array, all of one length. Everything here is a
pure function of tables; nothing reads a party's records.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from unisono.errors import InvalidInput

Table = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Linkage:
    """Pairs (m, 2) of a row of the release and a row of the register, among `rows` released."""

    pairs: np.ndarray
    rows: int

    @property
    def matched(self) -> float:
        """The share of released rows that were given a name, rightly or wrongly."""
        return len(self.pairs) / self.rows if self.rows else 0.0

    def reidentified(self, release_people: np.ndarray, register_people: np.ndarray) -> float:
        """The share of released rows that were given the *right* name.

        People are numbers that tell who is who in either table; the attacker does not have those
        of the release. Who is not in the register can be taken for somebody who is.
        """
        if not len(self.pairs):
            return 0.0
        released, registered = self.pairs.T
        right = np.asarray(release_people)[released] == np.asarray(register_people)[registered]
        return float(right.sum()) / self.rows


def link(release: Table, register: Table, columns: Sequence[str]) -> Linkage:
    """Join on `columns`; a pair counts where its values occur once in either table.

    >>> release = {"zip": np.array([2138, 2138, 2139]), "sex": np.array(["m", "f", "f"])}
    >>> register = {"zip": np.array([2138, 2139, 2139]), "sex": np.array(["m", "f", "f"])}
    >>> link(release, register, ["zip", "sex"]).pairs.tolist()
    [[0, 0]]
    """
    ours, theirs = _groups(release, register, columns)
    size = max(ours.max(initial=-1), theirs.max(initial=-1)) + 1
    alone = (np.bincount(ours, minlength=size) == 1) & (np.bincount(theirs, minlength=size) == 1)
    home = np.zeros(size, np.int64)
    home[theirs] = np.arange(len(theirs))
    rows = np.flatnonzero(alone[ours])
    return Linkage(np.column_stack([rows, home[ours[rows]]]), len(ours))


def link_by_likelihood(
    release: Table, register: Table, mistakes: Mapping[str, float], certain: float = 0.5
) -> Linkage:
    """Join values of which some were written down wrongly, by naive Bayes.

    `mistakes` says how often each column is wrong, e. A wrong value is any value v as often as the
    register has it, f(v), and columns err independently of each other (Fellegi and Sunter 1969):

        P(row | person) = prod over columns of (1 - e) [v = the person's] + e f(v)

    A row is given the name with the largest posterior, from an even prior over the register, if
    that is above `certain`.
    """
    wrong = [name for name, rate in mistakes.items() if not 0 <= rate < 1]
    if wrong or not mistakes:
        raise InvalidInput(
            f"mistakes {dict(mistakes)!r}: give each shared column a share of wrong values, at "
            "least 0 and below 1"
        )
    shared = {name: _groups(release, register, [name]) for name in mistakes}
    ours, theirs = _groups(release, register, list(mistakes))
    rows, people = len(ours), len(theirs)
    if not rows or not people:
        return Linkage(np.zeros((0, 2), np.int64), rows)
    frequency = {
        name: np.bincount(known, minlength=seen.max() + 1) / people
        for name, (seen, known) in shared.items()
    }
    pairs = []
    for start in range(0, rows, _BLOCK):
        block = slice(start, min(start + _BLOCK, rows))
        likelihood = np.ones((block.stop - start, people))
        for name, rate in mistakes.items():
            seen, known = shared[name][0][block], shared[name][1]
            often = frequency[name][seen]
            # A value that nobody in the register has is wrong of everybody alike.
            chance = rate * np.where(often > 0, often, 1.0)
            likelihood *= (1 - rate) * (seen[:, None] == known) + chance[:, None]
        total = likelihood.sum(axis=1)
        best = likelihood.argmax(axis=1)
        top = likelihood[np.arange(len(best)), best]
        found = np.flatnonzero(top > certain * total)
        pairs.append(np.column_stack([found + start, best[found]]))
    return Linkage(np.concatenate(pairs), rows)


def anonymity(table: Table, columns: Sequence[str]) -> int:
    """k: every row shares its values in `columns` with at least k - 1 others; 0 without rows.

    >>> anonymity({"zip": np.array([1, 1, 2])}, ["zip"])
    1
    """
    return int(group_sizes(table, columns).min(initial=_length(table) or 0))


def group_sizes(table: Table, columns: Sequence[str]) -> np.ndarray:
    """For each row, how many rows have the same values in `columns`, itself included."""
    groups, _ = _groups(table, table, columns)
    return np.bincount(groups)[groups] if len(groups) else groups


def uniqueness(table: Table, columns: Sequence[str]) -> float:
    """The share of rows whose values in `columns` nobody else has."""
    sizes = group_sizes(table, columns)
    return float(np.mean(sizes == 1)) if len(sizes) else 0.0


# ------------------------------------------------------------------ defences


def generalise(table: Table, coarser: Mapping[str, Callable[[np.ndarray], np.ndarray]]) -> Table:
    """Replace columns by coarser ones, for example a birth date by its year.

    Of *right* matches this makes no more, since who is unique by coarse values is unique by fine
    ones. The number of all matches can rise where the register lacks people of the release.
    """
    return {
        name: coarser[name](values) if name in coarser else values for name, values in table.items()
    }


def suppress(table: Table, columns: Sequence[str], least: int) -> tuple[Table, np.ndarray]:
    """Leave out groups smaller than `least`: a `least`-anonymous table, and which rows it has."""
    if least < 1:
        raise InvalidInput(f"groups of at least {least}: give a number of rows, 1 or more")
    kept = group_sizes(table, columns) >= least
    return {name: values[kept] for name, values in table.items()}, kept


# ------------------------------------------------------------------ guesses


def guess_from_rows(
    release: Table,
    targets: Table,
    columns: Sequence[str],
    sensitive: str,
    prior: np.ndarray,
) -> np.ndarray:
    """For each target the likeliest code of `sensitive`, by the rows with its quasi-identifiers.

    The target is one of those rows, each with equal chance, so that the commonest value wins. A
    k-anonymous group in which all have one value gives it away (Machanavajjhala and others 2007).
    `prior` (K,) breaks ties, and decides for those of whom there is no row.
    """
    ours, theirs = _groups(release, targets, columns)
    size = max(ours.max(initial=-1), theirs.max(initial=-1)) + 1
    counts = np.zeros((size, len(prior)))
    np.add.at(counts, (ours, np.asarray(release[sensitive])), 1.0)
    return np.argmax(counts + np.asarray(prior) / 2, axis=1)[theirs]


def guess_from_counts(
    noisy: np.ndarray, others: np.ndarray, prior: np.ndarray, scale: float, known: bool
) -> np.ndarray:
    """For each target (n,) the likeliest sensitive value, from the noisy counts (n, K) of its cell.

    The target adds one to the count of its value; how many others are there is `others` (n, K): the
    counts themselves if they are `known`, else their expectations, as of Poisson variables. The
    noise is discrete Laplace, P(z) ~ exp(-|z| / scale). With P(y | m) that of y after m,

        score(v) = log prior(v) + log P(y_v | others_v + 1) - log P(y_v | others_v)

    which is the posterior but for a constant, so that no attacker with this knowledge does better.
    """
    prior = np.asarray(prior, float)
    if known:
        left = np.asarray(noisy, float) - others
        return np.argmax(np.log(prior) + (np.abs(left) - np.abs(left - 1)) / scale, axis=1)
    most = int(np.max(others, initial=0.0) + 8 * math.sqrt(np.max(others, initial=0.0)) + 8)
    people = np.arange(most + 2)
    chance = stats.poisson.logpmf(people[:-1], np.asarray(others, float)[..., None])
    law = -np.abs(np.asarray(noisy, float)[..., None] - people) / scale
    without = np.logaddexp.reduce(chance + law[..., :-1], axis=-1)
    with_target = np.logaddexp.reduce(chance + law[..., 1:], axis=-1)
    return np.argmax(np.log(prior) + with_target - without, axis=1)


def largest_guess(epsilon: float, prior: float) -> float:
    """The most often that any attacker names a person's value, if replacing a record is ε-private.

    `prior` is the chance p of the best blind guess, of somebody who knows all other records. Odds
    grow by at most e^ε, whatever was seen, and so does the success averaged over what is seen:

        P(right) <= p e^ε / (p e^ε + 1 - p)

    With an even prior over two values this is `budget_guess(epsilon, 0)`, over K values
    `identify.largest_share(epsilon, 0, K)`.

    >>> largest_guess(0.0, 0.3), round(largest_guess(1.0, 0.5), 4)
    (0.3, 0.7311)
    """
    if not (0 < prior <= 1 and epsilon >= 0):
        raise InvalidInput(
            f"epsilon {epsilon} from a prior guess of {prior}: give an epsilon of at least 0, and "
            "a chance above 0 and at most 1"
        )
    return prior / (prior + (1 - prior) * math.exp(-epsilon))


# ------------------------------------------------------------------ pieces

_BLOCK = 256  # released rows that are compared with the whole register at a time


def _length(table: Table) -> int:
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"columns of different lengths: {lengths}; give one value for each row")
    return next(iter(lengths.values()), 0)


def _groups(one: Table, other: Table, columns: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Codes of rows of two tables: equal exactly where all `columns` are."""
    missing = [name for name in columns if name not in one or name not in other]
    if missing or not columns:
        raise InvalidInput(
            f"columns {list(columns)} do not join tables with {sorted(one)} and {sorted(other)}: "
            "name columns that both have"
        )
    length = _length(one)
    codes = np.zeros(length + _length(other), np.int64)
    for name in columns:
        both = np.concatenate([np.asarray(one[name]), np.asarray(other[name])])
        _, own = np.unique(both, return_inverse=True)
        # Codes stay below the number of rows, so that products of two never overflow.
        _, codes = np.unique(codes * (own.max(initial=0) + 1) + own, return_inverse=True)
    return codes[:length], codes[length:]


__all__ = [
    "Linkage",
    "Table",
    "anonymity",
    "generalise",
    "group_sizes",
    "guess_from_counts",
    "guess_from_rows",
    "largest_guess",
    "link",
    "link_by_likelihood",
    "suppress",
    "uniqueness",
]
