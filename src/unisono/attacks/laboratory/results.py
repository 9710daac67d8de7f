"""What the laboratory found, as frozen data and as plain JSON.

Errors are relative l2, matched by assignment, averaged over records; `ratio` is the error over that
of the mean image: at 1 the attacker has learned nothing. Infinity is the string "inf" in JSON, and
what is not defined is null.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from unisono.attacks.scoring import Verdict


@dataclass(frozen=True)
class Reconstruction:
    """Errors of the adaptive and the naive attacker, means over `batches`."""

    error: float
    psnr: float
    ratio: float
    naive_error: float
    naive_psnr: float
    batches: int


@dataclass(frozen=True)
class Tensor:
    """The tensor method: errors of moments by number of neurons, their slope with its standard
    error (None for two points) against lecture 13's bound, and the errors after the polish."""

    neurons: tuple[int, ...]
    errors: tuple[float, ...]
    slope: float
    slope_error: float | None
    bound: str
    predicted: float | None
    verdict: Verdict | None
    polished: float
    polished_psnr: float
    naive_polished: float


@dataclass(frozen=True)
class MembershipScore:
    """Area under the curve (1/2 is guessing) and the best TPR - FPR, on one update."""

    area: float
    advantage: float
    naive_area: float
    trials: int


@dataclass(frozen=True)
class PrivacyScore:
    """Epsilon at `delta`, presence of one record: the accountant's of the attacked round, by
    somebody who knows who took part, and of the whole training with secret coins; and what an audit
    of the round's code shows at least. `ceiling` is the most that so many runs can show."""

    delta: float
    epsilon_round: float
    epsilon_training: float
    empirical_direct: float
    empirical_model_based: float | None
    ceiling: float
    confidence: float
    runs: int


@dataclass(frozen=True)
class Row:
    """All attacks on one defence; `labels_ratio` is the error, over the mean image's, of class
    means of the labels that were read off the update."""

    name: str
    defence: str
    inversion: Reconstruction
    closed_form: Reconstruction | None
    tensor: Tensor
    membership: MembershipScore
    labels_ratio: float
    accuracy: float
    privacy: PrivacyScore


@dataclass(frozen=True)
class TensorPoint:
    """Mean error of one record's inversion, by epsilon of a round or by number of parties, and of
    the best of as many public images as there were guesses."""

    at: float
    error: float
    control: float


@dataclass(frozen=True)
class Baseline:
    """Who saw nothing: the mean image, and class means of blind labels over it."""

    error: float
    psnr: float
    blind_ratio: float


@dataclass(frozen=True)
class LaboratoryResults:
    rows: tuple[Row, ...]
    baseline: Baseline
    by_epsilon: tuple[TensorPoint, ...]
    by_parties: tuple[TensorPoint, ...]
    single_baseline: float
    setting: dict[str, str]
    quick: bool
    seed: int
    seconds: float


def document(found: LaboratoryResults) -> dict[str, Any]:
    """Plain JSON, as it lies in attacks.json under "laboratory"."""
    return {"format": "unisono-laboratory-1", **plain(asdict(found))}


def plain(value: Any) -> Any:
    """Tuples as lists, infinities as words, NaN as null."""
    if isinstance(value, dict):
        return {key: plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(own) for own in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
