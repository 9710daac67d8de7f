"""Membership on one update, and the audit of the same code: was this record in the batch?

The attacker knows the rest of the victim's batch. With u(c) = send(rest + c) - send(rest + nobody)
and R = seen - send(rest + nobody), both by the public recipe, the score of a candidate c is

    (2 R · u(c) - |u(c)|²) / |R|²          the log-likelihood ratio, up to σ²; 1 for a perfect fit

where what other parties of a secure sum would send is replaced by the gradient of public records.
The naive attacker knows no other record and takes everything for a plain gradient.

The audit asks the same about one extreme record, thousands of times, through the very same
`observe`, and turns the answers into a lower bound on epsilon. Unit one record, its presence
(add-or-remove, for "nobody" sends nothing), one round, viewer the server who knows everything else.
A defence without noise separates the worlds completely: its bound is then as high as that number of
runs can show, and says no more than "no privacy was found".
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.attacks.audit import Audit, audit
from unisono.attacks.defences import Defence
from unisono.attacks.laboratory.testbed import BATCH, NOBODY, Ground, digits
from unisono.attacks.membership import MeasuredMembership, measured
from unisono.attacks.victim import Seen, Victim, as_gradient, sender, visible_mask


class Tested(NamedTuple):
    adaptive: MeasuredMembership
    naive: MeasuredMembership


def tested(ground: Ground, defence: Defence, trials: int, seed: int) -> Tested:
    """Scores of one member and one outsider in each of so many batches."""
    data, generator = digits(), np.random.default_rng([seed, 5])
    public = _mean_gradient(ground)
    scores: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(trials):
        drawn = generator.choice(len(data.held), BATCH + 1, replace=False)
        rows, targets = data.held[drawn], data.held_labels[drawn]
        seen = defence.observe(ground.victim(rows[:BATCH], targets[:BATCH]), generator)
        rest = ground.victim(rows[1:BATCH], targets[1:BATCH])
        candidates = rows[[0, BATCH]], targets[[0, BATCH]]
        scores[True] += list(likelihood_ratios(seen, rest, *candidates, public))
        scores[False] += list(matched_filter(ground, seen, *candidates, public))
    members = np.tile([True, False], trials)
    return Tested(*(measured(scores[adaptive], members) for adaptive in (True, False)))


def likelihood_ratios(
    seen: Seen, rest: Victim, rows: np.ndarray, targets: np.ndarray, public: Any
) -> np.ndarray:
    """The score (n,) of each candidate, for somebody who knows the rest of the batch."""
    send = sender(rest.loss, seen.public)
    masks = _expected_mask(seen, len(rest.rows) + 1)
    parties = seen.public.get("parties", 1)

    def sent(row: np.ndarray, target: Any) -> np.ndarray:
        batch = jnp.asarray(np.vstack([row, rest.rows])), jnp.append(target, rest.targets)
        return _flat(send(rest.parameters, *batch, masks))

    nobody = sent(rows[0], np.float32(NOBODY))
    observed = parties * _flat(seen.update) - (parties - 1) * _flat(public)
    counted = (observed != 0) if "pruned" in seen.public else np.ones(len(observed), bool)
    left = (observed - nobody)[counted]
    moved = [(sent(*one) - nobody)[counted] for one in zip(rows, targets, strict=True)]
    return np.array([(2 * left @ own - own @ own) / (left @ left) for own in moved])


def matched_filter(
    ground: Ground, seen: Seen, rows: np.ndarray, targets: np.ndarray, public: Any
) -> np.ndarray:
    """The score (n,) of each candidate for a naive attacker: the update, less the gradient of
    public records, along the candidate's own gradient."""
    send, left = sender(ground.network.loss, {}), _flat(as_gradient(seen)) - _flat(public)
    own = [
        _flat(send(ground.parameters, jnp.asarray(row[None]), jnp.asarray(target[None])))
        for row, target in zip(rows, targets, strict=True)
    ]
    return np.array([left @ one / np.linalg.norm(one) for one in own])


def audited(
    ground: Ground, defence: Defence, delta: float, runs: int, gaussian: bool, seed: int
) -> Audit:
    """A lower bound on the epsilon of one exchange, from `runs` exchanges in each of two worlds."""
    data, generator = digits(), np.random.default_rng([seed, 6])
    rows, targets = data.held[:BATCH], data.held_labels[:BATCH].copy()
    extreme = np.vstack([np.ones_like(rows[:1]), rows[1:]])  # every pixel at its bound
    inside = ground.victim(extreme, targets)
    outside = ground.victim(extreme, np.append(np.float32(NOBODY), targets[1:]))
    quiet = sender(ground.network.loss, _recipe(defence, inside, generator))
    moved = _flat(quiet(ground.parameters, jnp.asarray(extreme), jnp.asarray(inside.targets)))
    still = _flat(quiet(ground.parameters, jnp.asarray(extreme), jnp.asarray(outside.targets)))

    def scores(world: Victim) -> list[float]:
        seen = (defence.observe(world, generator) for _ in range(runs))
        return [float(_flat(one.update) @ (moved - still)) for one in seen]

    return audit(scores(inside), scores(outside), delta, gaussian=gaussian, seed=seed)


def _recipe(defence: Defence, victim: Victim, generator: np.random.Generator) -> dict[str, Any]:
    """The public recipe without masks: what the record moves on average."""
    public = defence.observe(victim, generator).public
    return {key: value for key, value in public.items() if key not in ("keep", "units", "masks")}


def _expected_mask(seen: Seen, records: int) -> Any:
    """The mask that was read off the update, or what masks are on average where each record has
    its own."""
    if "masks" not in seen.public:
        return None
    visible = visible_mask(seen)
    if seen.public["masks"] == "step":
        return jnp.asarray(visible, jnp.float32)
    return jnp.full((records, len(visible)), seen.public["keep"], jnp.float32)


def _mean_gradient(ground: Ground) -> Any:
    send = sender(ground.network.loss, {})
    return send(ground.parameters, jnp.asarray(ground.rows), jnp.asarray(ground.targets))


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(float)
