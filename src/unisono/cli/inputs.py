"""What a person types about a mechanism, and the history of releases it stands for.

The noise multiplier is the one number that mechanisms share: the standard deviation (or scale)
of the noise divided by the largest norm of ONE record's contribution, that is, by the zero-out
sensitivity. Every record is bounded by 1 here, so the multiplier is the scale itself.
"""

import warnings
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unisono.core.events import (
    Composed,
    Event,
    Everyone,
    Gaussian,
    Poisson,
    Sampler,
    WithoutReplacement,
    positive,
)
from unisono.core.kinds import LAWS
from unisono.core.trust import Relation
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.mechanisms import Mechanism


# The mechanisms that `unisono privacy` knows: every law that hides something in one release.
MechanismName = StrEnum(  # type: ignore[misc]
    "MechanismName",
    {
        law.kind.replace("-", "_").upper(): law.kind
        for law in LAWS
        if not (law.run or law.nested or law.discloses)
    },
)
_PICTURES = (".png", ".pdf", ".svg")

GAUSSIAN = MechanismName(Gaussian.kind)
MechanismOption = Annotated[
    MechanismName,
    typer.Option(metavar="NAME", help=f"How the noise is drawn: {', '.join(MechanismName)}."),
]
NoiseOption = Annotated[
    float,
    typer.Option(
        help="Noise multiplier: the standard deviation (Laplace, norm, selection: the scale) "
        "divided by the largest norm of ONE record's contribution (its zero-out sensitivity). "
        "Replacing a record moves a sum by twice that norm; this is counted for you. "
        "Randomized response: 1 / epsilon of one answer."
    ),
]
CountOption = Annotated[int, typer.Option(help="How often such a value is released (rounds).")]
RateOption = Annotated[
    float | None,
    typer.Option(help="Poisson sampling: each record takes part with this secret probability."),
]
SubsetOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE/POPULATION",
        help="A secret subset of fixed size without replacement, such as 256/10000.",
    ),
]
DeltaOption = Annotated[
    float,
    typer.Option(help="Allowance for the worst case; far below 1 / number of records."),
]
RelationOption = Annotated[
    Relation,
    typer.Option(
        metavar="NAME",
        help="What is hidden: which record you gave (replace-one), your values (zero-out), or "
        "also that you took part (add-or-remove).",
    ),
]
RecordsOption = Annotated[
    int | None, typer.Option(help="Number of records, to check that delta is small enough.")
]
DimensionOption = Annotated[
    int, typer.Option(help="Length of the released vector (discrete-gaussian, skellam).")
]
GridOption = Annotated[
    float,
    typer.Option(
        help="Step of the integer grid over the norm bound (laplace, discrete-gaussian, skellam)."
    ),
]
ChoicesOption = Annotated[int, typer.Option(help="Number of answers (randomized-response).")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON with full precision.")]
PlotOption = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw a picture: .png, .pdf or .svg.")
]


@dataclass(frozen=True)
class TypedQuestion:
    """Everything about a series of releases except how much noise it has."""

    mechanism: MechanismName
    count: int = 1
    sampler: Sampler = Everyone()
    relation: Relation = Relation.REPLACE_ONE
    delta: float = 1e-6
    dimension: int = 1
    grid: float = 2.0**-10
    choices: int = 2

    def __post_init__(self) -> None:
        positive(count=self.count, dimension=self.dimension, grid=self.grid)
        if not 0 <= self.delta < 1:
            raise InvalidInput(
                f"delta = {self.delta!r} lies outside [0, 1): choose one far below "
                "1 / number of records, such as 1e-6"
            )
        if self.delta == 0 and not self.entry.pure:
            raise InvalidInput(
                f"delta = 0, but {self.mechanism} noise has no guarantee without a delta: choose "
                "a small one such as 1e-6, or use laplace or norm noise"
            )

    @property
    def entry(self) -> "Mechanism":
        """The mechanism's entry in the catalogue."""
        from unisono.mechanisms import MECHANISMS

        return MECHANISMS[self.mechanism]

    def event(self, noise: float) -> Event:
        """One release with this noise multiplier."""
        from unisono.mechanisms.mechanism import Scale

        positive(noise=noise)
        scale = Scale(noise, self.dimension, self.grid, self.choices)
        return Event(self.entry.unit(scale), self.entry.unit_sensitivity(scale), self.sampler)

    def history(self, noise: float) -> Composed:
        """All releases together."""
        return self.event(noise) * self.count


def sampler_from(rate: float | None, subset: str | None) -> Sampler:
    """The sampler that --rate or --subset names.

    >>> sampler_from(None, "256/10000")
    WithoutReplacement(size=256, population=10000)
    """
    if rate is not None and subset is not None:
        raise InvalidInput(
            f"--rate {rate:g} and --subset {subset} name two samplers: give the one that is used; "
            "a subset of fixed size is not a Poisson sample"
        )
    if rate is not None:
        return Poisson(rate) if rate != 1 else Everyone()
    if subset is None:
        return Everyone()
    size, slash, population = subset.partition("/")
    if not (slash and size.strip().isdecimal() and population.strip().isdecimal()):
        raise InvalidInput(
            f"--subset {subset!r} is not SIZE/POPULATION: give two whole numbers, such as 256/10000"
        )
    return WithoutReplacement(int(size), int(population))


def warn_if_large(delta: float, records: int | None) -> str | None:
    """The warning that delta is at least 1 / records, if it is."""
    if records is None:
        return None
    from unisono.accounting.validation import require_count, require_delta
    from unisono.core.study import warn_large_delta

    delta, records = require_delta(delta, zero=True), require_count("records", records)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_large_delta(delta, records)
    return str(caught[0].message) if caught else None


def check_picture(plot: str | None) -> None:
    """Refuse a picture file that cannot be written, before anything is computed."""
    if plot is None:
        return
    path = Path(plot)
    if path.suffix.lower() not in _PICTURES:
        raise InvalidInput(
            f"cannot draw {plot!r}: end the file name in one of {', '.join(_PICTURES)}"
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"cannot draw {plot!r}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise InvalidInput(f"cannot draw {plot!r}: that is a folder, name a file")
