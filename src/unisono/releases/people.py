"""Persons in place of records: what a row is, and how far one of them moves a release.

A person's records at a party are put together in one row before anything is computed (`data.people`
makes the rows), so that sampling, masks, blocks and relations are about persons, and every proof
about rows is one about persons. What a person adds is bounded as a whole:

    tables      each of m records weighs 1 / m, so that a person's part is a mean of records' parts.
                The parts of a record lie in a set of some size, and so do their means: whatever
                bounds one record bounds a person.
    gradients   clip_C(Σ over a person's records of grad): the *sum* is clipped to what one record
                may add. Sums that are shorter stay whole, which is what a person gains over group
                privacy (k times the noise); longer ones are cut, which is a bias.
    others      one record of each person, drawn in secret (`records_per_person = 1`).

A person who may be at p parties moves a sum over all of them p times as far. That is all that is
proved: parties that each release on their own would be p releases, of which each ledger counts one,
and p independent draws of a sampled person are not one draw of p times the distance.
"""

from dataclasses import replace

from unisono.core.algorithm import Facts
from unisono.core.sensitivity import Distance, Sensitivity
from unisono.core.trust import Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution


def for_unit(facts: Facts, sensitivity: Sensitivity) -> Sensitivity:
    """How far one unit of a study moves the sum over all parties, by how far one row moves it."""
    if facts.unit is Unit.RECORD:
        return sensitivity
    return Sensitivity(
        facts.unit,
        _times(facts.person_at_parties, sensitivity.replace_one),
        _times(facts.person_at_parties, sensitivity.zero_out),
        _times(facts.person_at_parties, sensitivity.add_or_remove),
    )


def of_unit(facts: Facts, contribution: Contribution) -> Contribution:
    """A party's contribution, as one of persons where its rows are persons: at one party a person
    has one row."""
    if facts.unit is Unit.RECORD:
        return contribution
    own = replace(contribution.sensitivity, unit=facts.unit)
    return replace(contribution, maker=_BOUNDED_ONLY, sensitivity=own)


def _times(factor: int, distance: Distance | None) -> Distance | None:
    if distance is None or factor == 1:
        return distance
    return distance.times(factor)


__all__ = ["for_unit", "of_unit"]
