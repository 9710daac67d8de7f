"""DP-FTRL by banded matrix factorisation, for any loss: where who takes part cannot be hidden.

Nothing is sampled. A party's places are dealt to s batches (place i to batch i mod s), and round t
uses batch t mod s: a record takes part every s rounds, and everybody may know when. Instead of
hiding the record among coins, the noise of rounds is correlated, so that it cancels in the sums of
gradients that a model consists of (`accounting.matrix_mechanism`). In round t a party sends

    y_t = G_t + round(Σ_{0<j<b} c_j G_{t-j}) + z_t,    G_t = Σ over the batch of clip(grad l(θ_t))

of its clean sums, with fresh z_t ~ N(0, σ² I), and the server reads, as post-processing,

    g_t = y_t - Σ_{0<j<b} c_j g_{t-j}           so that  g = G + C⁻¹ (z + rounding errors)

Unit: one record. Sampler: none. The whole run is one Gaussian release (Denisov et al. 2022) of

    sensitivity   Δ ||Σ_n c shifted by n s||  +  grid sqrt(d min(T, k (b-1)))

for records that move a sum by Δ and have k = ceil(T / s) turns. Coefficients are multiples of 2^-12
and sums integers, so that the bracket is rounded exactly, and two worlds differ in each of d
coordinates by one grid step more at most, in rounds where an *earlier* sum differs.

Hidden sizes. Batches go by places, whose number is public, and records beyond it are left out. One
that comes may then stand in another one's place: under add-or-remove the claim is that of a
replaced record, twice the distance of one that is zeroed out.

Dropouts. A party goes by a clock of its own, which ticks with every message that it makes and jumps
to the server's count of rounds if that is ahead; it never stands or goes back. The clock alone
decides the batch and how old a sum is; after its T-th tick a party sends noise only. A sum that was
not counted is forgotten, for the server does not know it either. So, whatever is opened, lost or
told by the server, the messages are rows of a matrix with the entries of C or zeros in their place:
C' <= C, and the claim stands. The price is paid in accuracy: what a missing party remembers is
missing from one sum, and after a round that was not opened what parties remember is a round older
than the server thinks; both fade as noise does.
"""

import math
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.accounting import matrix_mechanism as matrix
from unisono.algorithms import dp_sgd
from unisono.algorithms.clipping import Clipping, clipped_sum
from unisono.algorithms.optimise import Problem, agreed, planned
from unisono.core.algorithm import Aggregate, Algorithm, Facts
from unisono.core.defaults import RELATION
from unisono.core.events import Event, GaussianRun, Sensitivity, bounded_sum, positive
from unisono.core.trust import Relation, Trust
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate

# Coefficients are multiples of 2^-12: with sums below 2^31 steps all arithmetic is exact in 32 bits
# as long as the coefficients add up to less than 2^7.
_BITS = 12
_UNIT = 2**_BITS
# Rounding to the grid adds about this part to the sensitivity.
_GRID_SHARE = 1 / 128
# Float64 norms of a few thousand coefficients are good to far less than this.
_ROUND_UP = 1 + 1e-12


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `epsilon` and `delta` hold for the whole run.

    A record takes part every `separation` rounds. Parties remember their sums of `bands` - 1 rounds
    (1 band: independent noise). Coefficients are `optimised`, or the truncated square root, for
    iterates that add up gradients with this `momentum`, that of the optimizer. `averaged` is the
    last part of the rounds whose iterates are averaged, `decay` that of a moving average.
    """

    epsilon: float
    delta: float
    rounds: int = 1000
    separation: int = 100
    bands: int = 32
    optimised: bool = True
    momentum: float = 0.0
    clipping: Clipping = field(default_factory=Clipping)
    averaged: float = 0.0
    decay: float = 0.0
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        positive(separation=self.separation, bands=self.bands)
        if self.plain.rounds < self.bands:
            raise InvalidInput(
                f"bands = {self.bands} of {self.rounds} rounds: nothing older than the run is "
                "remembered; use fewer bands"
            )

    @property
    def plain(self) -> dp_sgd.Settings:
        """What DP-SGD would do with the same gradients."""
        return dp_sgd.Settings(
            self.epsilon, self.delta, self.rounds, 1 / self.separation, self.clipping,
            self.averaged, self.decay, relation=self.relation,
        )  # fmt: skip

    def coefficients(self) -> np.ndarray:
        """c in steps of 2^-12: integers that begin with 2^12 and never rise, up to the last that is
        not 0."""
        if self.optimised:
            found = matrix.optimised(self.bands, self.rounds, self.separation, self.momentum)
        else:
            found = matrix.square_root(self.bands, self.momentum)
        steps = np.trim_zeros(np.round(found * _UNIT).astype(np.int32))
        if steps.sum() >= 2 ** (31 - _BITS):
            raise InvalidInput(
                f"{self.bands} coefficients add up to {found.sum():.0f}, and 32-bit sums bear less "
                f"than {2 ** (31 - 2 * _BITS)}: use fewer bands or less momentum"
            )
        return steps


class Public(NamedTuple):
    """What everybody sees: the model, the bounds of gradients, and how many rounds were opened."""

    parameters: Any
    bounds: Any
    round: Any


class PartyState(NamedTuple):
    """A party's clock, and its clean sums of one, two, ... ticks before (bands - 1, d): private."""

    clock: Any
    sums: Any


