"""Sums of clipped gradients under correlated noise, by a banded matrix: nothing is sampled.

A party's places are dealt to s batches (place i to batch i mod s), and round t uses batch t mod s:
a record takes part every s rounds, and everybody may know when. Instead of hiding the record in a
sample, the noise of rounds is correlated, so that it cancels in the sums of gradients that a model
consists of (`accounting.matrix_mechanism`). In round t a party sends

    y_t = G_t + round(Σ_{0<j<b} c_j G_{t-j}) + z_t,    G_t = Σ over the batch of clip(grad l(θ_t))

of its clean sums, with fresh z_t ~ N(0, σ² I), and the server reads, as post-processing,

    g_t = y_t - Σ_{0<j<b} c_j g_{t-j}           so that  g = G + C⁻¹ (z + rounding errors)

Clock, memory of clean sums and decorrelation belong to the release (`with_memory`): an algorithm
sees batches and noisy sums, as if noise were independent.

Unit: one record. Sampler: none. The whole run is one Gaussian release (Denisov et al. 2022) of

    sensitivity   Δ ||Σ_n c shifted by n s||  +  step sqrt(d min(T, k (b-1)))

for records that move a sum by Δ and have k = ceil(T / s) turns (Choquette-Choo et al. 2023).
Coefficients are multiples of 2^-12 and sums integers, so that the bracket is rounded exactly, and
two worlds differ in each of d coordinates by one quantization step more at most, in rounds where an
*earlier* sum differs.

Hidden sizes. Batches go by places, whose number is public, and records beyond it are left out. One
that comes may then stand in another one's place: under add-or-remove the claim is that of a
replaced record, twice the distance of one that is zeroed out.

Dropouts. A party goes by a clock, which is the number of the round: a party answers each round
once, and none before its last, so that the clock never stands or goes back. It alone decides the
batch and how old a sum is. No word of the server moves it but the number of the round, which masks
of a secure aggregation cover: a server cannot put some parties' clocks forward. A sum that was not
counted is forgotten, for the server does not know it either. So, whatever is opened, lost or told
by the server, the messages are rows of a matrix with the entries of C or zeros in their place:
C' <= C, and the claim stands. The price is paid in accuracy: what a missing party remembers is
missing from one sum, and after a round that was not opened what parties remember is a round older
than the server thinks; both fade as noise does.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.accounting import matrix_mechanism as matrix
from unisono.core import algorithm as engine
from unisono.core.algorithm import Aggregate, Facts, SumTerms
from unisono.core.events import bounded_sum
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Distance, Sensitivity, positive
from unisono.core.trust import Relation, Unit
from unisono.core.values import _BOUNDED_ONLY, Contribution
from unisono.errors import InvalidInput
from unisono.releases.blocked_sum import ROUNDING_SHARE, BlockedSum
from unisono.releases.release import Release, terms_of

# Coefficients are multiples of 2^-12: with sums below 2^31 steps all arithmetic is exact in 32 bits
# as long as the coefficients add up to less than 2^7.
_BITS = 12
COEFFICIENT_UNIT = 2**_BITS
# Float64 norms of a few thousand coefficients are good to far less than this.
_ROUND_UP = 1 + 1e-12
_FLOAT_SLACK = 1.01


class PartyMemory(NamedTuple):
    """A party's clock, and its clean sums of one, two, ... ticks before (bands - 1, d): private."""

    clock: Any
    sums: Any


class Remembering(NamedTuple):
    """A party's or the server's state as the algorithm has it, and the release's memory: the
    server's are the last sums that it read (bands - 1, d)."""

    model: Any
    memory: Any


