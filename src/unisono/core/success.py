"""A guarantee in words: the success probability of the best attack, and on which question.

Every medium (answers, evaluations, notebooks, certificates, plans, ledgers, reports, exports)
states it by `AttackSuccess`, and by nothing else. The best attack knows all other units, and both
answers to its question are as likely.

Let P be the distribution of what is seen of a unit's own value x, P' of another value x', and Q
where the unit is left out (add-or-remove) or blank (zero-out). A guarantee under replace-one is
about P and P': which of two values it is. Under the others it is about P and Q alone: whether the
unit took part. Which of two values it has takes two steps, over Q. An attack that answers x on A
and x' elsewhere succeeds with probability (P(A) + P'(not A)) / 2. Both steps are (ε, δ)-private, so
P(A) <= 1 - e^-ε (1 - δ - Q(A)), and the same holds for P' and the complement of A. Hence

    success <= 1 - e^-ε (1/2 - δ),

which Laplace noise attains. The total variation distance adds up over the two steps as well:
success <= 2 s - 1/2, where s is the success for P and Q. For Gaussian noise of little effect that
is the smaller one. A guarantee of the same releases under replace-one bounds it directly.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from unisono.core.trust import Relation
from unisono.core.words import budget_guess, hundredths, percent

PHRASE = "success probability of the best attack (50 % is chance)"
_QUESTIONS: Mapping[tuple[str, str], str] = {
    (Relation.REPLACE_ONE, "record"): "which of two values one record has",
    (Relation.REPLACE_ONE, "person"): "which of two sets of records one person has",
    (Relation.REPLACE_ONE, "party"): "which of two data sets one party has",
    (Relation.ZERO_OUT, "record"): "whether one record was used or left blank",
    (Relation.ZERO_OUT, "person"): "whether the records of one person were used or left blank",
    (Relation.ZERO_OUT, "party"): "whether the data of one party were used or left blank",
    (Relation.ADD_OR_REMOVE, "record"): "whether one record took part",
    (Relation.ADD_OR_REMOVE, "person"): "whether one person took part",
    (Relation.ADD_OR_REMOVE, "party"): "whether one party took part",
}
_ALMOST = 0.99  # an attack that succeeds so often is hardly hindered


class GuaranteeLine(Protocol):
    """Epsilon at a delta, against one viewer, under one neighboring relation; `guess` is the
    success probability of the best attack that tells two neighbors apart."""

    @property
    def viewer(self) -> str: ...
    @property
    def relation(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def delta(self) -> float: ...
    @property
    def guess(self) -> float: ...


@dataclass(frozen=True)
class AttackSuccess:
    """Upper bounds of the success probability of the best attack on one unit.

    `neighbors` answers the question of the neighboring relation; `values`, which of two values the
    unit has. Under replace-one they are the same.
    """

    relation: str
    unit: str
    neighbors: float
    values: float

    @property
    def questions(self) -> Mapping[str, float]:
        """Each question that is answered, and the bound."""
        found = {question(self.relation, self.unit): self.neighbors}
        if self.relation in (Relation.ZERO_OUT, Relation.ADD_OR_REMOVE):
            found[question(Relation.REPLACE_ONE, self.unit)] = self.values
        return found

    @property
    def shown(self) -> Mapping[str, str]:
        """The same as percentages, rounded up."""
        return {asked: percent(bound) for asked, bound in self.questions.items()}

    @property
    def words(self) -> str:
        """The sentence, without its full stop.

        >>> print(AttackSuccess("add-or-remove", "record", 0.697, 0.816).words)
        the success probability of the best attack (50 % is chance) is at most 69.7 % for \
inferring whether one record took part, and at most 81.6 % for inferring which of two values one \
record has
        """
        said = [f"at most {bound} for inferring {asked}" for asked, bound in self.shown.items()]
        return f"the {PHRASE} is {', and '.join(said)}"

    @property
    def sentence(self) -> str:
        """The same as a sentence, with a warning where it is almost no protection."""
        weak = " That is almost no protection in the worst case." if self.weak else ""
        return f"{self.words[:1].upper()}{self.words[1:]}.{weak}"

    @property
    def weak(self) -> bool:
        return self.neighbors >= _ALMOST

    @property
    def of_hundred(self) -> str:
        """How many of a hundred attacks on the neighboring relation's question succeed."""
        return f"Of 100 attacks, at most {hundredths(self.neighbors):g} succeed on average"


def question(relation: str, unit: str) -> str:
    """What an attack on one unit is about, under a neighboring relation.

    >>> question("zero-out", "record")
    'whether one record was used or left blank'
    """
    return _QUESTIONS.get(
        (relation, unit), f"which of two neighboring data sets was used ({relation})"
    )


def neighbors_label(bound: float) -> str:
    """A short label where a picture names the question.

    >>> print(neighbors_label(0.697))
    best attack succeeds: at most 69.7 %
    (50 % is chance)
    """
    return f"best attack succeeds: at most {percent(bound)}\n(50 % is chance)"


def attack_success(
    lines: Iterable[GuaranteeLine], relation: str, unit: str
) -> AttackSuccess | None:
    """The most that an attack succeeds, of all viewers against whom these lines guarantee anything
    under the relation; None where there is no such viewer."""
    stated, replaced = list(lines), dict[str, float]()
    for line in stated:  # several of one viewer, where parties pay differently
        if line.relation == Relation.REPLACE_ONE:
            replaced[line.viewer] = max(line.guess, replaced.get(line.viewer, 0.0))
    own = [line for line in stated if line.relation == relation and math.isfinite(line.epsilon)]
    if not own:
        return None
    if relation == Relation.REPLACE_ONE:
        values = max(line.guess for line in own)
    else:
        values = max(min(_two_steps(line), replaced.get(line.viewer, 1.0)) for line in own)
    return AttackSuccess(str(relation), str(unit), max(line.guess for line in own), values)


def budget_success(epsilon: float, delta: float, relation: str, unit: str) -> AttackSuccess:
    """The same where nothing but a budget is known.

    >>> budget_success(1.0, 0.0, "zero-out", "record").shown
    {'whether one record was used or left blank': '73.2 %', 'which of two values one record has': \
'81.7 %'}
    """
    line = _BudgetLine(relation, epsilon, delta, budget_guess(epsilon, delta))
    found = attack_success([line], relation, unit)
    return found or AttackSuccess(str(relation), str(unit), 1.0, 1.0)


@dataclass(frozen=True)
class _BudgetLine:
    relation: str
    epsilon: float
    delta: float
    guess: float
    viewer: str = ""


def _two_steps(line: GuaranteeLine) -> float:
    """The bound on which of two values it is, over what is seen without the unit."""
    by_epsilon = 1 - math.exp(-line.epsilon) * (0.5 - line.delta)
    return min(1.0, by_epsilon, 2 * line.guess - 0.5)


__all__ = [
    "PHRASE",
    "AttackSuccess",
    "GuaranteeLine",
    "attack_success",
    "budget_success",
    "neighbors_label",
    "question",
]