class State(NamedTuple):
    """The server's: the model as in DP-SGD, and the last sums that it read (bands - 1, d)."""

    model: dp_sgd.State
    read: Any


def dp_ftrl(settings: Settings, problem: Problem, optimizer: Any) -> Algorithm:
    """The algorithm for a problem and an optax optimizer; every trust."""
    plan, clipping = planned(problem), settings.clipping
    plain_settings = settings.plain
    plain = dp_sgd.dp_sgd(plain_settings, problem, optimizer)
    dimension = clipping.length(plan)
    steps = settings.coefficients()
    coefficients, memory = steps / _UNIT, len(steps) - 1

    def grid(facts: Facts, trust: Trust | None = None) -> float:
        fine = _GRID_SHARE / math.sqrt(dimension * len(steps))
        coarse = 8 * reach(facts) / 2**31
        exponent = math.log2(max(fine, coarse))
        return 2.0 ** (math.floor(exponent) if fine >= coarse else math.ceil(exponent))

    def reach(facts: Facts) -> float:
        records = facts.parties * batch_size(settings, facts)
        return 1.01 * max(1.0, clipping.gauge) * records * float(coefficients.sum())

    def sensitivity(facts: Facts) -> Sensitivity:
        """How far one record moves all messages of a run together."""
        once = clipping.sensitivity(plan, grid(facts), hides_presence=False)
        pattern = matrix.sensitivity(coefficients, settings.rounds, settings.separation)
        turns = matrix.turns(settings.rounds, settings.separation)
        rounded = grid(facts) * math.sqrt(dimension * min(settings.rounds, turns * memory))
        norm = once.under(Relation.ZERO_OUT).in_norm("l2") * pattern * _ROUND_UP + rounded
        bound = bounded_sum(l2=norm, hides_presence=False)
        # Records that find no place are left out: one that comes may take another one's.
        return bound if facts.exact_sizes else replace(bound, add_or_remove=bound.replace_one)

    @lru_cache(maxsize=16)
    def event(facts: Facts, trust: Trust) -> Event:
        # One event of `rounds` releases: calibrated as one release of as many coordinates.
        ideal = calibrate(
            sensitivity(facts), settings.relation, settings.epsilon, settings.delta,
            dimension=settings.rounds * dimension, grid=grid(facts),
            in_graph=plain_settings.in_graph,
            shares=facts.honest if trust is Trust.SECURE_SUM else 1,
        )  # fmt: skip
        return replace(ideal, noise=GaussianRun(**asdict(ideal.noise), rounds=settings.rounds))

    def local(
        facts: Facts, public: Public, party: PartyState, data: Any, mask: Any
    ) -> tuple[PartyState, Contribution]:
        clock = jnp.maximum(party.clock, jnp.clip(public.round, 0, settings.rounds))
        sums = _older(party.sums, clock - party.clock, clock < settings.rounds)
        batch, chosen = in_turn(settings, facts, clock, data, mask)
        total = clipped_sum(
            plan, clipping, public.parameters, public.bounds, batch, chosen, grid(facts),
            not facts.exact_sizes,
        ).value  # fmt: skip
        value = total + remembered(steps[1:], sums)
        after = PartyState(clock + 1, jnp.concatenate([total[None], sums])[:memory])
        return after, Contribution(
            value, grid(facts), sensitivity(facts), run=settings.rounds, maker=_BOUNDED_ONLY
        )

    def settle(party: PartyState, accepted: Any) -> PartyState:
        newest = jnp.where(accepted, party.sums[:1], 0)
        return PartyState(party.clock, jnp.concatenate([newest, party.sums[1:]]))

    def init(facts: Facts) -> tuple[State, PartyState]:
        if settings.separation > facts.places:
            raise InvalidInput(
                f"separation = {settings.separation} where parties have {facts.places} places: "
                "there are not as many batches; use a smaller separation"
            )
        model, _ = plain.init(facts)
        shape = (memory, dimension)
        party = PartyState(jnp.int32(0), jnp.zeros(shape, jnp.int32))
        return State(model, jnp.zeros(shape, jnp.float32)), party

    def ask(state: State) -> Public:
        return Public(state.model.parameters, state.model.bounds, state.model.round)

    def merge(state: State, aggregate: Aggregate) -> State:
        total = aggregate.total - jnp.float32(coefficients[1:]) @ state.read
        model = plain.merge(state.model, aggregate._replace(total=total))
        return State(model, jnp.concatenate([total[None], state.read])[:memory])

    return Algorithm(
        name="dp-ftrl",
        settings={**asdict(settings), **agreed(problem, optimizer), "coefficients": steps.tolist()},
        trusts=frozenset(Trust),
        combine="sum",
        rounds=settings.rounds,
        grid=grid,
        event=event,
        init=init,
        ask=ask,
        local=local,
        settle=settle,
        merge=merge,
        result=lambda state: plain.result(state.model),
        reach=reach,
        # All places reach the party's function, which takes its batch by its own clock.
        batch=lambda facts: facts.places,
        rows=lambda facts, number: np.arange(facts.places, dtype=np.int32),
    )