@dataclass(frozen=True)
class BandedSum:
    """The messages y_1, ..., y_T together; `coefficients` c_0, c_1, ... are in units of 2^-12 and
    begin with 2^12. `raw` is that of the sum of one batch."""

    batch: BlockedSum
    coefficients: tuple[int, ...]
    rounds: int
    separation: int
    unit = Unit.RECORD
    whole = False
    batched = False
    in_graph = True
    pure = ""

    def __post_init__(self) -> None:
        positive(rounds=self.rounds, separation=self.separation)
        total = sum(self.coefficients) / COEFFICIENT_UNIT
        if total >= 2 ** (31 - 2 * _BITS):
            raise InvalidInput(
                f"{len(self.coefficients)} coefficients add up to {total:.0f}, and 32-bit sums "
                f"bear less than {2 ** (31 - 2 * _BITS)}: use fewer bands or less momentum"
            )

    @property
    def dimension(self) -> int:
        return self.batch.dimension

    @property
    def memory(self) -> int:
        """How many sums are remembered."""
        return len(self.coefficients) - 1

    @property
    def weights(self) -> np.ndarray:
        """c as numbers."""
        return np.asarray(self.coefficients) / COEFFICIENT_UNIT

    def batch_size(self, facts: Facts) -> int:
        """How many places a batch has; the last ones may be beyond the end."""
        if self.separation > facts.places:
            raise InvalidInput(
                f"separation = {self.separation} where parties have {facts.places} places: there "
                "are not as many batches; use a smaller separation"
            )
        return -(-facts.places // self.separation)

    def steps(self, release: Release, facts: Facts, privacy: Privacy) -> Iterator[float]:
        fine = ROUNDING_SHARE / math.sqrt(self.dimension * len(self.coefficients))
        coarse = 8 * self.sum_bound(release, facts, privacy) / 2**31
        exponent = math.log2(max(fine, coarse))
        yield 2.0 ** (math.floor(exponent) if fine >= coarse else math.ceil(exponent))

    def sensitivity(self, facts: Facts, privacy: Privacy, step: float) -> Sensitivity:
        """How far one record moves all messages of a run together."""
        clipping, plan = self.batch.clipping, self.batch.plan
        once = clipping.sensitivity(plan, step, hides_presence=False)
        pattern = matrix.sensitivity(self.weights, self.rounds, self.separation)
        turns = matrix.turns(self.rounds, self.separation)
        rounded = step * math.sqrt(self.dimension * min(self.rounds, turns * self.memory))
        norm = once.under(Relation.ZERO_OUT).in_norm("l2") * pattern * _ROUND_UP + rounded
        bound = bounded_sum(l2=norm, hides_presence=False)
        # Records that find no place are left out: one that comes may take another one's.
        return bound if facts.exact_sizes else replace(bound, add_or_remove=bound.replace_one)

    def sum_bound(self, release: Release, facts: Facts, privacy: Privacy) -> float:
        records = facts.parties * self.batch_size(facts)
        largest = max(1.0, self.batch.clipping.gauge)
        return _FLOAT_SLACK * largest * records * float(self.weights.sum())

    def terms(self, facts: Facts, privacy: Privacy, step: float) -> SumTerms:
        """A batch's records, each once for every coefficient; what is remembered is rounded."""
        once = self.batch.clipping.sensitivity(self.batch.plan, step, hides_presence=False)
        record = once.under(Relation.ZERO_OUT).in_norm("l2") * float(np.abs(self.weights).sum())
        length = record + step * math.sqrt(self.dimension)
        return terms_of([self.batch_size(facts)] * facts.parties, Distance(l2=length), step)

    def integers(
        self, facts: Facts, privacy: Privacy, step: float, raw: Any, mask: Any
    ) -> tuple[Contribution, None]:
        """G_t alone, which no event of a run pays for: `message` adds what is remembered."""
        return self.batch.integers(facts, privacy, step, raw, mask)

    def in_turn(self, facts: Facts, clock: Any, data: Any, mask: Any) -> tuple[Any, Any]:
        """The batch of a tick of the clock, and which of its rows count: none after the run."""
        places = clock % self.separation + self.separation * jnp.arange(self.batch_size(facts))
        chosen = jnp.take(mask, places, mode="clip") & (places < facts.places)
        batch = jax.tree.map(lambda column: jnp.take(column, places, axis=0, mode="clip"), data)
        return batch, chosen & (clock < self.rounds)

    def ticked(self, memory: PartyMemory, number: Any) -> PartyMemory:
        """The memory in a round: the clock, and how old sums are by it; none after the run."""
        clock = jnp.maximum(memory.clock, jnp.clip(number, 0, self.rounds))
        ages = jnp.arange(self.memory) - (clock - memory.clock)
        kept = (ages >= 0) & (clock < self.rounds)
        sums = jnp.take(memory.sums, ages, axis=0, mode="clip")
        return PartyMemory(clock, jnp.where(kept[:, None], sums, 0))

    def message(
        self, facts: Facts, privacy: Privacy, memory: PartyMemory, total: Contribution
    ) -> tuple[PartyMemory, Contribution]:
        """y_t before its noise, and the memory after it."""
        value = total.value + remembered(self.coefficients[1:], memory.sums)
        sums = jnp.concatenate([total.value[None], memory.sums])[: self.memory]
        claimed = self.sensitivity(facts, privacy, total.grid)
        message = Contribution(value, total.grid, claimed, run=self.rounds, maker=_BOUNDED_ONLY)
        return PartyMemory(memory.clock + 1, sums), message


def remembered(coefficients: Any, sums: Any) -> Any:
    """round(Σ_j c_j G_j), exactly, for coefficients in units of 2^-12 and sums (bands - 1, d).

    G = 2^12 high + low with 0 <= low < 2^12, so that c_j G = c_j high + c_j low / 2^12.
    """
    weights = jnp.asarray(coefficients, jnp.int32)[:, None]
    high = jnp.sum(weights * (sums >> _BITS), axis=0, dtype=jnp.int32)
    low = jnp.sum(weights * (sums & (COEFFICIENT_UNIT - 1)), axis=0, dtype=jnp.int32)
    return high + ((low + COEFFICIENT_UNIT // 2) >> _BITS)


def with_memory(
    algorithm: engine.PricedAlgorithm, bound: BandedSum, facts: Facts, privacy: Privacy
) -> engine.PricedAlgorithm:
    """An algorithm of independent sums whose noise is correlated by this bound."""

    def init(_: Facts) -> tuple[Remembering, Remembering]:
        server, own = algorithm.init(facts)
        shape = (bound.memory, bound.dimension)
        clean = PartyMemory(jnp.int32(0), jnp.zeros(shape, jnp.int32))
        return Remembering(server, jnp.zeros(shape, jnp.float32)), Remembering(own, clean)

    def local(
        _: Facts, public: Any, party: Remembering, data: Any, mask: Any, size: Any = None
    ) -> tuple[Remembering, Contribution]:
        memory = bound.ticked(party.memory, party.memory.clock)  # nothing after the last round
        batch, chosen = bound.in_turn(facts, memory.clock, data, mask)
        own, total = algorithm.local(facts, public, party.model, batch, chosen, size)
        memory, message = bound.message(facts, privacy, memory, total)
        return Remembering(own, memory), message

    def settle(party: Remembering, accepted: Any) -> Remembering:
        clock, sums = party.memory
        newest = jnp.where(accepted, sums[:1], 0)
        memory = PartyMemory(clock, jnp.concatenate([newest, sums[1:]]))
        return Remembering(algorithm.settle(party.model, accepted), memory)

    def merge(state: Remembering, sums: Aggregate) -> Remembering:
        total = sums.total - jnp.float32(bound.weights[1:]) @ state.memory
        model = algorithm.merge(state.model, sums._replace(total=total))
        return Remembering(model, jnp.concatenate([total[None], state.memory])[: bound.memory])

    return algorithm._replace(
        init=init,
        ask=lambda state: algorithm.ask(state.model),
        local=local,
        at_round=lambda own, number: Remembering(own.model, bound.ticked(own.memory, number)),
        settle=settle,
        merge=merge,
        result=lambda state: algorithm.result(state.model),
        # All places reach the party's function, which takes its batch by its own clock.
        batch=lambda _: facts.places,
        rows=lambda _, number: np.arange(facts.places, dtype=np.int32),
    )
