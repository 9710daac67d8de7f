"""The base of everything that people configure: study files, policies, models and algorithms."""

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """Named settings: nothing unknown, nothing converted, nothing changed later."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )
