"""The scores of a search: of every record by every candidate, and their noisy release."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from unisono.core.ledger import Ledger
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.values import Private
from unisono.data import listed, numbers
from unisono.data.blocks import in_blocks
from unisono.data.scaling import target_scaling
from unisono.estimators.classifiers import places_of
from unisono.estimators.foundation import Quoted
from unisono.estimators.learn_or_judge import Split
from unisono.estimators.members import facts_of
from unisono.estimators.private_predictions import unisono_model

# Scores that are added to fits get less of epsilon, down to a tenth of what they may, where noise
# between two of them stays within half a point.
_APART, _LEAST_SCORES = 0.005, 0.1


def record_scores(model: Any, scoring: str, X: Any, y: Any) -> np.ndarray:
    """The score (m,) of every record by a model, in [0, 1], each by itself (`data.blocks`)."""
    if not len(X):  # by secret coins, where sizes are hidden: a refusal would tell that
        return np.zeros(0)
    fitted = unisono_model(model)
    assert fitted is not None  # `require_searchable` refuses others
    said, rows = fitted._predicts(), np.asarray(X, np.float64)
    if is_regressor(model):
        true, half = numbers(listed(y)), target_scaling(model.target_bounds).half

        def errors(own: np.ndarray, value: np.ndarray) -> tuple[np.ndarray]:
            gaps = (said.predict(own) - value) / half
            return (1.0 - np.clip(np.nan_to_num(gaps, nan=1.0), -1.0, 1.0) ** 2,)

        return in_blocks(errors, rows, true)[0]

    def right(own: np.ndarray, place: np.ndarray) -> tuple[np.ndarray]:
        return ((said.predict(own) == place).astype(float),)

    def brier(own: np.ndarray, place: np.ndarray) -> tuple[np.ndarray]:
        known = np.nan_to_num(place, nan=-1.0).astype(int)
        chances = said.probabilities(own)[np.arange(len(own)), np.maximum(known, 0)]
        chances = np.clip(np.nan_to_num(np.where(known >= 0, chances, 0.0)), 0.0, 1.0)
        return (1.0 - (1.0 - chances) ** 2,)

    own = places_of(np.asarray(y), y, model.classes_).astype(float)
    return in_blocks(brier if scoring == "brier" else right, rows, own)[0]


def score_gain(model: Any, scoring: str) -> float:
    """Right and wrong differ by 1, and numbers and chances by little."""
    from unisono.algorithms.held_out_scores import NUMBERS_GAIN

    return NUMBERS_GAIN if is_regressor(model) or scoring == "brier" else 1.0


def scores_study(
    models: int, gain: float, privacy: Privacy, quote: Quoted, split: Split, frugal: bool
) -> Study:
    """The release of scores; a `frugal` one adds as much noise as leaves two scores well apart."""
    from unisono.algorithms.held_out_scores import HELD_OUT_SCORES, JudgedModels, score_deviation

    own, problem = quote.facts, JudgedModels(models, gain)
    facts = facts_of(
        split.judged, models, quote.trust, privacy.relation, own.minimum_parties, own.colluders
    )

    def made(epsilon: float) -> Study:
        paid = Privacy(epsilon, privacy.delta, privacy.relation)
        return Study(HELD_OUT_SCORES.method(problem, paid), facts, quote.trust)

    study = made(privacy.epsilon)
    if not frugal:
        return study
    event = study.algorithm.event(facts, quote.trust)
    noise = score_deviation(problem, event.noise.deviation(models + 1), sum(split.judged))
    share = noise * gain / _APART
    return study if share >= 1 else made(privacy.epsilon * max(share, _LEAST_SCORES))


def released_scores(
    study: Study, judged: np.ndarray, split: Split, books: Sequence[Ledger], purpose: str
) -> np.ndarray:
    """Noisy scores (models,) from the scores (m, models) of all parties' records, one after the
    other."""
    from unisono.engines import in_process

    cuts = np.cumsum([len(own) for own in split.judging])[:-1]
    parts = np.split(judged.astype(np.float32), cuts)
    parties = [
        Party(name, Private((own,), name), book)
        for name, own, book in zip(split.members.names, parts, books, strict=True)
    ]
    found: np.ndarray = np.asarray(in_process.run(study, parties, purpose=purpose).value)
    return found


__all__ = ["record_scores", "released_scores", "score_gain", "scores_study"]
