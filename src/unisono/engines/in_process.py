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
import numpy as np

from unisono.core.certificate import certify
from unisono.core.study import Party, Result, Study
from unisono.core.transcript import EVERYONE_AT_THE_END
from unisono.core.trust import Trust
from unisono.engines.driver import drive
from unisono.engines.payments import local_costs
from unisono.engines.requirements import require_public_state

IDEAL = "ideal functionality inside one process (no network, nobody to hide from)"


def run(
    study: Study,
    parties: Sequence[Party],
    *,
    dropouts: np.ndarray | None = None,
    order: np.ndarray | None = None,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[int, Any], None] | None = None,
    checkpoint: str | Path | None = None,
    purpose: str = "",
) -> Result:
    """Run a study: authorise at every party, then read the data, then learn (see `driver`).

    `dropouts` (rounds, parties) is true where a party fails to answer. `order` (rounds,) is that of
    a coordinator who names records 0 .. n-1; it is drawn where none is given. With a `checkpoint`
    file the run is paid for piece by piece and can go on after a crash. After every piece
    `progress` gets the number of rounds done, and `watch` also the result so far, which makes
    whoever watches a viewer of iterates. Ledgers name the study by its hash, with the `purpose`
    before it, if any.
    """
    algorithm, name = study.algorithm, None
    if checkpoint is not None:
        require_public_state(study, algorithm.init(study.facts)[1])
        name = f"study {study.hash[:32]}"

    def follow(done: int, server: Any, words: str) -> None:
        if progress is not None:
            progress(done)
        if watch is not None:
            watch(done, jax.tree.map(np.asarray, algorithm.result(server)))

    place = None if checkpoint is None else Path(checkpoint)
    found = drive(
        study,
        parties,
        name,
        checkpoint=place,
        dropouts=dropouts,
        order=order,
        watch=follow,
        purpose=purpose,
    )
    found.transcript.record(algorithm.rounds, "result", found.value, EVERYONE_AT_THE_END)
    ledgers = [party.ledger for party in parties]
    certificate = certify(
        study,
        {party.name: party.ledger for party in parties},
        ledgers[0].accountant,
        secure_sum=IDEAL if study.trust is Trust.SECURE_SUM else "",
        costs=local_costs(study, study.costs, ledgers),
    )
    return Result(found.value, certificate, found.transcript)
