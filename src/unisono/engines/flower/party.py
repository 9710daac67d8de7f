"""The party's side on Flower: a `ClientApp` that answers asks out of its own ledger.

The grant is taken when the first ask of the agreed study arrives, before the data are read.
Every failure that depends on the data looks like a dropout on the wire (X-6); details go to
the party's own log.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from unisono.core.algorithm import Inner
from unisono.core.events import Event
from unisono.core.grant import Draw, Grant
from unisono.core.release import coins, disclose, post_processed, release, share
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Contribution
from unisono.engines import wire
from unisono.engines.batches import gathered, in_turn, numbered, placed, tossed
from unisono.engines.flower.messages import unwrap, wrap
from unisono.engines.requirements import (
    asked,
    padded_length,
    require_columns,
    require_headroom,
    require_sampler_error,
    rounded_report,
)
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
        algorithm, facts = study.algorithm, study.facts
        server, self._state = algorithm.init(facts)
        self._public = self._held = algorithm.ask(server)
        require_headroom(study)
        self._local, self._absorb = _compiled(_Same(study))
        self._asked = asked(study)[:, index]
        self._stale = algorithm.schedule is not None and algorithm.schedule(facts).stale
        # The state after the last answer, until the server says whether that answer counted.
        self._unsettled: tuple[int, Any, bool] | None = None

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
        self._settle(packet.scalars["counted"])
        if not self._asked[number]:
            return wire.encode("dropout", {"party": self.index})
        public = self._checked(packet.arrays)
        public, self._held = (self._held, public) if self._stale else (public, public)
        if self._grant is None:
            self._grant = self.party.ledger.authorize(
                algorithm.cost(facts, trust, party=self.index),
                algorithm.turns(facts, self.index) * algorithm.steps,
                purpose=f"study {self.study.hash[:16]}",
            )
        first = int(self._asked[:number].sum()) * algorithm.steps
        scalars = {"party": self.index, "round": number}
        if algorithm.inner is not None:
            value: Any = self._noisy_steps(algorithm.inner, self._grant, first, public, number)
        else:
            value = self._one_release(self._grant, first, public, number)
        return wire.encode_value(value, scalars, self._simulation)

    def _settle(self, counted: Sequence[int]) -> None:
        """The state moves on by what the server says became of the last answer: it is public.

        `counted` names, for every party, the last round whose opened sum held its answer.
        """
        if self._unsettled is not None:
            number, after, takes_part = self._unsettled
            accepted = counted[self.index] == number and takes_part
            self._state = self.study.algorithm.settle(after, accepted)
            self._unsettled = None

    def _open(self, draw: Draw, event: Event, number: int) -> tuple[Any, np.ndarray, bool]:
        """The party's rows, which of them take part, and whether the party does."""
        study, facts = self.study, self.study.facts
        columns = [np.asarray(c, np.float32) for c in self.party.open(draw)]
        require_columns(study, self.index, columns)
        if study.algorithm.batch is None:
            rows, takes_part = coins(draw, event, len(columns[0]))
            padding = padded_length(study, len(rows)) - len(rows)
            padded = [np.pad(c, [(0, padding)] + [(0, 0)] * (c.ndim - 1)) for c in columns]
            return tuple(padded), np.pad(rows, (0, padding)), takes_part
        spread, full = placed(study, draw.grant, columns, self.index)
        if study.algorithm.rows is not None:
            chosen = in_turn(study, number)
        else:
            chosen = numbered(study, tossed(study, draw, event, facts.records[self.index]))[0]
        batch, mask = gathered(tuple(spread), full, chosen)
        return batch, mask, True

    def _one_release(self, grant: Grant, index: int, public: Any, number: int) -> Any:
        algorithm, facts, trust = self.study.algorithm, self.study.facts, self.study.trust
        event = algorithm.event_of(facts, trust, self.index, number)
        draw = grant.draw(index, self.study.hash.encode())
        columns, rows, takes_part = self._open(draw, event, number)
        after, contribution = self._local(public, self._state, columns, rows)
        _require_valid(contribution)
        require_sampler_error(self.study, event, int(np.prod(contribution.value.shape)))
        if not takes_part:
            contribution = replace(contribution, value=0 * contribution.value)
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
        self._unsettled = number, after, takes_part
        return value

    def _noisy_steps(self, inner: Inner, grant: Grant, first: int, public: Any, number: int) -> Any:
        """Several releases that stay at home, and a report that post-processes them."""
        facts, state = self.study.facts, self._state
        event = self.study.algorithm.event_of(facts, self.study.trust, self.index)
        for step in range(inner.steps):
            draw = grant.draw(first + step, self.study.hash.encode())
            columns, rows, _ = self._open(draw, event, number)
            _, contribution = self._local(public, state, columns, rows)
            _require_valid(contribution)
            require_sampler_error(self.study, event, int(np.prod(contribution.value.shape)))
            noisy = release(draw, contribution, event)
            steps = jnp.asarray(noisy.value.astype(np.int32))
            state = self._absorb(public, state, steps * noisy.grid)
        value = post_processed(draw, np.asarray(rounded_report(inner, state)), inner.grid)
        self.party.ledger.dispatch(value)
        self._unsettled = number, state, True
        return value


class _Same:
    """A study as a key: the same object, not an equal one."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def __hash__(self) -> int:
        return id(self.study)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.study is self.study


@lru_cache(maxsize=8)
def _compiled(same: _Same) -> tuple[Any, Any]:
    """`local` and `absorb`, compiled once for all parties of a study in this process."""
    algorithm, facts = same.study.algorithm, same.study.facts
    absorb = jax.jit(partial(algorithm.inner.absorb, facts)) if algorithm.inner else None
    return jax.jit(partial(algorithm.local, facts)), absorb


def _require_valid(contribution: Contribution) -> None:
    if not bool(contribution.valid):
        raise UnisonoError("the solver missed the public tolerance")


def party_app(responder: Responder) -> ClientApp:
    """A Flower app that hands every packet to the responder."""
    app = ClientApp()

    @app.query("unisono")
    def answer(message: Message, context: Context) -> Message:
        return Message(wrap(responder.answer(unwrap(message))), reply_to=message)

    return app
