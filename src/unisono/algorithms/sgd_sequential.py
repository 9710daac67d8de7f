"""SGD1: n² steps, one record at a time, in an order that a coordinator drew.

    G_i     = n clip_L(grad l(θ_i; d_π(i))) + N(0, σ² I)           by the owner of record π(i)
    θ_{i+1} = Π_C(θ_i - η_i (G_i + n Δ θ_i)),                      C the ball of radius R

    convex (Δ = 0)           η_i = |C| / sqrt(i (n² L'² + p σ²))      (L' = L + Δ R)
    strongly convex (Δ > 0)  η_i = 1 / (n Δ i);                       the last iterate is returned

Who may be told what. A hidden order protects only against those who do not know it: the
coordinator drew π, so against it there is *no* amplification by sampling, and it might name one
record again and again. Each party therefore enforces a public `uses` (k_max) per record and refuses
further asks: μ = sqrt(k_max) 2 n L / σ against everyone, which is what ledgers are
charged and σ is calibrated to. Refusals depend on π alone. `views` says what would hold against
(a) who knows neither order nor party, (b) who knows a random order, (c) who sees which party works.
The redesign that keeps the amplification against everyone is `dp_sgd_convex`. (Step sizes and last
iterates: Shamir and Zhang 2013.)
"""

import hashlib
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.accounting import hidden_order
from unisono.algorithms.sgd_synchronous import project
from unisono.core.algorithm import Facts, cost_per_viewer
from unisono.core.certificate import certify
from unisono.core.defaults import RELATION
from unisono.core.events import Composed, Event, Gaussian, canonical, positive
from unisono.core.ledger import Ledger
from unisono.core.release import noise_steps
from unisono.core.study import Party, Result, require_same_kind, warn_of_the_promise
from unisono.core.transcript import EVERYONE, Transcript
from unisono.core.trust import SERVER, Relation, Trust, Viewer
from unisono.core.values import clipped_sum, sum_sensitivity
from unisono.errors import InvalidInput
from unisono.mechanisms.gaussian import calibrate
from unisono.problems.losses import loss_named
from unisono.releases.bounds import power_of_two_step as choose_grid

_MOST_RECORDS = 2000


@dataclass(frozen=True)
class Settings:
    """What the parties agree on; `uses` None allows n + 4 sqrt(n), which few records ever need.

    `published` takes σ as it was printed for a hidden order instead of calibrating: what ledgers
    are then charged is its true cost, not `epsilon`.
    """

    epsilon: float
    delta: float
    loss: str = "logistic"
    lipschitz: float = 1.0
    radius: float = 5.0
    strong_convexity: float = 0.0
    uses: int | None = None
    published: bool = False
    relation: Relation = RELATION

    def __post_init__(self) -> None:
        positive(
            epsilon=self.epsilon, delta=self.delta, lipschitz=self.lipschitz, radius=self.radius
        )
        if loss_named(self.loss).name == "multinomial":
            raise InvalidInput("SGD1 learns one vector of parameters: use logistic or squares")
        if self.delta >= 1 or not (
            math.isfinite(self.strong_convexity) and self.strong_convexity >= 0
        ):
            raise InvalidInput(
                f"delta = {self.delta!r} must lie in (0, 1) and strong_convexity = "
                f"{self.strong_convexity!r} be at least 0"
            )
        if self.uses is not None and self.uses < 1:
            raise InvalidInput(f"uses = {self.uses!r}: a record is used at least once")

    def cap(self, facts: Facts) -> int:
        """k_max: how often the owner lets one record be used."""
        n = sum(facts.records)
        return math.ceil(n + 4 * math.sqrt(n)) if self.uses is None else self.uses


def choose_step(settings: Settings, facts: Facts) -> float:
    """Grid of one message, whose clean part is at most n L long."""
    return choose_grid(sum(facts.records) * settings.lipschitz, facts.features, 1)


@lru_cache(maxsize=64)
def use_event(settings: Settings, facts: Facts) -> Event:
    """One use of every record of a party: each record is in one message only (parallel)."""
    if not facts.exact_sizes:
        raise InvalidInput("SGD1 multiplies by the number of records: sizes must be exact")
    n, p, step = sum(facts.records), facts.features, choose_step(settings, facts)
    bound = sum_sensitivity(n * settings.lipschitz, step, p, hides_presence=False)
    if settings.published:
        sigma = hidden_order.published_sigma(
            settings.epsilon, settings.delta, n, settings.lipschitz
        )
        return Event(Gaussian(sigma), bound)
    return calibrate(
        bound, settings.relation, settings.epsilon, settings.delta, count=settings.cap(facts)
    )


