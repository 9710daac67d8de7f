"""What an algorithm releases, said once, and its price, derived once.

An algorithm names the bound of what one unit contributes, how often it is released, who is sampled
and where it stays. From that and from the study's privacy, public facts and trust, `price` derives
the quantization step, the sensitivity, the events with calibrated noise, and the shares of a secure
sum. Nobody else calibrates noise for a run.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

from unisono.accounting import gaussian as gaussian_curve
from unisono.core.algorithm import Facts, Inside, Named, Schedule, SumTerms
from unisono.core.events import (
    Event,
    Everyone,
    Gaussian,
    GaussianRun,
    Poisson,
    Sampler,
    Sensitivity,
)
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Distance
from unisono.core.trust import Relation, Trust, Unit
from unisono.core.values import Contribution
from unisono.errors import ConditionViolated, InvalidInput
from unisono.mechanisms import MECHANISMS, gaussian, laplace
from unisono.mechanisms.printed import PrintedNoise, event_as_printed
from unisono.releases.people import for_unit

# All parties' integers are added modulo 2^32, in a secure sum and in a compiled program alike.
MODULUS_BITS = 32
# Above this epsilon noise is too narrow to be drawn inside a compiled program.
IN_GRAPH_EPSILON = 15.0


class Bound(Protocol):
    """How far one unit moves a release, and the only maker of its contributions.

    `unit` is whose part is bounded; `dimension` how many numbers are released; a `whole`
    contribution is made from all of a party's records at once (an update, a minimiser), others are
    sums that may be computed in parts. `batched` bounds get the rows that a sample chose, padded to
    a public number; others get all rows and a mask. `in_graph`: long vectors, whose noise is drawn
    inside the compiled program. `pure` is the mechanism for delta = 0, by its name.
    """

    @property
    def unit(self) -> Unit: ...

    @property
    def whole(self) -> bool: ...

    @property
    def batched(self) -> bool: ...

    @property
    def in_graph(self) -> bool: ...

    @property
    def pure(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def steps(self, release: "Release", facts: Facts, privacy: Privacy) -> Iterator[float]:
        """Quantization steps that suit the sum, the finest first."""
        ...

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        """How far one unit moves the quantized release."""
        ...

    def sum_bound(self, release: "Release", facts: Facts, privacy: Privacy) -> float:
        """The largest that any number of the clean sum over all parties can be."""
        ...

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        """The terms that a clean sum consists of."""
        ...

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, Any]:
        """The bounded, quantized contribution, and what the party may remember of it, if anything.

        Rows whose mask is off count for nothing, whatever they hold.
        """
        ...


@runtime_checkable
class SizedBound(Bound, Protocol):
    """A bound that weighs what a party sends by its public number of records."""

    def of_party(self, size: Any) -> Bound:
        """The bound at a party of this public size."""
        ...


@runtime_checkable
class PerturbedBound(Bound, Protocol):
    """A bound with noise inside what it computes, before the release: two events in one turn."""

    @property
    def inside(self) -> Sensitivity:
        """How far one unit moves what the noise inside is added to."""
        ...

    def slack(self, facts: Facts, privacy: Privacy) -> float:
        """What the computation tells beside the noise: ℓ of a profile e^ℓ dG(ε - 2ℓ; μ)."""
        ...

    def with_noise(self, step: float) -> "PerturbedBound":
        """The bound, for noise inside that is rounded to this step."""
        ...


class LocalSteps(NamedTuple):
    """Several noisy releases that stay with the party, then one report, which is post-processing of
    them: it travels in steps of `quantization`, each number at most `largest`."""

    steps: int
    quantization: float
    largest: float


@dataclass(frozen=True)
class Release:
    """What leaves a party, and how often.

    `scales` multiply the noise in equal parts of the run. With `local_steps` a round holds several
    releases that stay with the party. `turns` is a public schedule of who is asked when; or records
    are `named` by a coordinator, one in every round. `each`: the server keeps the parties' messages
    apart. Of a `run` all rounds are one event together (correlated noise), of the sensitivity that
    the bound states for all of them. `effective_records` is how many records count, each by its
    weight over the largest weight; None where all weigh the same. Privacy does not depend on it:
    bounds hold for the heaviest record.
    """

    bound: Bound
    rounds: int = 1
    sampler: Sampler = Everyone()
    scales: tuple[float, ...] = ()
    local_steps: LocalSteps | None = None
    turns: Callable[[Facts], Schedule] | None = None
    each: bool = False
    run: bool = False
    trusts: frozenset[Trust] = frozenset(Trust)
    effective_records: float | None = None
    named: Named | None = None

    @property
    def sampling_rate(self) -> float:
        return self.sampler.rate if isinstance(self.sampler, Poisson) else 1.0

    def summed(self, per_party: Any, facts: Facts) -> int:
        """How many of something one sum is over, given how many each party has: where releases stay
        with a party, the largest party's; one where records are named; else all of them together.
        """
        if self.named is not None:
            return 1
        counts = [per_party] * facts.parties if isinstance(per_party, int) else per_party
        return max(counts) if self.local_steps else sum(counts)

    def scale(self, number: int) -> float:
        """By how much the noise of round `number` is wider than that of the run."""
        return self.scales[number * len(self.scales) // self.rounds] if self.scales else 1.0


class Priced(NamedTuple):
    """What a release costs under the terms of one study: made by `price` alone.

    `events` has one for every party, the same object where they are alike. `noise_std` is the
    standard deviation of one number of the sum that is opened when every party answers. `bound` is
    the release's, completed by what the price derived; `inside` the noise within what it computes;
    `privacy` the promise that it keeps, by which a table weighs its blocks.
    """

    step: float
    events: tuple[Event, ...]
    noise_std: float
    bound: Bound
    inside: Inside | None = None
    privacy: Privacy | None = None

    @property
    def event(self) -> Event:
        return self.events[0]


# The noise that a publication prescribes for a release of this sensitivity.
PrintedLaw = Callable[[Sensitivity], PrintedNoise]


def price(
    release: Release,
    privacy: Privacy,
    facts: Facts,
    trust: Trust,
    printed: PrintedLaw | None = None,
) -> Priced:
    """The quantization step and the noise that keep the promise over the whole run.

    With `printed` noise nothing is calibrated and no promise is kept: its event has the noise of a
    publication and the true sensitivity, and is charged what it really costs. As with calibrated
    noise, it is what is certain: in a secure sum the honest parties' shares alone amount to it.
    """
    bound = release.bound
    _require(release, privacy, facts, trust)
    _require_people(release, facts, trust)
    if isinstance(release.sampler, Poisson) and bound.unit is not Unit.PARTY and release.each:
        raise InvalidInput("messages that are kept apart are not sampled")
    if isinstance(bound, PerturbedBound):
        return _price_perturbed(release, bound, privacy, facts)
    in_graph = bound.in_graph and privacy.largest <= IN_GRAPH_EPSILON
    missed = overflow(release, facts)

    @lru_cache(maxsize=4096)
    def event(step: float, epsilon: float, turns: int, shares: int) -> Event:
        sensitivity = _moved(bound, facts, privacy, step)
        if printed is not None:
            return event_as_printed(
                printed(sensitivity),
                sensitivity,
                count=turns,
                sampler=release.sampler,
                dimension=bound.dimension,
                shares=shares,
                grid=step,
                in_graph=in_graph,
                missed=missed,
            )
        if privacy.pure:
            return _pure_event(bound, sensitivity, privacy.relation, epsilon, turns, trust, step)
        # Of a run all releases together are one, of as many coordinates.
        together = release.rounds if release.run else 1
        found = gaussian.calibrate(
            sensitivity,
            privacy.relation,
            epsilon,
            privacy.delta,
            count=1 if release.run else turns,
            sampler=release.sampler,
            dimension=together * bound.dimension,
            grid=step,
            shares=shares,
            in_graph=in_graph,
            missed=missed,
            scales=_levels(release),
        )
        return _as_run(found, release.rounds) if release.run else found

    def turns(party: int | None) -> int:
        """How many releases a party's promise must bear."""
        if release.named is not None:
            return release.named.uses
        asked = release.rounds
        if release.turns is not None:
            counts = release.turns(facts).asked.sum(axis=0)
            asked = int(counts.max() if party is None else counts[party])
        return facts.attempts(asked) * (release.local_steps.steps if release.local_steps else 1)

    steps = list(bound.steps(release, facts, privacy))
    reach = bound.sum_bound(release, facts, privacy)

    def suits(step: float) -> bool:
        """Whether sums fit; of the last step engines ask that again, and refuse it in words."""
        priced = event(step, privacy.smallest, turns(None), 1)
        widest = max(release.scales, default=1.0)
        return step == steps[-1] or fits(sum_reach(reach, [priced], facts, trust, widest), step)

    step = _proved(steps, suits)
    shares = facts.honest if trust is Trust.SECURE_SUM else 1
    if privacy.own or (release.turns is not None and release.local_steps):
        events = tuple(
            event(step, privacy.of(party, facts.parties), turns(party), shares)
            for party in range(facts.parties)
        )
    else:
        events = (event(step, privacy.epsilon, turns(None), shares),) * facts.parties
    together = 1.0 if release.named is not None else copies(facts, trust)
    opened = [_opened_std(event, bound.dimension, together) for event in events]
    alike = len(set(opened)) == 1  # parties with epsilons or turns of their own are not
    mean_square = sum(std**2 for std in opened) / facts.parties
    std = opened[0] if alike else math.sqrt(mean_square)
    return Priced(step, events, std, bound, privacy=privacy)


