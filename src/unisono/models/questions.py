"""The questions that `[[model.questions]]` may ask; all are answered by one release."""

from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, model_validator

from unisono.core.config import AddedLater, Config
from unisono.errors import InvalidInput

_ASK = "What is asked."
_COLUMN = "The column that is asked about."
_BY = "A category: the question is answered for each of its values."
_BETWEEN = "The two groups, the first less the second; left out where there are only two."


class ModelQuestion(Config):
    """What all questions share: their part of the budget, relative to the others."""

    weight: PositiveFloat = Field(
        1.0, description="The part of the budget, relative to other questions."
    )


class Moment(ModelQuestion):
    """Mean, variance or standard deviation of a number, or its sum; of each group of `by`."""

    ask: Literal["mean", "variance", "standard deviation", "sum"] = Field(description=_ASK)
    column: str = Field(description=_COLUMN)
    by: str | None = Field(None, description=_BY)


class ShareQuestion(ModelQuestion):
    """How many records have a category's value, or which part of them; of each group of `by`."""

    ask: Literal["count", "proportion"] = Field(description=_ASK)
    column: str = Field(description=_COLUMN)
    value: str = Field(description="The value of the category that is counted.")
    by: str | None = Field(None, description=_BY)


class Histogram(ModelQuestion):
    """Counts by category, or of a number in `bins` of equal width; of each group of `by`."""

    ask: Literal["histogram"] = Field(description=_ASK)
    column: str = Field(description=_COLUMN)
    bins: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="Bins of equal width between the bounds of a number."
    )
    by: str | None = Field(None, description=_BY)


class Quantiles(ModelQuestion):
    """Quantiles of a number, each level between 0 and 1; of each group of `by`."""

    ask: Literal["quantiles"] = Field(description=_ASK)
    column: str = Field(description=_COLUMN)
    levels: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        min_length=1, description="Each between 0 and 1; 0.5 is the median."
    )
    by: Annotated[str | None, AddedLater] = Field(None, description=_BY)


class ContingencyTable(ModelQuestion):
    """How many records have each pair of values of two categories."""

    ask: Literal["table"] = Field(description=_ASK)
    columns: tuple[str, str] = Field(description="Two categories: rows and columns of the table.")

    @model_validator(mode="after")
    def _two(self) -> "ContingencyTable":
        if self.columns[0] == self.columns[1]:
            raise InvalidInput(f"columns = {list(self.columns)}: name two different columns")
        return self


class GroupDifference(ModelQuestion):
    """Means (Welch's t test) or medians of a number in two groups of `by`, compared."""

    ask: Literal["difference of means", "difference of medians"] = Field(description=_ASK)
    column: str = Field(description=_COLUMN)
    by: str = Field(description="A category, two values of which are the groups.")
    between: tuple[str, str] | None = Field(None, description=_BETWEEN)


class ShareDifference(ModelQuestion):
    """The share of a category's value in two groups of `by`, compared."""

    ask: Literal["difference of proportions"] = Field(description=_ASK)
    column: str = Field(description=_COLUMN)
    value: str = Field(description="The value of the category whose share is compared.")
    by: str = Field(description="A category, two values of which are the groups.")
    between: tuple[str, str] | None = Field(None, description=_BETWEEN)


class IndependenceTest(ContingencyTable):
    """Whether two categories are independent: chi-square, or for two values each like Fisher's."""

    ask: Literal["chi-square", "fisher"] = Field(description=_ASK)  # type: ignore[assignment]


AnyQuestion = Annotated[
    Moment
    | ShareQuestion
    | Histogram
    | Quantiles
    | ContingencyTable
    | GroupDifference
    | ShareDifference
    | IndependenceTest,
    Field(discriminator="ask"),
]
