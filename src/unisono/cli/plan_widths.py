"""The plan of a generalised linear model, or of hazard ratios: how wide intervals will be, which
effects they will find, and whether the smallest and the largest party would be better off alone. No
table is read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from unisono.algorithms.fisher_scoring import FISHER_SCORING
from unisono.algorithms.hazard_scoring import HAZARD_SCORING
from unisono.cli import words
from unisono.cli.output import console, write_json
from unisono.cli.plan_studies import candidate
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.models.glm import LINKS, RATIOS
from unisono.models.hazards import RATIO
from unisono.models.registry import model_named
from unisono.planning import widths
from unisono.planning.alone import Place, gain, places, who
from unisono.planning.hazard_widths import FAMILY as HAZARDS
from unisono.planning.hazard_widths import interval_widths
from unisono.planning.widths import PlannedWidth, Widths
from unisono.studies.schema import StudyFile

_RATIOS = {**RATIOS, HAZARDS: RATIO}
# The algorithms whose intervals are predicted.
_SCORING = (FISHER_SCORING, HAZARD_SCORING)
_TRUSTS = (Trust.SECURE_SUM, Trust.TRUSTED_SERVER, Trust.LOCAL)


@dataclass(frozen=True)
class AloneWidths:
    """A party that has to choose: its intervals alone, under the same promise, beside those of
    all."""

    name: str
    place: Place
    alone: Widths
    together: Widths

    @property
    def wider(self) -> float:
        """How many times wider its intervals are alone, under the same promise."""
        pairs = zip(self.alone.columns, self.together.columns, strict=True)
        return _middle([one.std_error / other.std_error for one, other in pairs])

    @property
    def wider_for_itself(self) -> float:
        """The same without noise: records of its own that it shows nobody."""
        share = math.sqrt(self.together.records / self.alone.records)
        errors = [one.sampling_error / one.std_error for one in self.together.columns]
        return share * _middle(errors)

    @property
    def learns(self) -> bool:
        """Whether alone, under the same promise, it would learn anything."""
        return self.alone.typical.determined > 0.5

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "records": self.alone.records,
            "wider_alone": self.wider,
            "wider_alone_without_noise": self.wider_for_itself,
            "determined_alone": self.alone.typical.determined,
        }


@dataclass(frozen=True)
class WidthPlan:
    """A study's own prediction, those under every trust, and those of its smallest and its largest
    party alone under the same promise; whatever cannot be built is left out."""

    file: StudyFile
    own: Widths
    trusts: Mapping[Trust, Widths]
    apart: tuple[AloneWidths, ...]
    effects: tuple[float, ...]

    @property
    def ratio(self) -> str:
        """What exp of a coefficient is called, or nothing."""
        return _RATIOS[self.own.family]

    def to_json(self) -> dict[str, Any]:
        return {
            "task": "coefficients",
            "family": self.own.family,
            "records": [party.records for party in self.file.parties],
            "epsilon": self.file.privacy.epsilon,
            "delta": self.file.privacy.delta,
            "trust": str(self.file.trust.mode),
            "rounds": self.own.rounds,
            "effects": list(self.effects),
            "columns": [self._row(one) for one in self.own.columns],
            "wider_than_without_privacy": {
                str(trust): found.typical.inflation for trust, found in self.trusts.items()
            },
            **{str(one.place): one.to_json() for one in self.apart},
        }

    def _row(self, one: PlannedWidth) -> dict[str, Any]:
        return {
            "column": one.name,
            "step": step_in_words(one),
            "std_error": one.std_error,
            "interval_width": 2 * one.reach(),
            "wider_than_without_privacy": one.inflation,
            "determined": one.determined,
            "power": {f"{e:g}": one.power(self.own.coefficient(e)) for e in self.effects},
            "least_effect_found": self.named(one.detectable()),
        }

    def named(self, coefficient: float) -> float:
        """A coefficient as people name effects: a ratio, or a difference."""
        return math.exp(coefficient) if self.own.ratios else coefficient


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def step_in_words(one: PlannedWidth) -> str:
    """What a coefficient is for."""
    return "one standard deviation" if one.number else "a value against the first"


def width_plan(
    file: StudyFile, effects: Sequence[float] = (), majority: float | None = None
) -> WidthPlan:
    """Predictions for a study file of a generalised linear model."""
    said = file.model_dump(mode="json", exclude_unset=True)
    # The rarer outcome is asked for; which of the two it is makes no difference.
    share = None if majority is None else 1 - majority
    own = _predicted(said, share)
    if isinstance(own, str):
        raise InvalidInput(own)
    given = tuple(effects) or (widths.RATIOS if own.ratios else widths.DIFFERENCES)
    for effect in given:
        own.coefficient(effect)
    trusts = {file.trust.mode: own}
    for trust in _TRUSTS:
        if trust is not file.trust.mode and len(file.parties) > 1:
            other = _predicted({**said, "trust": {"mode": str(trust)}}, share)
            if not isinstance(other, str):
                trusts[trust] = other
    apart = []
    for place, number in places([party.records for party in file.parties]).items():
        one = [said["parties"][number]]
        alone = _predicted({**said, "parties": one, "trust": {"mode": str(Trust.LOCAL)}}, share)
        if not isinstance(alone, str):
            apart.append(AloneWidths(file.parties[number].name, place, alone, own))
    return WidthPlan(file, own, trusts, tuple(apart), given)


def _predicted(said: Mapping[str, Any], share: float | None) -> Widths | str:
    """Of the study of a document, or why there is none."""
    kind = next(one for one in _SCORING if model_named(said["model"]["name"]).solved_by(one))
    named = {**said.get("algorithm", {}), "name": kind.name}
    unit = {"unit": str(kind.units[0]), **said["privacy"]}
    made = candidate({**said, "algorithm": named, "privacy": unit})
    return made.reason if made.built is None else interval_widths(made.built.study, share)


# ------------------------------------------------------------- words


def write_widths(found: WidthPlan, json: bool) -> None:
    if json:
        write_json(found.to_json())
        return
    out = console()
    for line in described(found):
        out.print(line)
    out.print()
    out.print(_columns(found))
    out.print(meaning(found), style="dim")
    out.print()
    for line in verdicts(found):
        out.print(line)
    out.print()
    out.print(assumptions(found.own))
    out.print("No data were read and nothing was spent.")


def described(found: WidthPlan) -> list[str]:
    file, own = found.file, found.own
    size = words.times(len(file.parties), "party", "parties")
    budget = f"epsilon {file.privacy.epsilon:g} at delta {words.plain(file.privacy.delta)}"
    return [
        f"{own.family} regression of {file.data.target}: {size}, {own.records:,} records in all; "
        f"{budget}, {file.trust.mode}, {words.times(own.rounds, 'round')}"
    ]


def _columns(found: WidthPlan) -> Table:
    """Columns that are alike share a row."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("columns")
    what = found.ratio or "difference"
    heads = (f"{what} {found.effects[0]:g}", "privacy", *(f"{e:g}" for e in found.effects), "least")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for one, names in _alike(found.own.columns):
        centre = found.own.coefficient(found.effects[0])
        ends = (found.named(centre + side * one.reach()) for side in (-1, 1))
        low, high = (f"{end:.3g}" for end in ends)
        powers = (one.power(found.own.coefficient(effect)) for effect in found.effects)
        known = one.determined > 0.5
        table.add_row(
            names,
            f"{low} to {high}" if known else "not determined",
            f"{one.inflation:.2f}" if known else "-",
            *(f"{100 * power:.0f} %" for power in powers),
            f"{found.named(one.detectable()):.3g}" if known else "-",
        )
    return table