@dataclass(frozen=True)
class Agreement:
    """The public part of a run: what a `Study` is to an engine. A coordinator who names a record in
    every step does not fit the rounds of one, but pays, certifies and records like everything else.
    """

    name: str
    settings: Mapping[str, Any]
    facts: Facts
    trust: Trust
    cost: Mapping[Viewer, Composed]

    def __post_init__(self) -> None:
        warn_of_the_promise(self)

    @property
    def algorithm(self) -> "Agreement":
        """Name and settings, where a certificate looks for them."""
        return self

    @property
    def costs(self) -> Sequence[Mapping[Viewer, Composed]]:
        """What the run shows of each party: all pay alike."""
        return [self.cost] * self.facts.parties

    @property
    def hash(self) -> str:
        """What all parties agreed on, in one number."""
        facts = self.facts
        agreed = {
            "algorithm": self.name,
            "settings": dict(self.settings),
            "trust": str(self.trust),
            "records": list(facts.records),
            "features": facts.features,
            "colluders": facts.colluders,
        }
        return hashlib.sha256(canonical(agreed)).hexdigest()


def require_fitting(facts: Facts, columns: Sequence[tuple[np.ndarray, ...]]) -> None:
    """Refuse data whose shapes are not the public ones."""
    for index, ((features, labels), promised) in enumerate(
        zip(columns, facts.records, strict=True)
    ):
        rows, width = np.shape(features)
        if rows != promised or width != facts.features or np.shape(labels) != (rows,):
            raise InvalidInput(
                f"party {index} holds {rows} records of {width} features and labels of shape "
                f"{np.shape(labels)}; agreed were {promised} of {facts.features}: agree on the "
                "public sizes first"
            )


def agreement(settings: Settings, facts: Facts) -> Agreement:
    """Every viewer is charged the capped cost, k_max uses: the coordinator knows the order."""
    event, uses = use_event(settings, facts), settings.cap(facts)
    cost = cost_per_viewer(event, uses, facts, Trust.LOCAL)
    stated = {**asdict(settings), "uses": uses, "sigma": _std(event)}
    return Agreement("sgd-sequential", stated, facts, Trust.LOCAL, cost)


def views(settings: Settings, facts: Facts) -> dict[str, float]:
    """Epsilon at delta against each viewer, replace-one; all but `capped` believe that the order
    was drawn uniformly, and (a), (c) that it stays hidden."""
    n, sigma = sum(facts.records), _std(use_event(settings, facts))
    delta = settings.delta
    # The clip of a message is exceeded by float error and rounding: charge them here too.
    bound = use_event(settings, facts).sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
    clip = bound / (2 * n)
    mu = hidden_order.capped_mu(settings.cap(facts), n, clip, sigma)
    each = {
        hidden_order.visible_parties_epsilon(delta, n, size, clip, sigma)
        for size in set(facts.records)
    }
    return {
        "hidden-order": hidden_order.without_order_epsilon(delta, n, clip, sigma),
        "known-order": hidden_order.known_order_epsilon(delta, n, clip, sigma),
        "visible-party": max(each),
        "capped": hidden_order.gaussian.epsilon(delta, mu),
    }


