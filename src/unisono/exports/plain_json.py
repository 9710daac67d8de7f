"""One JSON file that any language can score with: no arrays elsewhere, no schema to interpret."""

import json
from typing import Any

import numpy as np

from unisono.exports.features import columns_of, features_of, predicted
from unisono.models.average import Average
from unisono.models.fitted import FittedModel
from unisono.models.prediction import QUADRATURE, Prediction, Scores

FORMAT = "unisono-scorer-1"


def scorer(model: FittedModel) -> dict[str, Any]:
    """The model as plain numbers: how cells become features, features a score, and that an answer
    (`docs/use-the-model.md` has a scorer of forty lines)."""
    found = predicted(model)
    return {
        "format": FORMAT,
        "title": model.title,
        "model": model.model,
        "target": model.target,
        "formula": model.formula,
        "simulation": model.simulated,
        "columns": columns_of(model, offset=True),
        "features": features_of(model),
        "prediction": _predicting(found),
        "certificate": dict(model.certificate),
    }


def _predicting(found: Prediction) -> dict[str, Any]:
    document: dict[str, Any] = {key: _plain(value) for key, value in found.document().items()}
    if isinstance(found, Scores):  # chances are averaged over these places of a normal score
        places = np.stack(QUADRATURE, axis=1).tolist() if found.averaged else [[0.0, 1.0]]
        document["quadrature"] = places
    if isinstance(found, Average):
        document["members"] = [_predicting(own) for own in found.members]
    return document


def as_text(model: FittedModel) -> str:
    return json.dumps(scorer(model), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value, float).tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, dict):
        return {key: _plain(own) for key, own in value.items()}
    return [_plain(own) for own in value] if isinstance(value, list | tuple) else value


__all__ = ["FORMAT", "as_text", "scorer"]