def _alike(columns: Sequence[PlannedWidth]) -> list[tuple[PlannedWidth, str]]:
    """Numbers together, and categories with equally many values: one of them, and their names."""
    groups: dict[tuple[bool, int], list[PlannedWidth]] = {}
    for one in columns:
        groups.setdefault((one.number, one.values), []).append(one)
    found = []
    for (number, values), group in groups.items():
        names = ", ".join(one.name for one in group[:8])
        names += f" and {len(group) - 8} more" if len(group) > 8 else ""
        kind = "per deviation" if number else f"{values} values"
        middle = sorted(group, key=lambda one: one.std_error)[len(group) // 2]
        found.append((middle, f"{names} ({kind})"))
    return found


def verdicts(found: WidthPlan) -> list[str]:
    """What another trust would change, and whether the smallest and the largest party should take
    part."""
    lines = []
    others = {t: own for t, own in found.trusts.items() if t is not found.file.trust.mode}
    for trust, other in others.items():
        if other.typical.determined <= 0.5:
            lines.append(f"With trust {trust} most coefficients would not be determined.")
        else:
            times = other.typical.std_error / found.own.typical.std_error
            lines.append(f"With trust {trust} intervals would be {times:.2f} times as wide.")
    return [*lines, *(_apart(one) for one in found.apart)]


def _apart(found: AloneWidths) -> str:
    """Whether a party should take part."""
    party = who(found.name, found.place, found.alone.records)
    if found.together.typical.determined <= 0.5:
        return f"{party} learns nothing here: noise hides what the records say."
    same = "it would learn nothing under the same promise"
    if found.learns:
        same = f"its intervals would be {found.wider:.2f} times as wide under the same promise"
    verdict = gain(1.0, found.wider if found.learns else None, found.wider_for_itself)
    eyes = f"{found.wider_for_itself:.2f} times without noise, for its own eyes"
    return f"{party} {verdict}: alone {same}, and {eyes}."


def meaning(found: WidthPlan) -> str:
    first = found.effects[0]
    return (
        "Per standard deviation of a number, or for a value against the first of its list. "
        f"{found.ratio or 'difference'} {first:g}: its 95 % interval; privacy: how many times "
        f"wider than without; {', '.join(f'{e:g}' for e in found.effects)}: how often a 5 % "
        "test finds it; least: what is found four times in five."
    )


def assumptions(own: Widths) -> str:
    target = {
        "binomial": "outcomes as frequent as was said, a half unless told (--majority)",
        "gaussian": "normal errors; differences are in deviations of the target",
        "poisson": "counts of mean 1 without further dispersion",
        HAZARDS: "a constant hazard, and a half with an event unless told (--majority)",
    }[own.family]
    return (
        "Supposed: independent columns, values of a category alike often, small effects, "
        f"{target}. Correlated columns and rare values widen intervals with and "
        "without privacy; how well predictions held is in docs/planning.md."
    )


def summary(found: Widths) -> str:
    """One sentence for `unisono check`."""
    one = found.typical
    link = {**LINKS, HAZARDS: "log-hazard"}[found.family]
    if one.determined <= 0.5:
        return "Most coefficients will not be determined: noise hides what the records say."
    unit = "deviations of the target" if found.family == "gaussian" else link
    least = one.detectable()
    named = f"{_RATIOS[found.family]} {math.exp(least):.3g}" if found.ratios else f"{least:.2g}"
    return (
        f"95 % intervals of coefficients of independent columns will reach about {one.reach():.2g} "
        f"{unit} to either side ({one.name}, for {step_in_words(one)}), {one.inflation:.2f} times "
        f"as far as without privacy; an effect of {named} is found four times in five. "
        "`unisono plan` says more."
    )


__all__ = ["WidthPlan", "described", "summary", "verdicts", "width_plan", "write_widths"]
