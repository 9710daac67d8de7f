"""Which of these records is the victim's? Reconstruction by likelihood, for any study.

The attacker has a list of K candidates, one of which is the victim's record, and knows all other
records. Of each candidate it works out, by the study's own rounds, how likely the transcript is
that was seen (`attacks.likelihood`), and names the likeliest. With a longer list this is as near to
reading the record as the list is dense; a study that is (ε, δ)-private with respect to replacing a
record bounds it:

    P(right) <= (e^ε + (K - 1) δ) / (e^ε + K - 1)          blind guessing: 1/K

The bound follows by adding up, over all K truths, that naming c is at most e^ε times as likely
under c as under any other truth, but for δ. What is scored as well is how far the named record lies
from the true one, beside a guess of the mean of the candidates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unisono.attacks.likelihood import AttackLikelihood
from unisono.attacks.worlds import Columns, with_victim
from unisono.core.events import Event
from unisono.engines.rounds import Stack
from unisono.errors import InvalidInput

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Identified:
    """How often the likeliest of `candidates` was the true one, and mean errors over the length of
    the true record: of the named one, and of the candidates' mean."""

    right: float
    candidates: int
    runs: int
    error: float
    baseline: float

    @property
    def blind(self) -> float:
        return 1 / self.candidates


def identified(
    attack: AttackLikelihood,
    base: Sequence[Columns],
    candidates: Columns,
    runs: int,
    seed: int,
    progress: Progress | None = None,
    fault: Callable[[Event], Event] | None = None,
) -> Identified:
    """Put one candidate after the other in the victim's place, run, and name the likeliest.

    `candidates` has K rows in every column; there are about `runs` runs in all. `fault` changes
    the noise that is really drawn: none, for a server that sees messages before it adds its own.
    """
    count = len(candidates[0])
    if count < 2 or runs < 1:
        raise InvalidInput(f"{count} candidates in {runs} runs: give at least two, and one run")
    start = attack.replay.world(base)
    records = list(zip(*candidates, strict=True))
    worlds = [Stack(with_victim(start.arrays, attack.victim, one), start.real) for one in records]
    rows = _rows(candidates)
    named: list[tuple[int, int]] = []
    for truth in range(count):
        wanted = runs // count + (truth < runs % count)
        if wanted:
            picks = _named(attack, worlds, truth, wanted, seed, fault)
            named += [(truth, int(pick)) for pick in picks]
        if progress is not None:
            progress("naming the victim's record", truth + 1, count)
    true, picked = np.array(named).T
    lengths = np.linalg.norm(rows[true], axis=1)
    return Identified(
        float(np.mean(true == picked)),
        count,
        len(named),
        float(np.mean(np.linalg.norm(rows[picked] - rows[true], axis=1) / lengths)),
        float(np.mean(np.linalg.norm(rows.mean(axis=0) - rows[true], axis=1) / lengths)),
    )


def largest_share(epsilon: float, delta: float, candidates: int) -> float:
    """The most often that any attacker is right if replacing a record is (ε, δ)-private.

    >>> round(largest_share(0.0, 0.0, 10), 3), largest_share(math.inf, 0.0, 10)
    (0.1, 1.0)
    """
    if math.isinf(epsilon) or epsilon > 500:
        return 1.0
    odds = math.exp(epsilon)
    return min(1.0, (odds + (candidates - 1) * delta) / (odds + candidates - 1))


def _named(
    attack: AttackLikelihood,
    worlds: Sequence[Stack],
    truth: int,
    runs: int,
    seed: int,
    fault: Callable[[Event], Event] | None,
) -> np.ndarray:
    """The likeliest world of each of `runs` runs in one of them."""
    found = []
    for seen, secret in attack.replay.batches(worlds[truth], runs, seed * 1009 + truth, fault):
        scores = [attack.score(world, seen, secret) for world in worlds]
        found.append(np.argmax(scores, axis=0))
    return np.concatenate(found)[:runs]


def _rows(columns: Columns) -> np.ndarray:
    return np.hstack([np.asarray(column, float).reshape(len(column), -1) for column in columns])


__all__ = ["Identified", "identified", "largest_share"]