def round_event(release: Release, priced: Priced, number: int) -> Event:
    """The event of one round, where the noise follows a schedule."""
    noise = priced.event.noise
    if not release.scales:
        return priced.event
    assert isinstance(noise, Gaussian)
    wider = replace(noise, std=noise.std * release.scale(number))
    return replace(priced.event, noise=wider)


def sampler_of(sampling_rate: float) -> Sampler:
    """Poisson sampling; at rate 1 there is nothing to sample."""
    return Everyone() if sampling_rate == 1 else Poisson(sampling_rate)


def terms_of(number: Sequence[float], term: Distance, step: float) -> SumTerms:
    """Terms of these norms. Norms bound each other: |x| <= l2 <= l1."""
    norms = [math.inf if norm is None else norm / step for norm in (term.linf, term.l2, term.l1)]
    most = min(norms)
    return SumTerms(tuple(number), -most, most, norms[2], min(norms[1:]))


def record_terms(bound: Bound, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
    """The terms of a sum over records: one for each, of the zero-out sensitivity.

    Zeroing one record moves the sum by at most Δ, and the sum of records that are all zero is zero:
    by the triangle inequality the sum of n records is at most n Δ, roundings included.
    """
    term = bound.sensitivity(facts, privacy, step).under(Relation.ZERO_OUT)
    return terms_of(facts.most_records, term, step)


def copies(facts: Facts, trust: Trust) -> float:
    """The variance of the noise in the opened sum, if all parties answer, over that of the event:
    every party's own, all shares over those that are certain, or the server's alone."""
    match trust:
        case Trust.LOCAL:
            return float(facts.parties)
        case Trust.SECURE_SUM:
            return facts.parties / facts.honest
        case Trust.TRUSTED_SERVER:
            return 1.0


def sum_reach(
    bound: float, events: Sequence[Event], facts: Facts, trust: Trust, scale: float = 1.0
) -> float:
    """How far numbers of a sum get whose clean ones are at most `bound`: twelve standard deviations
    of noise, `scale` times as wide as the events', beyond it. A number of a clean sum at its bound
    is farther with probability 2e-33."""

    def std(event: Event) -> float:
        return float(getattr(event.noise, "std", 1.5 * getattr(event.noise, "scale", 0.0)))

    spread = facts.parties if trust is Trust.LOCAL else facts.parties / facts.honest
    return bound + 12 * scale * max(map(std, events)) * math.sqrt(spread)


def fits(reach: float, step: float) -> bool:
    """Whether numbers up to `reach`, in these steps, fit the modulus with their signs."""
    return reach / step < 2 ** (MODULUS_BITS - 1)


# ------------------------------------------------------------- noise inside a computation

# Part of μ² that pays for the small noise on the output, and how finely noise inside is rounded.
_OUTPUT_SHARE = 0.01
NOISE_FINENESS = 2.0**-16


def _price_perturbed(
    release: Release, bound: PerturbedBound, privacy: Privacy, facts: Facts
) -> Priced:
    """Both noises of one turn: e^ℓ dG(ε - 2ℓ; μ) = δ, a hundredth of μ² for the output."""
    if privacy.own or release.rounds != 1 or facts.retries or release.trusts != {Trust.LOCAL}:
        raise InvalidInput(
            "noise inside a computation is priced for one round of trust LOCAL, with one epsilon "
            "for all parties and without retries: set retries to 0 and give no party its own"
        )
    slack = bound.slack(facts, privacy)
    mu = gaussian_curve.mu_for(privacy.epsilon - 2 * slack, privacy.delta * math.exp(-slack))
    mu *= 1 - 1e-9  # the roots behind curve and ledger agree to far better than this
    distance = bound.inside.under(privacy.relation).in_norm("l2")
    std = distance / (mu * math.sqrt(1 - _OUTPUT_SHARE))
    grid = 2.0 ** math.floor(math.log2(std * NOISE_FINENESS))
    inside = Inside(Event(Gaussian(std, slack=slack), bound.inside), grid, (bound.dimension,))
    completed = bound.with_noise(grid)
    step = next(completed.steps(release, facts, privacy))
    sensitivity = completed.sensitivity(facts, privacy, step)
    apart = sensitivity.under(privacy.relation).in_norm("l2")
    output = Event(Gaussian(apart / (mu * math.sqrt(_OUTPUT_SHARE))), sensitivity)
    opened = _opened_std(output, bound.dimension, copies(facts, Trust.LOCAL))
    return Priced(step, (output,) * facts.parties, opened, completed, inside)


# ------------------------------------------------------------- batches of a public size

# A batch overflows with at most this probability; times e^epsilon it vanishes beside any delta.
_OVERFLOW = 1e-18
# Where sizes are hidden, at most so many batches take a second segment.
_SECOND_SEGMENT = 1 / 10
_BLOCK = 128


def batch_size(release: Release, facts: Facts) -> int:
    """To how many rows a party's batch is padded: one in 10^18 batches is larger."""
    return _batch_size(release.sampling_rate, facts)


def segment_size(release: Release, facts: Facts) -> int:
    """How many rows of a party's batch reach the compiled program at once.

    Where sizes are public, all of them. Where they are hidden, a batch that is larger fills several
    segments and nobody is left out (`engines.layout`), so a segment need not have room for the
    largest batch in 10^18: fewer than one in ten takes two, and the others spare the work on rows
    that are empty.
    Whole blocks of 128 rows; a batch of a block or two has nothing to spare.
    """
    most = batch_size(release, facts)
    if facts.exact_sizes or most <= 2 * _BLOCK or release.sampling_rate == 1:
        return most
    usual = _enough(release.sampling_rate, max(facts.records), facts.parties, _SECOND_SEGMENT)
    return min(most, _BLOCK * max(-(-usual // _BLOCK), -(-most // (2 * _BLOCK))))


@lru_cache(maxsize=64)
def _batch_size(rate: float, facts: Facts) -> int:
    """A multiple of 64, so that a compiled program treats all rows alike (`engines.layout`)."""
    return 64 * -(-_enough(rate, facts.places, facts.parties, _OVERFLOW) // 64)


@lru_cache(maxsize=64)
def _enough(rate: float, records: int, parties: int, chance: float) -> int:
    """The smallest batch that is exceeded, by any of the parties, with at most this chance."""
    import numpy as np
    from scipy.stats import binom

    if rate == 1:
        return records
    sizes = np.arange(int(rate * records), records + 1)
    return int(sizes[np.argmax(parties * binom.sf(sizes, records, rate) <= chance)])


def overflow(release: Release, facts: Facts) -> float:
    """The chance that some party's batch is cut short: larger than what it is padded to, where
    sizes are public. Where they are hidden it fills several batches, and nobody is left out."""
    if not release.bound.batched or not isinstance(release.sampler, Poisson):
        return 0.0
    size = batch_size(release, facts)
    if size >= facts.places or not facts.exact_sizes:
        return 0.0
    from scipy.stats import binom  # a second to import

    return float(facts.parties * binom.sf(size, facts.places, release.sampling_rate))


# ------------------------------------------------------------- details of a price


def _require(release: Release, privacy: Privacy, facts: Facts, trust: Trust) -> None:
    """Refuse what the promise cannot hold against, before anything is spent."""
    if privacy.relation is Relation.ADD_OR_REMOVE and release.bound.unit is Unit.PARTY:
        raise InvalidInput(
            "a party's presence (add-or-remove) is not hidden: if it is absent, its share of "
            "noise is missing too; use zero-out or replace-one"
        )
    if privacy.relation is Relation.ADD_OR_REMOVE and facts.exact_sizes:
        raise InvalidInput(
            "add-or-remove hides how many records there are, but the study publishes exact sizes: "
            "set exact_sizes=False and agree on nominal ones"
        )
    if trust is Trust.SECURE_SUM and privacy.pure and facts.parties > 1 and not facts.colluders:
        raise InvalidInput(
            "pure epsilon in a secure sum with colluders = 0: a curious party subtracts its own "
            "share, and a Laplace sum that lacks a share has no pure epsilon; set colluders to 1 "
            "or more (agree_facts does), or give a delta for Gaussian noise"
        )
    if privacy.pure and not release.bound.pure:
        raise InvalidInput(
            f"delta = {privacy.delta!r}: Gaussian noise has no pure epsilon; choose delta in "
            "(0, 1), or an algorithm that offers pure epsilon, such as output-perturbation"
        )
    if privacy.pure and (release.scales or not isinstance(release.sampler, Everyone)):
        raise InvalidInput(
            "pure epsilon is priced for everybody in every round, with the same noise in each: "
            "choose delta in (0, 1) for samples and for noise that follows a schedule"
        )


def _require_people(release: Release, facts: Facts, trust: Trust) -> None:
    """Refuse releases whose cost is not proved for persons, before anything is spent."""
    bound = release.bound
    if bound.unit is Unit.PARTY:
        return
    only = isinstance(bound, PerturbedBound) or release.run or release.named is not None
    if only and facts.unit is Unit.PERSON:
        raise InvalidInput(
            f"a {type(bound).__name__} is proved for single records only, and this study hides "
            "persons: choose another algorithm, as gradient-perturbation"
        )
    together = getattr(bound, "group", 1)
    if together == 1 != facts.group:
        raise InvalidInput(
            f"records_per_person = {facts.group}: this algorithm does not add up the records of a "
            "person; say records_per_person = 1 (one of each is drawn in secret), or choose one "
            "that does, as gradient-perturbation"
        )
    if together != facts.group:
        raise InvalidInput(
            f"a loss of persons with up to {together} records each, in a study of up to "
            f"{facts.group}: make it of as many (`of_persons`)"
        )
    if facts.person_at_parties == 1:
        return
    if not isinstance(release.sampler, Everyone):
        raise InvalidInput(
            f"person_at_parties = {facts.person_at_parties} with sampling: a person who is drawn "
            "at several parties independently is not one who is drawn once, and the accountant "
            "does not know what that costs; use an algorithm without sampling, as "
            "gradient-perturbation"
        )
    apart = release.each or release.turns or release.local_steps or bound.whole
    if trust is Trust.LOCAL or apart:
        raise InvalidInput(
            f"person_at_parties = {facts.person_at_parties} where parties release on their own: "
            "what they show of the same person adds up, and each ledger counts its own part only; "
            'use trust "secure-sum" and an algorithm that opens sums over all parties'
        )


def _moved(bound: Bound, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
    """How far one unit of the study moves the release."""
    own = bound.sensitivity(facts, privacy, step)
    return own if bound.unit is Unit.PARTY else for_unit(facts, own)


def _pure_event(
    bound: Bound,
    sensitivity: Sensitivity,
    relation: Relation,
    epsilon: float,
    count: int,
    trust: Trust,
    step: float,
) -> Event:
    """The noise that the bound names, or discrete Laplace noise where it must come in shares:
    l2-norm (gamma) noise, for what is bounded in l2 (Chaudhuri et al. 2011), does not."""
    mechanism = MECHANISMS[bound.pure]
    if trust is Trust.SECURE_SUM and not mechanism.law.shared:
        mechanism = laplace.MECHANISM
    return mechanism.calibrate(
        sensitivity, relation, epsilon, count=count, dimension=bound.dimension, grid=step
    )


def _levels(release: Release) -> list[tuple[float, int]]:
    """How many rounds have how much wider noise; none where it is constant."""
    if not release.scales:
        return []
    scales = [release.scale(number) for number in range(release.rounds)]
    return [(scale, scales.count(scale)) for scale in dict.fromkeys(scales)]


def _as_run(event: Event, rounds: int) -> Event:
    """The event of so many releases with correlated noise."""
    noise = event.noise
    assert isinstance(noise, Gaussian)
    return replace(event, noise=GaussianRun(noise.std, noise.gap, noise.slack, rounds=rounds))


def _proved(steps: list[float], suits: Callable[[float], bool]) -> float:
    """The first of coarser and coarser steps that suits the sum, and on which the noise has a
    proved in-graph sampler: beside wide noise, coarse steps cost little."""
    if len(steps) == 1:
        return steps[0]
    for step in steps:
        try:
            if suits(step):
                return step
        except ConditionViolated:
            continue
    raise InvalidInput(
        f"no quantization step from {steps[0]:g} to {steps[-1]:g} suits the noise of this budget: "
        "it is too wide or too narrow to be drawn in a compiled program; choose another epsilon "
        "or fewer rounds"
    )


def _opened_std(event: Event, dimension: int, together: float) -> float:
    return event.noise.deviation(dimension) * math.sqrt(together)