def run_sgd_sequential(
    settings: Settings,
    parties: Sequence[Party],
    facts: Facts,
    *,
    order: np.ndarray | None = None,
    order_seed: int | None = None,
) -> Result:
    """Run SGD1; `order` (steps,) names records 0 .. n-1 in the parties' order of holding them.

    Without an order the coordinator draws n² names uniformly, from OS entropy or `order_seed`.
    Trust: LOCAL only (every owner adds all of its noise). For at most 2,000 records in all.
    """
    n = sum(facts.records)
    if n > _MOST_RECORDS:
        raise InvalidInput(
            f"{n} records mean {n}² steps: SGD1 is for at most {_MOST_RECORDS}; use dp_sgd_convex"
        )
    names = draw_order(n, order_seed) if order is None else require_order(order, n)
    agreed, event = agreement(settings, facts), use_event(settings, facts)
    step, uses = choose_step(settings, facts), settings.cap(facts)
    require_same_kind(agreed, parties)  # type: ignore[arg-type]
    ledgers = [party.ledger for party in parties]
    grants = Ledger.authorize_all(ledgers, agreed.cost, uses, f"study {agreed.hash[:16]}")
    columns = [party.data.open(grant) for party, grant in zip(parties, grants, strict=True)]
    require_fitting(facts, columns)
    noise = np.empty((uses, n, facts.features), np.int32)
    place = 0
    for grant, size in zip(grants, facts.records, strict=True):
        for use in range(uses):
            key = grant.draw(use, agreed.hash.encode()).take(event)
            shape = (size, facts.features)
            noise[use, place : place + size] = noise_steps(
                key, event, step, shape, 1, (facts.features,)
            )
        place += size
    which = times_used_before(names)
    allowed = which < uses
    rows = np.concatenate([np.asarray(c[0], np.float32) for c in columns])
    labels = np.concatenate([np.asarray(c[1], np.float32) for c in columns])
    value, iterates, messages = _steps(
        rows,
        labels,
        names,
        noise[np.minimum(which, uses - 1), names],
        allowed,
        settings=settings,
        variance=_std(event) ** 2,
        grid=step,
    )
    transcript = Transcript()
    transcript.record(0, "order", names, frozenset({SERVER}))
    transcript.record(0, "refused", ~allowed, frozenset({SERVER}))
    transcript.record(0, "messages", np.asarray(messages), EVERYONE)
    transcript.record(0, "iterates", np.asarray(iterates), EVERYONE)
    books = {party.name: party.ledger for party in parties}
    certificate = certify(agreed, books, ledgers[0].accountant)
    return Result(np.asarray(value), certificate, transcript)


def draw_order(records: int, seed: int | None = None) -> np.ndarray:
    """The coordinator's π: n² names, uniform."""
    generator = np.random.default_rng(secrets.randbits(128) if seed is None else seed)
    return generator.integers(0, records, records**2)


def require_order(order: np.ndarray, records: int) -> np.ndarray:
    """Refuse names of records that do not exist."""
    names = np.asarray(order)
    if names.ndim != 1 or names.dtype.kind not in "iu" or not len(names):
        raise InvalidInput(f"an order is a list of whole numbers, not shape {names.shape}")
    if names.min() < 0 or names.max() >= records:
        raise InvalidInput(f"the order names records outside 0 .. {records - 1}")
    return names


def times_used_before(names: np.ndarray) -> np.ndarray:
    """How often each step's record was named before it: what its owner counts.

    >>> times_used_before(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    by_record = np.argsort(names, kind="stable")
    ordered = names[by_record]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    starts = np.maximum.accumulate(np.where(first, np.arange(len(names)), 0))
    counts = np.empty(len(names), np.int64)
    counts[by_record] = np.arange(len(names)) - starts
    return counts


@partial(jax.jit, static_argnames=("settings", "variance", "grid"))
def _steps(
    rows: Any,
    labels: Any,
    names: Any,
    noise: Any,
    allowed: Any,
    *,
    settings: Settings,
    variance: float,
    grid: float,
) -> Any:
    """All steps in one compiled scan: (θ, every θ_i, every message in grid steps)."""
    loss, bend = loss_named(settings.loss), settings.strong_convexity
    n, p = rows.shape
    steep = settings.lipschitz + bend * settings.radius
    scale = 2 * settings.radius / math.sqrt((n * steep) ** 2 + p * variance)

    def step(parameters: Any, inputs: Any) -> Any:
        name, steps_of_noise, permitted, number = inputs
        gradient = loss.gradients(parameters, rows[name][None], labels[name][None])
        clean = clipped_sum(n * gradient, n * settings.lipschitz, grid, hides_presence=False)
        message = jnp.where(permitted, clean.value + steps_of_noise, 0)
        rate = 1.0 / (n * bend * number) if bend else scale / jnp.sqrt(number)
        move = message * grid + n * bend * parameters
        after = project(parameters - rate * move, settings.radius)
        after = jnp.where(permitted, after, parameters)
        return after, (after, message)

    numbers = jnp.arange(1, len(names) + 1, dtype=jnp.float32)
    start = jnp.zeros(p, jnp.float32)
    value, (iterates, messages) = jax.lax.scan(step, start, (names, noise, allowed, numbers))
    return value, iterates, messages


def _std(event: Event) -> float:
    assert isinstance(event.noise, Gaussian)
    return event.noise.std
