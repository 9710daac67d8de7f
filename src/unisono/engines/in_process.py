"""All parties in one process: vmapped over parties, scanned over rounds.

Ragged data are padded with rows whose mask is off, which contribute exactly zero. Noise is
drawn outside the compiled program, by the same exact integer samplers as everywhere, and
handed in as an argument; records are arguments too, so no compiled program holds data. The
secure sum is the ideal functionality: same encoding, shares and modulus as the protocol.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Algorithm
from unisono.core.certificate import certify
from unisono.core.costs import Cost
from unisono.core.grant import Grant, join
from unisono.core.ledger import Ledger
from unisono.core.study import Party, Result, Study, require_same_kind
from unisono.core.transcript import EVERYONE, EVERYONE_AT_THE_END, Transcript
from unisono.core.trust import SERVER, Trust
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.chunks import JOINT_PARTIES, Chunk, pieces
from unisono.engines.requirements import require_columns, require_public_state
from unisono.engines.rounds import seen_at_first, stack
from unisono.errors import InvalidInput

IDEAL = "ideal functionality inside one process (no network, nobody to hide from)"


def run(
    study: Study, parties: Sequence[Party], *, dropouts: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[int, Any], None] | None = None, checkpoint: str | Path | None = None,
) -> Result:  # fmt: skip
    """Run a study: authorise at every party, then read the data, then learn.

    `dropouts` (rounds, parties) is true where a party fails to answer; a round that keeps
    fewer than the agreed minimum of survivors is not opened and leaves the model unchanged.
    With a `checkpoint` file the run authorises chunk by chunk and can be resumed after a
    crash: a chunk that was granted and not merged stays spent and gets fresh noise.

    After every chunk `progress` gets the number of rounds done, and `watch` also the result so far,
    which makes whoever watches a viewer of iterates.
    """
    require_same_kind(study, parties)
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    ledgers = [party.ledger for party in parties]
    server, state = algorithm.init(facts)
    states = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * facts.parties), state)
    saved = Checkpoint(checkpoint, study.hash) if checkpoint else None
    if saved:
        require_public_state(study, state)
        if facts.retries:
            raise InvalidInput("nothing is tried again in one process: set retries to 0")
    first = 0
    if saved and saved.exists():
        first, (server, states) = saved.load((server, states))
    todo = range(first, algorithm.rounds)
    alive = _alive(study, dropouts)
    transcript = Transcript()
    chunk: Chunk | None = None
    if todo:
        _check(study, ledgers, todo)
    for payment in pieces(study, todo) if saved else [todo] if todo else []:
        grants = _authorize(study, ledgers, payment)
        if chunk is None:
            columns = [p.open(grant) for p, grant in zip(parties, grants, strict=True)]
            for index, own in enumerate(columns):
                require_columns(study, index, own)
            chunk = Chunk(study, stack(study, columns, grants), alive, ledgers[0].seed)
            held = seen_at_first(study, server)
        many = algorithm.alike and len(grants) > JOINT_PARTIES
        joint = [join(grants)] if many else grants
        for rounds in pieces(study, payment):
            carry, seen = chunk.run((server, states, held), joint, payment.start, rounds)
            server, states, held = carry
            _record(transcript, trust, rounds, seen)
            if saved:
                saved.save(rounds.stop, (server, states))
            if progress is not None:
                progress(rounds.stop)
            if watch is not None:
                watch(rounds.stop, _result(algorithm, server))
    value = _result(algorithm, server)
    transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
    certificate = certify(
        study, {party.name: party.ledger for party in parties}, ledgers[0].accountant,
        secure_sum=IDEAL if trust is Trust.SECURE_SUM else "",
    )  # fmt: skip
    return Result(value, certificate, transcript)


def _result(algorithm: Algorithm, server: Any) -> Any:
    return jax.tree.map(np.asarray, algorithm.result(server))


def _check(study: Study, ledgers: Sequence[Ledger], todo: range) -> None:
    """Refuse before anything is spent if one party cannot pay for all that is left."""
    if study.algorithm.alike:
        Ledger.check_all(ledgers, _cost(study, todo))
        return
    for ledger, cost in zip(ledgers, study.costs, strict=True):
        ledger.check(cost)


def _authorize(study: Study, ledgers: Sequence[Ledger], rounds: range) -> list[Grant]:
    """One grant for each party: for these rounds, or for its own turns in the whole run."""
    algorithm, facts = study.algorithm, study.facts
    purpose = f"study {study.hash[:16]}"
    if algorithm.alike:
        return Ledger.authorize_all(
            ledgers, _cost(study, rounds), len(rounds) * algorithm.draws, purpose
        )
    return [
        ledger.authorize(cost, algorithm.turns(facts, party) * algorithm.draws, purpose)
        for party, (ledger, cost) in enumerate(zip(ledgers, study.costs, strict=True))
    ]


def _cost(study: Study, rounds: range) -> Cost:
    """What these rounds cost; a whole run includes its retries, as on every engine."""
    whole = len(rounds) == study.algorithm.rounds
    return study.algorithm.cost(study.facts, study.trust, None if whole else len(rounds))


def _alive(study: Study, dropouts: np.ndarray | None) -> np.ndarray:
    alive = np.ones((study.algorithm.rounds, study.facts.parties), bool)
    if dropouts is None:
        return alive
    if np.shape(dropouts) != alive.shape:
        raise InvalidInput(
            f"dropouts of shape {np.shape(dropouts)} where the study has {alive.shape}: "
            "give one row per round and one column per party"
        )
    return ~np.asarray(dropouts, bool)


def _record(transcript: Transcript, trust: Trust, rounds: range, seen: Any) -> None:
    if seen is None:  # too much to keep
        return
    publics, values, totals = jax.tree.map(np.asarray, seen)
    for row, number in enumerate(rounds):
        public = jax.tree.map(lambda leaf, r=row: leaf[r], publics)
        transcript.record(number, "public", public, EVERYONE)
        if values is not None:
            transcript.record(number, "messages", values[row], frozenset({SERVER}))
        transcript.record(number, "sum", totals[row], EVERYONE)
