"""What must hold before a study runs, on whatever engine, by public facts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Inner
from unisono.core.events import Event
from unisono.core.in_graph import require_error_paid
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.releases.release import MODULUS_BITS, fits, sum_reach


def require_begun(study: Study) -> None:
    """Refuse a study that waits for what an earlier stage releases."""
    if study.algorithm.begin is not None:
        raise InvalidInput(
            f"{study.algorithm.name} begins with what an earlier stage of the study releases: "
            "run it from a study file, which runs both, or give its result to `Study.begun`"
        )


def require_headroom(study: Study) -> None:
    """The sum of all contributions and noises must fit the modulus, by public bounds.

    A sum that wraps around is useless, not unsafe: all arithmetic is modulo 2^32.
    """
    facts, trust, algorithm = study.facts, study.trust, study.algorithm
    grid = algorithm.grid(facts, trust)
    reach = sum_reach(algorithm.reach(facts), algorithm.events(facts, trust), facts, trust)
    if not fits(reach, grid):
        raise InvalidInput(
            f"sums may reach {reach / grid:.3g} grid steps, beyond a {MODULUS_BITS}-bit modulus: "
            "use a coarser grid, a smaller clip or fewer records"
        )


def require_public_state(study: Study, state: Any) -> None:
    """Refuse to write down a party's state that was made from its records."""
    if jax.tree.leaves(state) and study.algorithm.inner is None:
        raise InvalidInput(
            f"parties of {study.algorithm.name} remember values without noise, which must not be "
            "written to disk: run it without a checkpoint"
        )
    if not study.algorithm.alike:
        raise InvalidInput(
            "a checkpoint of a study in which parties take turns, or pay differently, is not "
            "offered: run it without"
        )


def drawn_in_graph(study: Study) -> bool:
    """Whether noise is drawn inside the compiled program: its events carry a sampler's error."""
    return bool(getattr(study.algorithm.event(study.facts, study.trust).noise, "slack", 0.0))


def require_sampler_error(study: Study, event: Event, dimension: int) -> None:
    """Refuse an event whose in-graph noise was accounted for another dimension or fewer steps."""
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    if drawn_in_graph(study):
        shares = facts.honest if trust is Trust.SECURE_SUM else 1
        steps = facts.attempts(algorithm.rounds) * algorithm.steps
        require_error_paid(event, algorithm.grid(facts, trust), dimension, steps, shares)


def asked(study: Study) -> np.ndarray:
    """Who is asked when: (rounds, parties); nobody knows it of records that are yet to be named."""
    if study.algorithm.named is not None:
        raise InvalidInput(
            f"who is asked in {study.algorithm.name} follows from an order that a coordinator draws"
        )
    if study.algorithm.schedule is None:
        return np.ones((study.algorithm.rounds, study.facts.parties), bool)
    return np.asarray(study.algorithm.schedule(study.facts).asked, bool)


def rounded_report(inner: Inner, state: Any) -> Any:
    """A party's report in grid steps, kept inside 32 bits; a number that is not finite is 0."""
    report = jnp.clip(inner.report(state), -inner.reach, inner.reach)
    return jnp.round(jnp.nan_to_num(report) / inner.grid).astype(jnp.int32)
