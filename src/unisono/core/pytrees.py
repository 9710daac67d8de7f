"""Compiled functions return contributions: JAX must know which of their fields are arrays."""

import jax

from unisono.core.values import Contribution

jax.tree_util.register_dataclass(
    Contribution, data_fields=["value", "valid"], meta_fields=["grid", "sensitivity", "run"]
)
