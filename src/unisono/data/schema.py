"""What is declared about a study's records, all of it public: columns, target, sizes, and how
files are written."""

from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from unisono.core.config import AddedLater, Config
from unisono.data.columns import AnyColumn, Category, ColumnKind, NamedColumn, Number
from unisono.data.csv_file import USUAL, CsvDialect
from unisono.data.people import MOST_RECORDS, RECORDS_PER_PERSON
from unisono.errors import InvalidInput


class Schema(Config):
    """Columns in an agreed order; the target is the one to predict. `multiline` allows newlines in
    quoted cells of CSV files, and gives up that one record never decides where others end."""

    columns: dict[str, AnyColumn] = Field(
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
    interactions: Annotated[tuple[tuple[str, str], ...], AddedLater] = Field(
        (), description="Pairs of columns whose products models see too."
    )
    csv: Annotated[CsvDialect, AddedLater] = Field(
        USUAL, description="How the parties' CSV files are written."
    )
    person: Annotated[str | None, AddedLater] = Field(
        None,
        min_length=1,
        description='The column that says whose a record is, for unit = "person"; it is read as '
        "text, and nothing is learnt from it.",
    )
    records_per_person: Annotated[int | None, AddedLater] = Field(
        None,
        ge=1,
        le=MOST_RECORDS,
        description="So many records of a person are read at most; of more they are drawn in "
        "secret. Left out: 8.",
    )
    person_at_parties: Annotated[int, AddedLater] = Field(
        1, ge=1, description="At so many of the parties a person may have records."
    )

    @classmethod
    def declaring(cls, columns: Mapping[str, Any]) -> "Schema":
        """These columns, as somebody declares them in Python; what is wrong is said in the words of
        its place."""
        try:
            return cls.model_validate({"columns": dict(columns)})
        except ValidationError as error:
            first = error.errors()[0]
            place = [repr(one) if n == 0 else str(one) for n, one in enumerate(first["loc"][1:])]
            words = str(first["msg"]).removeprefix("Value error, ")
            raise InvalidInput(
                f"columns: {' of '.join(place) or 'declarations'}: {words}"
            ) from None

    @model_validator(mode="after")
    def _fits(self) -> "Schema":
        for pair in self.interactions:
            for name in pair:
                if name not in self.features:
                    raise InvalidInput(
                        f"interactions: {name!r} is no feature: there are "
                        f"{', '.join(self.features)}"
                    )
        for one, other in combinations(map(frozenset, self.interactions), 2):
            if one == other:
                raise InvalidInput(f"interactions: {' and '.join(sorted(one))} stand there twice")
        return self

    @property
    def group(self) -> int | None:
        """How many records of a person are read at most; None where records are the unit."""
        if self.person is None:
            return None
        return RECORDS_PER_PERSON if self.records_per_person is None else self.records_per_person

    @property
    def read(self) -> tuple[str, ...]:
        """The columns of a party's file that are read."""
        return tuple(self.columns) if self.person is None else (*self.columns, self.person)

    @property
    def features(self) -> dict[str, ColumnKind]:
        """All columns but the target."""
        return {name: column for name, column in self.columns.items() if name != self.target}

    @property
    def fills(self) -> dict[str, str]:
        """The public values that take the place of missing ones, by column."""
        said = {name: column.fill_words for name, column in self.columns.items()}
        return {n: words for n, words in said.items() if words and n != self.target}

    @property
    def private(self) -> tuple[str, ...]:
        """The columns whose ranges are to be found out, and paid for."""
        return tuple(
            name for name, own in self.columns.items() if isinstance(own, Number) and own.private
        )

    @property
    def unlisted(self) -> dict[str, Category]:
        """The columns whose values are to be found out, and paid for."""
        return {
            name: own
            for name, own in self.columns.items()
            if isinstance(own, Category) and own.private
        }

    @property
    def unknown(self) -> tuple[str, ...]:
        """All columns of which something is to be found out first."""
        return (*self.private, *self.unlisted)

    def within(self, found: Mapping[str, tuple[Any, ...]]) -> "Schema":
        """This schema with what was released of some columns: ranges (low, high, centre) of
        numbers, values of categories."""
        known = dict(self.columns)
        for name, released in found.items():
            own = known[name]
            if isinstance(own, Category):
                known[name] = own.listing(released)
            else:
                assert isinstance(own, Number)
                known[name] = own.within(*released)
        return self.model_copy(update={"columns": known})

    @property
    def classes(self) -> tuple[str, ...]:
        """The target's values; none where it is a number or missing."""
        column = self.columns.get(self.target or "")
        return column.levels if isinstance(column, NamedColumn) else ()
