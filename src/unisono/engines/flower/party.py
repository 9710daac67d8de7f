"""The party's side on Flower: a `ClientApp` that answers asks out of its own ledger.

The grant is taken when the first ask of the agreed study arrives, before the data are read.
Every failure that depends on the data looks like a dropout on the wire (X-6); details go to
the party's own log.
"""

import logging
from functools import partial
from typing import Any

import jax
import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from unisono.core.grant import Grant
from unisono.core.release import disclose, release, share
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.engines import wire
from unisono.engines.flower.messages import unwrap, wrap
from unisono.engines.requirements import require_columns, require_headroom
from unisono.errors import UnisonoError
from unisono.secagg.ideal import Dealer

log = logging.getLogger("unisono.party")


class Responder:
    """One party in one study: keeps its grant, its state and the last round it answered."""

    def __init__(
        self, study: Study, party: Party, index: int, dealer: Dealer | None, simulation: bool
    ) -> None:
        self.study, self.party, self.index = study, party, index
        self._dealer, self._simulation = dealer, simulation
        self._grant: Grant | None = None
        server, self._state = study.algorithm.init(study.facts)
        self._public = study.algorithm.ask(server)
        require_headroom(study)
        self._local = jax.jit(partial(study.algorithm.local, study.facts))

    def answer(self, data: bytes) -> bytes:
        """Bytes in, bytes out; raises nothing that depends on the data."""
        try:
            return self._answer(data)
        except Exception as error:  # whatever the data provoke must look the same from outside
            log.error("%s: no answer in this round: %s", self.party.name, error)
            return wire.encode("dropout", {"party": self.index})

    def _checked(self, arrays: tuple[np.ndarray, ...]) -> Any:
        """The public state, if it has the shapes and types that were agreed on."""
        expected, structure = jax.tree.flatten(self._public)
        shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in expected]
        if [(a.shape, a.dtype) for a in arrays] != shapes:
            raise UnisonoError("a public state of another shape than the study agreed on")
        return jax.tree.unflatten(structure, arrays)

    def _answer(self, data: bytes) -> bytes:
        packet = wire.decode(data)
        if packet.tag != "ask" or packet.scalars["study"] != self.study.hash:
            raise UnisonoError("an ask for another study than the one agreed on")
        number = int(packet.scalars["round"])
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        if self._grant is None:
            self._grant = self.party.ledger.authorize(
                self.study.cost, algorithm.rounds, purpose=f"study {self.study.hash[:16]}"
            )
        event = algorithm.event(facts, trust)
        draw = self._grant.draw(number, self.study.hash.encode())
        columns = [np.asarray(c, np.float32) for c in self.party.open(draw)]
        require_columns(self.study, self.index, columns)
        coins = draw.sample(algorithm.sampler, len(columns[0]))
        public = self._checked(packet.arrays)
        self._state, contribution = self._local(public, self._state, tuple(columns), coins)
        if not bool(contribution.valid):
            raise UnisonoError("the solver missed the public tolerance")
        value: Any
        match trust:
            case Trust.SECURE_SUM:
                assert self._dealer is not None
                noised = share(draw, contribution, event, facts.honest)
                self.party.ledger.dispatch(noised)
                value = self._dealer.mask(number, self.index, noised)
            case Trust.LOCAL:
                value = release(draw, contribution, event)
                self.party.ledger.dispatch(value)
            case Trust.TRUSTED_SERVER:
                value = disclose(draw, contribution, event)
                self.party.ledger.dispatch(value)
        self._state = algorithm.settle(self._state, True)
        scalars = {"party": self.index, "round": number}
        return wire.encode_value(value, scalars, self._simulation)


def party_app(responder: Responder) -> ClientApp:
    """A Flower app that hands every packet to the responder."""
    app = ClientApp()

    @app.query("unisono")
    def answer(message: Message, context: Context) -> Message:
        return Message(wrap(responder.answer(unwrap(message))), reply_to=message)

    return app