def batch_size(settings: Settings, facts: Facts) -> int:
    """How many places a batch has; the last ones may be beyond the end."""
    return -(-facts.places // settings.separation)


def in_turn(settings: Settings, facts: Facts, clock: Any, data: Any, mask: Any) -> tuple[Any, Any]:
    """The batch of a tick of the clock, and which of its rows count: none once the run is over."""
    size = batch_size(settings, facts)
    places = clock % settings.separation + settings.separation * jnp.arange(size)
    chosen = jnp.take(mask, places, mode="clip") & (places < facts.places)
    batch = jax.tree.map(lambda column: jnp.take(column, places, axis=0, mode="clip"), data)
    return batch, chosen & (clock < settings.rounds)


def remembered(steps: Any, sums: Any) -> Any:
    """round(Σ_j c_j G_j), exactly, for coefficients in steps of 2^-12 and sums (bands - 1, d).

    G = 2^12 high + low with 0 <= low < 2^12, so that c_j G = steps_j high + steps_j low / 2^12.
    """
    weights = jnp.asarray(steps, jnp.int32)[:, None]
    high = jnp.sum(weights * (sums >> _BITS), axis=0, dtype=jnp.int32)
    low = jnp.sum(weights * (sums & (_UNIT - 1)), axis=0, dtype=jnp.int32)
    return high + ((low + _UNIT // 2) >> _BITS)


def _older(sums: Any, ticks: Any, running: Any) -> Any:
    """Sums after so many ticks more, in which the party did nothing; none once the run is over."""
    places = jnp.arange(sums.shape[0]) - ticks
    kept = (places >= 0) & running
    return jnp.where(kept[:, None], jnp.take(sums, places, axis=0, mode="clip"), 0)
