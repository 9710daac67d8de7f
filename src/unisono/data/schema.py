"""What is declared about columns, all of it public: kinds, bounds, values, and the target."""

from typing import Annotated, Literal

from pydantic import Field, field_validator

from unisono.core.config import Config
from unisono.errors import InvalidInput


class Number(Config):
    """A column of numbers; what lies outside the public bounds is clipped. `integer` numbers are
    added exactly in statistics."""

    kind: Literal["number"] = Field(description="A column of numbers.")
    bounds: tuple[float, float] = Field(
        description="The public lowest and highest value; values outside are clipped."
    )
    integer: bool = Field(False, description="Whole numbers, which statistics add exactly.")

    @field_validator("bounds")
    @classmethod
    def _range(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        low, high = bounds
        if not low < high:
            raise InvalidInput(
                f"bounds {low:g} to {high:g} are no range: give the public lowest and highest "
                "value, never read from the data"
            )
        return bounds


class Category(Config):
    """A column of named values, all of them public."""

    kind: Literal["category"] = Field(description="A column of named values.")
    values: tuple[str, ...] = Field(
        min_length=2,
        description="All values that occur, in an agreed order; the first is the reference.",
    )

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(values)) < len(values) or not all(values):
            raise InvalidInput(f"values {', '.join(values)!r}: name each value once, none empty")
        return values


Column = Annotated[Number | Category, Field(discriminator="kind")]


class Schema(Config):
    """Columns in an agreed order; the target is the one to predict. `multiline` allows newlines in
    quoted cells of CSV files, and gives up that one record never decides where others end."""

    columns: dict[str, Column] = Field(
        min_length=1, description="The columns that are read, by name, in an agreed order."
    )
    target: str | None = Field(None, description="The column to predict, where a model has one.")
    sizes: Literal["exact", "hidden"] = Field(
        "exact",
        description="Whether everybody learns each party's number of records, or nobody does.",
    )
    multiline: bool = Field(
        False, description="Whether quoted cells of CSV files may hold newlines."
    )

    @property
    def features(self) -> dict[str, Number | Category]:
        """All columns but the target."""
        return {name: column for name, column in self.columns.items() if name != self.target}

    @property
    def classes(self) -> tuple[str, ...]:
        """The target's values; none where it is a number or missing."""
        column = self.columns.get(self.target or "")
        return column.values if isinstance(column, Category) else ()
