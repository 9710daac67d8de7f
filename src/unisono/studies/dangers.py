"""What could go wrong with a study, by its file and the public facts alone: each with a remedy.

A "warning" is about a promise that is weak, or a result that will be useless; a "note" is about
what people are surprised by later. Nothing here is refused: that is for `file.faults` and `build`.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from unisono.core.events import releases_of
from unisono.core.trust import PARTY, Trust, Unit
from unisono.core.words import number, times
from unisono.data.columns import NamedColumn, NumericColumn
from unisono.models.model import Target
from unisono.planning.noise import ROUGH, SWAMPED, Noise, weights_in_words
from unisono.planning.predict import Prediction
from unisono.planning.tasks import Task
from unisono.planning.verdicts import HEADROOM, Grade
from unisono.studies.build import Built, planned
from unisono.studies.schema import StudyFile
from unisono.studies.search import SearchBuilt, cannot_help
from unisono.studies.source import Place
from unisono.studies.template import small_delta

WEAK_EPSILON = 8.0
_WIDE, _RATIO, _MANY_VALUES = 1e6, 1e4, 50
_FEW_ROUNDS = 10  # times fewer than usual


@dataclass(frozen=True)
class Danger:
    """What could go wrong, and what to do about it; `place` is where the file says it."""

    level: Literal["warning", "note"]
    words: str
    remedy: str
    place: Place = ()

    @property
    def unmeant(self) -> bool:
        """Whether it is about a setting that somebody wrote and may have meant otherwise."""
        return len(self.place) > 1 and self.place[0] == "algorithm"

    def to_json(self, file: StudyFile) -> dict[str, Any]:
        where = file.source.where(self.place) if self.place else None
        return {"level": self.level, "words": self.words, "remedy": self.remedy, "where": where}


def dangers(built: Built, epsilons: dict[str, float], noise: Noise) -> list[Danger]:
    """Everything that somebody should know before the study runs, the worst first.

    `epsilons` is what it costs against each viewer, at the study's delta and relation.
    """
    found = [
        *_privacy(built, epsilons),
        *_crowd(built),
        *_failures(built),
        *_noise(built, noise),
        *_search(built),
        *_weights(built),
        *_rounds(built),
        *_algorithm(built),
        *_columns(built.file),
        *_practice(built.file),
    ]
    return sorted(found, key=lambda danger: danger.level == "note")


def _privacy(built: Built, epsilons: dict[str, float]) -> Iterator[Danger]:
    file, privacy = built.file, built.file.privacy
    records, parties = sum(file.training), len(file.parties)
    whole = privacy.unit is Unit.PARTY
    units = parties if whole else records
    if privacy.delta * units >= 1:
        words = f"delta = {privacy.delta:g} with {units:,} {privacy.unit}s: at delta >= 1 / "
        words += f"{privacy.unit}s it would be allowed to publish one of them"
        remedy = f"choose delta far below 1 / {units:,}, as {small_delta(units):g}"
        yield Danger("warning", words, remedy, ("privacy", "delta"))
    finite = [value for value in epsilons.values() if math.isfinite(value)]
    printed = built.study.algorithm.printed
    if printed is not None:
        remedy = "leave published out: noise is then calibrated, and the promise holds exactly"
        words = printed.words(max(finite, default=math.inf))
        yield Danger("warning", words, remedy, ("algorithm", "published"))
    if finite and max(finite) > WEAK_EPSILON:
        words = f"epsilon {number(max(finite), 3)} is weak: in the worst case whoever sees the "
        words += "result can nearly always tell one record from another"
        remedy = "choose 3 or less; `unisono plan` shows what that costs in accuracy"
        yield Danger("warning", words, remedy, ("privacy", "epsilon"))
    if file.trust.mode is Trust.TRUSTED_SERVER:
        words = "the server sees every party's values without noise (epsilon is infinite)"
        remedy = 'use mode = "secure-sum", unless everybody may show the server everything'
        yield Danger("warning", words, remedy, ("trust", "mode"))
    against = epsilons.get(str(PARTY), 0.0)
    if against > privacy.epsilon * (1 + 1e-6) and file.evaluation is None and printed is None:
        words = f"against another party epsilon is {number(against)}, more than the "
        words += f"{privacy.epsilon:g} of the file: a party knows its own share of the noise"
        yield Danger("warning", words, "set colluders = 1 or more", ("trust", "colluders"))
    if file.data.multiline:
        words = "multiline = true: a quote that is not closed joins a record to those after it, so "
        words += "one record can change many, and what is promised of one does not cover that"
        remedy = "take newlines out of the cells, and leave multiline out"
        yield Danger("warning", words, remedy, ("data", "multiline"))
    if privacy.unit is Unit.RECORD:
        words = "one record is hidden, not one person: whoever has k records, or records at "
        words += "several parties, is protected about k times less"
        remedy = 'hide persons (unit = "person"), keep one record for each, or hide whole parties'
        yield Danger("note", words, remedy, ("privacy", "unit"))
    yield from _persons(built)


def _persons(built: Built) -> Iterator[Danger]:
    """What becomes of persons with many records, and what is taken for granted of persons."""
    data = built.file.data
    if data.person is None or data.group is None:
        return
    words = f"every person counts once, with {times(data.group, 'record')} at most"
    if data.group > 1 and built.file.model_kind.target is not Target.NONE:
        words += ": what a person's records teach together is clipped as one record's would be, so "
        words += "that people with many records count for less than their records would"
    remedy = "each party is told on its own screen how many of its persons have more; raise "
    remedy += "records_per_person if that are many"
    yield Danger("note", words, remedy, ("data", "person"))
    if data.person_at_parties == 1 and len(built.file.parties) > 1:
        words = "a person is taken to be at one party only: whoever is at p of them is protected "
        words += "about p times less"
        remedy = "say person_at_parties = p, which takes p times the noise"
        yield Danger("note", words, remedy, ("data", "person"))


def _crowd(built: Built) -> Iterator[Danger]:
    file, facts = built.file, built.study.facts
    mode, parties = file.trust.mode, len(file.parties)
    if mode is Trust.SECURE_SUM and facts.honest <= 1:
        words = f"{times(facts.minimum_parties, 'party', 'parties')} and "
        words += f"{times(facts.colluders, 'colluder')}: the secure sum protects nobody. The "
        words += "colluders subtract their own values and see the one that is left, with no noise "
        words += "but its own"
        remedy = "invite more parties, require more survivors, or tolerate fewer colluders"
        yield Danger("warning", words, remedy, ("trust", "colluders"))
    if mode is Trust.SECURE_SUM and facts.colluders == 0:
        words = "nothing is promised against a server that works together with one of the parties"
        yield Danger("warning", words, "set colluders = 1 or more", ("trust", "colluders"))
    local_only = built.study.algorithm.trusts == frozenset({Trust.LOCAL})
    if mode is Trust.LOCAL and parties > 1 and not local_only:
        words = f"every party adds all of the noise: about {math.sqrt(parties):.2g} times as much "
        words += "as in a secure sum"
        remedy = 'use mode = "secure-sum", if parties can all be there at the same time'
        yield Danger("note", words, remedy, ("trust", "mode"))


def _failures(built: Built) -> Iterator[Danger]:
    file, study = built.file, built.study
    parties, rounds = len(file.parties), study.algorithm.rounds
    if parties > 1 and file.survivors == parties and study.algorithm.named is None:
        words = f"all {parties} parties must answer: one that fails leaves the round out"
        if rounds == 1:
            words = f"all {parties} parties must answer in the only round: if one fails, nothing "
            words += "is learnt, and the others have paid"
        remedy = f"set minimum_parties = {parties - 1}, or allow retries"
        yield Danger("note", words, remedy, ("trust", "minimum_parties"))
    if file.trust.retries:
        again = times(file.trust.retries, "retry", "retries")
        words = f"noise is made for {times(rounds, 'round')} and {again}, and the ledger charges "
        words += "for all of them: what is not needed stays charged"
        remedy = "plan for as few retries as you can"
        yield Danger("note", words, remedy, ("trust", "retries"))
    if (
        not study.algorithm.alike
        or releases_of(study.algorithm.event(study.facts, study.trust)) > 1
    ):
        words = f"{built.algorithm.name} is paid for at once: a party whose process stops cannot "
        words += "go on with this run"
        yield Danger("note", words, "let it run without interruption", ("algorithm", "name"))


def _search(built: Built) -> Iterator[Danger]:
    """A choice that costs more than it can find."""
    if isinstance(built, SearchBuilt) and (words := cannot_help(built)):
        remedy = "leave [search] out, so that one model gets all of epsilon; or fewer candidates"
        yield Danger("warning", f"a search cannot help here: {words}", remedy, ("search",))


def _costs_much(found: Prediction) -> str:
    """That noise is likely to cost more than half of what there is to lose, or all of it, where a
    cautious guess says what that is."""
    unit = {Task.REGRESSION: "% of R²"}.get(found.task, "points of accuracy")
    everything = 1.0 if found.task is Task.REGRESSION else HEADROOM.get(found.task, 0.0)
    if found.likely >= 0.9 * everything:
        return "noise is predicted to drown the result, though it is smaller than what is sent"
    low, likely, high = (f"{100 * own:.2g}" for own in found.band)
    return f"noise is predicted to cost {likely} {unit}, and may cost between {low} and {high}"


def _noise(built: Built, noise: Noise) -> Iterator[Danger]:
    file, swamped = built.file, noise.total < SWAMPED
    found = None if swamped else planned(file, built.algorithm)
    if found is not None and found.grade is Grade.USELESS:
        words = _costs_much(found)
        remedy = "more records, fewer columns, a larger epsilon; see `unisono plan`"
        yield Danger("warning", words, remedy, ("privacy", "epsilon"))
    if noise.total >= ROUGH:
        return
    words = "noise will swamp the result" if swamped else "expect a rough result: noise is large"
    unit = file.privacy.unit
    of_all = f"all {number(noise.units, 3)} {'parties' if unit is Unit.PARTY else f'{unit}s'} "
    of_all += "of a round together weigh"
    if noise.units == 1:
        of_all = "the messages of all rounds weigh"
    words += f" ({of_all} {number(noise.total, 2)} times as much as the noise)"
    remedy = "more records, fewer columns, a larger epsilon"
    if unit is Unit.PARTY:
        remedy = "hiding whole parties takes hundreds of them; hide records instead"
    elif file.trust.mode is Trust.LOCAL and len(file.parties) > 1:
        remedy += ", or a secure sum"
    level: Literal["warning", "note"] = "warning" if swamped else "note"
    yield Danger(level, words, f"{remedy}; see `unisono plan`", ("privacy", "epsilon"))


def _weights(built: Built) -> Iterator[Danger]:
    words = weights_in_words(built.study)
    if words:
        remedy = 'use objective = "pooled", unless small parties are to count as much as large ones'
        yield Danger("note", words, remedy, ("algorithm", "objective"))


def _rounds(built: Built) -> Iterator[Danger]:
    """So few that a descent ends near its start, whatever the noise."""
    said = built.file.algorithm_settings.get("rounds")
    field = built.algorithm.config.model_fields.get("rounds")
    usual = built.posed.settings.get("rounds", None if field is None else field.default)
    if isinstance(said, int) and isinstance(usual, int) and _FEW_ROUNDS * said <= usual:
        words = f"rounds = {said}: {built.algorithm.name} usually takes {usual}; after so few "
        words += "steps a model is still near its start, however little noise there is"
        remedy = "leave rounds out; the budget covers all of them, and more rounds cost little"
        yield Danger("note", words, remedy, ("algorithm", "rounds"))


def _algorithm(built: Built) -> Iterator[Danger]:
    if built.algorithm.remarks is not None:
        for words, remedy in built.algorithm.remarks(built.study):
            yield Danger("note", words, remedy, ("algorithm", "name"))


def _columns(file: StudyFile) -> Iterator[Danger]:
    for name, column in file.data.columns.items():
        place = ("data", "columns", name)
        if name in file.data.private:
            continue
        if isinstance(column, NumericColumn):
            low, high = column.span
            if max(abs(low), abs(high)) >= _WIDE or (low > 0 and high / low >= _RATIO):
                words = f"'{name}' has very wide bounds, {low:g} to {high:g}: noise is in "
                words += "proportion to them, and a few large values would dominate"
                remedy = "take the range of nearly all values (others are clipped), or logarithms"
                yield Danger("note", words, remedy, place)
        elif (
            isinstance(column, NamedColumn)
            and len(column.levels) >= _MANY_VALUES
            and name in file.data.features
        ):
            words = f"'{name}' has {len(column.levels)} values, each a column of its own"
            yield Danger("note", words, "join rare values into one", place)
    target = file.data.columns.get(file.data.target or "")
    predicted = file.model_kind.predicts and file.data.target not in file.data.private
    if isinstance(target, NumericColumn) and predicted:
        words = f"targets outside {target.span[0]:g} to {target.span[1]:g} are clipped, so "
        words += "nothing beyond is ever predicted well"
        yield Danger(
            "note",
            words,
            "agree on bounds that hold nearly all targets",
            ("data", "columns", file.data.target or ""),
        )


def _practice(file: StudyFile) -> Iterator[Danger]:
    if file.data.sizes == "exact":
        units = "records" if file.data.person is None else "persons"
        words = f"everybody learns how many {units} each party has"
        remedy = 'if that is a secret: sizes = "hidden" and relation = "add-or-remove"'
        yield Danger("note", words, remedy, ("data", "sizes"))
    if file.server is None and len(file.parties) > 1:
        words = "no server is named: fine for `unisono run`, not for `unisono coordinate`"
        remedy = 'add [server] with address = "HOST:PORT", or give --address'
        yield Danger("note", words, remedy)
    if file.evaluation is not None and file.evaluation.file is not None:
        words = f"{file.evaluation.file} counts as public: everybody sees how well its records are "
        words += "predicted, without noise"
        remedy = "make sure that it holds no party's records; for those use holdout and epsilon"
        yield Danger("note", words, remedy, ("evaluation", "file"))
    if file.model_kind.predicts and file.evaluation is None:
        words = "nobody measures how good the result is"
        remedy = "add [evaluation] with a file of public records, or holdout and epsilon"
        yield Danger("note", words, remedy)


__all__ = ["Danger", "dangers"]
