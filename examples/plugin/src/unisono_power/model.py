"""The direction in which records differ most: weights of the number columns, of length 1."""

from typing import Any

import numpy as np

from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.data.encoding import Frame, Values
from unisono.data.schema import Schema
from unisono.models.model import (
    Choice,
    ModelConfig,
    ModelKind,
    Posed,
    Target,
    columns_in_words,
)
from unisono.problems.columns import BoundedColumns
from unisono.releases.algorithm import AlgorithmKind


class PrincipalDirectionConfig(ModelConfig):
    """Nothing to choose."""


def pose(
    config: PrincipalDirectionConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """Rows are features in [-1, 1] by their public bounds, divided by sqrt(d): in the unit ball."""
    frame, scale = Frame(schema), Frame(schema).scaling("all")
    length = np.sqrt(len(frame.names))

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return (scale.whole(frame.rows(values))[:, :-1] / length,)

    def present(study: Study, result: Result) -> dict[str, Any]:
        weights = dict(zip(frame.names, map(float, np.asarray(result.value)), strict=True))
        return {"direction": weights, "note": "of columns scaled to their public bounds"}

    problem = BoundedColumns(((-1.0, 1.0),) * len(frame.names))
    return Posed(problem, len(frame.names), encode, present)


PRINCIPAL_DIRECTION = ModelKind(
    "principal-direction",
    "the direction in which records differ most",
    PrincipalDirectionConfig,
    Target.NONE,
    BoundedColumns,
    pose,
    choose=lambda config, schema, privacy, unit: Choice("power-iteration", "the one that can"),
    learns=lambda config, schema: (
        f"the direction in which records differ most, of {columns_in_words(schema)}"
    ),
)
