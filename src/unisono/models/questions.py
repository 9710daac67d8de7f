"""The questions that `[[model.questions]]` may ask; all are answered by one release."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat

from unisono.core.config import Config


class Question(Config):
    """What all questions share: their part of the budget, relative to the others."""

    weight: PositiveFloat = 1.0


class Moment(Question):
    """Mean, variance or standard deviation of a number, or its sum; of each group of `by`."""

    ask: Literal["mean", "variance", "standard deviation", "sum"]
    column: str
    by: str | None = None


class Share(Question):
    """How many records have a category's value, or which part of them; of each group of `by`."""

    ask: Literal["count", "proportion"]
    column: str
    value: str
    by: str | None = None


class Histogram(Question):
    """Counts by category, or of a number in `bins` of equal width; of each group of `by`."""

    ask: Literal["histogram"]
    column: str
    bins: Annotated[int, Field(ge=1, le=10_000)] | None = None
    by: str | None = None


class Quantiles(Question):
    """Quantiles of a number, each level between 0 and 1."""

    ask: Literal["quantiles"]
    column: str
    levels: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(min_length=1)


AnyQuestion = Annotated[Moment | Share | Histogram | Quantiles, Field(discriminator="ask")]
