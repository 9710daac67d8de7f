"""Where a run stands, on disk: written whole or not at all, readable by its owner only.

A checkpoint holds what the coordinating process knows, never records and never keys: noise of
rounds that were granted but not merged is gone with the process and cannot be drawn again.
"""

import io
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np

from unisono.core import journal
from unisono.errors import InvalidInput

_FORMAT = "unisono-checkpoint-1"


class Checkpoint:
    """One file for one study."""

    def __init__(self, path: str | Path, study: str) -> None:
        self.path, self.study = Path(path), study

    def exists(self) -> bool:
        return self.path.exists()

    def save(self, next_round: int, state: Any) -> None:
        """Replace the checkpoint: a crash leaves the old one or the new one."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
        header = json.dumps({"format": _FORMAT, "study": self.study, "next_round": next_round})
        arrays: dict[str, Any] = {f"leaf{i}": leaf for i, leaf in enumerate(leaves)}
        arrays["header"] = np.frombuffer(header.encode(), np.uint8)
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        journal.replace(self.path, packed.getvalue(), consequence="what was paid stays paid")

    def load(self, like: Any) -> tuple[int, Any]:
        """The next round and the state, shaped like `like`."""
        expected, structure = jax.tree.flatten(like)
        try:
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                header = json.loads(file["header"].tobytes())
                leaves = [file[f"leaf{i}"] for i in range(len(expected))]
            if header.get("format") != _FORMAT or header.get("study") != self.study:
                raise InvalidInput(
                    f"{self.path} belongs to another study: give this study its own checkpoint file"
                )
            shapes = [np.shape(leaf) for leaf in leaves], [np.shape(leaf) for leaf in expected]
            if shapes[0] != shapes[1]:
                raise ValueError("arrays of other shapes than the study's")
            return int(header["next_round"]), jax.tree.unflatten(structure, leaves)
        except InvalidInput:
            raise
        except (
            OSError,
            EOFError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
            NotImplementedError,
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            raise InvalidInput(
                f"{self.path} cannot be read as a checkpoint ({error}): remove it to start anew; "
                "what was spent stays spent"
            ) from None
