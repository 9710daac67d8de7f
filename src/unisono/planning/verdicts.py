"""When a result is good, usable, doubtful or useless: one rule of public numbers.

A loss means nothing by itself: ten points of accuracy are little where a model without privacy
beats the commonest class by forty, and more than everything where it beats it by nine. So a loss is
compared with the *headroom*: how far a model without privacy is ahead of one that knows nothing (of
accuracy, what it has above the commonest class; of R², all of it, of which a loss is a share).
Nobody reads it from data here: somebody who knows the field says it, or the cautious `HEADROOM`
stands in.

    good      loses at most 2 points (R²: 0.02)
    usable    keeps at least half of the headroom: clearly ahead of knowing nothing
    doubtful  would keep half if all goes as is likely, but the far end of its band would not
    useless   is likely to lose more than half

Good and usable hold at the far end of the band. Other measures have limits of their own: the error
of a mean as a part of the public range, and how many times wider a posterior gets; a posterior that
keeps so much of its prior that results would say "nothing was learnt" is useless.
"""

from enum import StrEnum

from unisono.errors import InvalidInput
from unisono.planning.laws import Band
from unisono.planning.tasks import Task


class Grade(StrEnum):
    """What a prediction means for somebody who wants a result."""

    GOOD = "good"
    USABLE = "usable"
    DOUBTFUL = "doubtful"
    USELESS = "useless"


# A model without privacy is right this much more often than the commonest class; its R².
HEADROOM = {Task.CLASSIFICATION: 0.1, Task.NETWORK: 0.1, Task.REGRESSION: 0.3}
_GOOD, _KEPT = 0.02, 0.5
# At most so much is good, and at most so much is usable: parts of the range, times wider.
_LIMITS = {Task.MEAN: (0.01, 0.05), Task.POSTERIOR: (1.5, 4.0)}


def headroom(task: Task, without_privacy: float | None, majority: float | None) -> float:
    """How far a model without privacy is ahead: its accuracy less the share of the commonest class
    (0 for regressions), as somebody knows them; None takes the cautious value.

    >>> round(headroom(Task.CLASSIFICATION, 0.85, 0.76), 2), headroom(Task.REGRESSION, None, None)
    (0.09, 0.3)
    """
    for name, value in (("without_privacy", without_privacy), ("majority", majority)):
        if value is not None and not 0 < value <= 1:
            raise InvalidInput(f"{name} = {value!r}: it is a share, above 0 and at most 1")
    if task not in HEADROOM:
        if without_privacy is not None or majority is not None:
            raise InvalidInput(
                f"without_privacy and majority say nothing about {task}: leave them out"
            )
        return 1.0
    if task is Task.REGRESSION:
        if majority is not None:
            raise InvalidInput("majority is for classes: a regression has none; leave it out")
        return HEADROOM[task] if without_privacy is None else without_privacy
    if (without_privacy is None) != (majority is None):
        raise InvalidInput(
            f"without_privacy = {without_privacy!r}, majority = {majority!r}: give both the "
            "accuracy without privacy and the share of the commonest class, or neither"
        )
    if without_privacy is None or majority is None:
        return HEADROOM[task]
    if without_privacy <= majority:
        raise InvalidInput(
            f"without_privacy = {without_privacy:g} is not above majority = {majority:g}: a model "
            "that does no better than the commonest class has nothing to lose"
        )
    return without_privacy - majority


def limits(task: Task, room: float) -> tuple[float, float]:
    """The largest loss that is good, and the largest that is usable."""
    if task in _LIMITS:
        return _LIMITS[task]
    if task is Task.REGRESSION:  # shares of the R² that there is
        return min(_GOOD / room, _KEPT), _KEPT
    return min(_GOOD, _KEPT * room), _KEPT * room


def verdict(task: Task, band: Band, room: float) -> Grade:
    """The rule of this module.

    >>> str(verdict(Task.REGRESSION, Band(0.6, 0.6, 0.6), 0.25))
    'useless'
    """
    good, usable = limits(task, room)
    if band.high <= good:
        return Grade.GOOD
    if band.high <= usable:
        return Grade.USABLE
    return Grade.DOUBTFUL if band.likely <= usable else Grade.USELESS


# Records times epsilon, for each class, up to which networks were no better than lines (digits,
# texture, optdigits and breast cancer below 850, letter at 1,150; they were on penbased at 1,650,
# and with two classes from 4,000 on), and for numbers (diamonds and cps1988 at 30,000):
# `benchmarks/model_choice.py`.
_BY_CLASS, _BY_NUMBER = 1_200, 30_000


def network_beside_line(records: int, epsilon: float, classes: int, average: bool = False) -> str:
    """Why a search among a line and a network is not expected to end in a better model than the
    line with all of epsilon; nothing where it may. `classes` 0: numbers are predicted, of which the
    `average` of both was better than the line on one of two tables (cps1988)."""
    have, least = records * epsilon / max(classes, 1), _BY_CLASS if classes else _BY_NUMBER
    if have > least or (average and not classes):
        return ""
    if not classes:
        return (
            f"networks were found to be no better than lines up to {least:,} records times "
            f"epsilon, and here these are {have:,.0f}; the average of both may be, which is free "
            "(average = true)"
        )
    mean = ", nor was the average of both" if average else ""
    return (
        f"networks were found to be no better than lines up to {least:,} records times epsilon for "
        f"each class{mean}, and here these are {have:,.0f}"
    )


__all__ = ["HEADROOM", "Grade", "headroom", "limits", "network_beside_line", "verdict"]
