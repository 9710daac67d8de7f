"""A statistic as a study of one party that makes one release: its terms, what it released, and the
answers to one question of a `Survey`."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.noise_law import sum_law
from unisono.algorithms.readings import Noisy
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result, Study, warn_large_delta
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.engines import one_round
from unisono.errors import InvalidInput
from unisono.releases.exact_sums import BoundedRows, ColumnSums, CountedCells, ExactSum
from unisono.statistics.cells import Given, Read

# Sums stay in doubles from the records to the reader; a few operations are rounded on the way.
_PRECISION = 2.0**-50


@dataclass(frozen=True)
class Terms:
    """What is promised, who pays, how sure intervals are, and what the ledger says it was for."""

    privacy: Privacy
    ledger: Ledger
    confidence: float
    purpose: str

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidInput(
                f"confidence = {self.confidence!r}: it lies between 0 and 1, as 0.95"
            )

    @property
    def hidden(self) -> bool:
        """Whether the number of records is hidden too."""
        return self.privacy.relation is Relation.ADD_OR_REMOVE

    def facts(
        self, records: int, nominal: int, features: int = 1, group: int | None = None
    ) -> Facts:
        """One party of so many records, or persons. A hidden number of them appears nowhere:
        neither in the price nor in the study's hash, from which it could be guessed; its owner is
        warned of a large delta."""
        if not self.hidden:
            return Facts((records,), features, 1, records_per_person=group)
        warn_large_delta(self.privacy.delta, records)
        return Facts((nominal,), features, 1, exact_sizes=False, records_per_person=group)

    def party(self, columns: Any) -> Party:
        name = self.ledger.policy.dataset
        return Party(name, Private(columns, name), self.ledger)

    def read(self, reading: Callable[..., list[Estimate]], *given: Any) -> Estimate:
        """The one estimate that a reading finds; `given` is what it asks for, and the result."""
        *asked, result = given
        [found] = reading(*asked, 1 - self.confidence, result.certificate)
        return found


def terms_of(
    purpose: str, epsilon: float, delta: float, ledger: Ledger, confidence: float
) -> Terms:
    """The relation is the ledger's: budgets add up under one."""
    return Terms(Privacy(epsilon, delta, ledger.policy.relation), ledger, confidence, purpose)


@dataclass(frozen=True)
class Released:
    """A noisy array, and the study that it came of."""

    study: Study
    result: Result

    @property
    def total(self) -> np.ndarray:
        return np.array(self.result.value, np.float64)

    @property
    def step(self) -> float:
        return self.study.algorithm.grid(self.study.facts, self.study.trust)

    @property
    def records(self) -> int:
        return sum(self.study.facts.records)

    def noisy(
        self,
        values: np.ndarray,
        factor: float = 1.0,
        rounding: tuple[float, ...] = (0.0,),
        weight: float = 1.0,
    ) -> Noisy:
        """For the readings: `values` are `factor` times what was released, one cell in each row,
        and one cell in all where they are flat; the first is that over `weight`."""
        study, facts = self.study, self.study.facts
        event = study.algorithm.event(facts, study.trust)
        law = sum_law(event, facts, study.trust, 1, self.step).scaled(factor)
        return Noisy(
            np.atleast_2d(values),
            law,
            np.broadcast_to(np.asarray(rounding), (np.atleast_2d(values).shape[1],)),
            self.records,
            facts.exact_sizes,
            _PRECISION,
            weight,
        )


def released(
    terms: Terms, bound: CountedCells | ColumnSums, rows: np.ndarray | BoundedRows, **asked: Any
) -> Released:
    """One release of counts or sums, as a study of one party."""
    said = (("statistic", terms.purpose), *asked.items())
    # These bounds are priced without the number of records, so any will do where it is hidden.
    facts = terms.facts(len(rows), nominal=1, features=int(np.prod(rows.shape[1:])))
    study = Study(ExactSum("statistic", bound, terms.privacy, said), facts, Trust.LOCAL)
    result = one_round.run(study, [terms.party((rows,))], purpose=terms.purpose)
    return Released(study, result)


def surveyed(
    terms: Terms,
    question: Any,
    given: Given,
    read: Read,
    nominal_rows: int | None,
    numbers: int = 1,
) -> list[Estimate]:
    """The answers to one question of a survey with one party, all at once at the confidence."""
    records, columns = given.columns(read)
    return asked_of(terms, question, records, columns, nominal_rows, numbers, group=given.group)


def asked_of(
    terms: Terms,
    question: Any,
    records: int,
    columns: Any,
    nominal_rows: int | None,
    numbers: int = 1,
    features: int = 1,
    group: int | None = None,
) -> list[Estimate]:
    """The same of columns that were read; a list of rows, or a stream of them."""
    from unisono.algorithms.survey import STATISTICS, Survey
    from unisono.engines import in_process

    if terms.hidden and nominal_rows is None:
        raise InvalidInput(
            "add-or-remove hides how many records there are: give a public upper limit of their "
            "number with nominal_rows"
        )
    survey = Survey([question])
    nominal = 1 if nominal_rows is None else nominal_rows
    if terms.hidden and records > nominal:  # refusing would tell everybody the size
        warnings.warn(
            f"there are more records than nominal_rows = {nominal}: all of them count, but "
            "intervals are made for fewer; give a larger number",
            stacklevel=5,
        )
    facts = terms.facts(records, nominal, features, group=group)
    study = Study(STATISTICS.method(survey, terms.privacy), facts, Trust.LOCAL)
    result = in_process.run(study, [terms.party(columns)], purpose=terms.purpose)
    return survey.read(study, result, 1 - (1 - terms.confidence) / numbers)
