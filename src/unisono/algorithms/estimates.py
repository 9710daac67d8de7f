"""A private answer: the value, how far the noise may have moved it, and what it cost."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unisono.core.certificate import Certificate

Interval = tuple[Any, Any]


@dataclass(frozen=True)
class Estimate:
    """A released statistic.

    `interval` holds the statistic *of these records* (after clipping to the public bounds) with
    probability `confidence`: noise and rounding are in it, and it holds for all numbers of an
    array at once. `population_interval`, where it is given, also counts the sampling error, and is
    about the population that the records were drawn from.
    """

    name: str
    value: Any
    interval: Interval
    confidence: float
    note: str
    certificate: Certificate
    population_interval: Interval | None = None
    labels: tuple[Any, ...] = field(default=())

    @property
    def text(self) -> str:
        """The answer in plain words."""
        lines = [f"{self.name}: {self._numbers()}"]
        if self.population_interval is not None and np.ndim(self.value) == 0:
            low, high = self.population_interval
            lines.append(f"  for the population behind the records: {_span(low, high)}")
        lines.append(f"  {self.note}")
        return "\n".join(lines)

    def _numbers(self) -> str:
        low, high = self.interval
        if np.ndim(self.value) == 0:
            return f"{_shown(self.value)}, {self.confidence:.0%} interval {_span(low, high)}"
        names = self.labels or tuple(range(np.size(self.value)))
        rows = zip(names, np.ravel(self.value), np.ravel(low), np.ravel(high), strict=True)
        return f"{self.confidence:.0%} intervals hold for all numbers at once" + "".join(
            f"\n    {_label(name)}: {_shown(v)} {_span(a, b)}" for name, v, a, b in rows
        )

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": self.name,
            "value": _plain(self.value),
            "interval": [_plain(end) for end in self.interval],
            "confidence": self.confidence,
            "note": self.note,
        }
        if self.population_interval is not None:
            document["population_interval"] = [_plain(end) for end in self.population_interval]
        if self.labels:
            document["labels"] = [_label(name) for name in self.labels]
        return document

    def __str__(self) -> str:
        return self.text


def _plain(value: Any) -> Any:
    return np.asarray(value, np.float64).tolist()


def _label(name: Any) -> str:
    return ", ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)


def _shown(value: Any) -> str:
    """Six digits, without an exponent where that stays readable.

    >>> _shown(1234567.0), _shown(0.123456789), _shown(3.0)
    ('1234567', '0.123457', '3')
    """
    number = float(value)
    return f"{number:.0f}" if 1e5 <= abs(number) < 1e15 else f"{number:.6g}"


def _span(low: Any, high: Any) -> str:
    return f"[{_shown(low)}, {_shown(high)}]"
