"""The base of everything that people configure: study files, policies, models and algorithms."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class AddedLater:
    """Marks a setting that came when studies had been agreed on already. While it is at its
    default, which must mean what those studies meant, hashes leave it out and stay what they were.
    """


class Config(BaseModel):
    """Named settings: nothing unknown, nothing converted, nothing changed later."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )

    @property
    def hashed(self) -> dict[str, Any]:
        """These settings as plain JSON, as hashes of studies count them; those within them too."""
        return {
            name: _hashed(getattr(self, name), value)
            for name, value in self.model_dump(mode="json").items()
            if not self._as_before(name)
        }

    def _as_before(self, name: str) -> bool:
        field = type(self).model_fields[name]
        return AddedLater in field.metadata and getattr(self, name) == field.default


def _hashed(value: Any, dumped: Any) -> Any:
    if isinstance(value, Config):
        return value.hashed
    if isinstance(value, tuple):
        return [_hashed(*pair) for pair in zip(value, dumped, strict=True)]
    return dumped
