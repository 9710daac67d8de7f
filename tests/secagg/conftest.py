"""All parties of these tests live in one process: a key is checked once."""

from functools import lru_cache

import pytest

from unisono.secagg import masks

_checked_once = lru_cache(maxsize=20_000)(masks.is_usable)


@pytest.fixture(autouse=True)
def keys_are_checked_once(monkeypatch):
    monkeypatch.setattr(masks, "is_usable", _checked_once)
