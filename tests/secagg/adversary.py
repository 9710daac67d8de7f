"""What a server and its colluders can work out of everything that they have seen.

They join shares to secrets, check these against public keys and commitments, and take every mask
off that they know. A pair mask that they do not know joins two vectors: together the vectors of a
joined group tell their sum and nothing else, since the masks of a connected group are uniform but
for adding up to zero (the columns of its incidence matrix span just those vectors). A group is
open once all of its self-masks are known. A pair mask of two parties that were asked differently is
two masks, each of which occurs once: what it hides stays hidden.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np

from unisono.errors import PrivacyViolation
from unisono.secagg import masks, party, shamir
from unisono.secagg.encoding import signed
from unisono.secagg.roster import digest
from unisono.secagg.session import Session

from .harness import QUESTION, Crowd, run


class Adversary:
    """Collects shares and secrets of one attempt, then says whose sums it knows."""

    def __init__(
        self, session: Session, attempt: bytes, questions: Mapping[int, bytes] | None = None
    ) -> None:
        self.session, self.attempt, self.questions = session, attempt, questions or {}
        self.shares: dict[tuple[int, str], dict[int, bytes]] = defaultdict(dict)
        self.secrets: dict[bytes, bytes] = {}  # by public mask key

    def owns(self, secret: bytes) -> None:
        """A mask key that the adversary made, or that a colluder told."""
        self.secrets[masks.public_key(secret)] = secret

    def hears(self, holder: int, answer: Mapping[int, bytes], survivors: Iterable[int]) -> None:
        """A party's answer to an unmask request for these survivors."""
        alive = set(survivors)
        for owner, piece in answer.items():
            self.shares[owner, "self" if owner in alive else "mask"][holder] = piece

    def corrupts(self, holder: int, held: Mapping[int, tuple[bytes, bytes]], secret: bytes) -> None:
        """A colluder tells both shares that it holds of everybody, and its own secret."""
        for owner, (of_mask, of_self) in held.items():
            self.shares[owner, "mask"][holder] = of_mask
            self.shares[owner, "self"][holder] = of_self
        self.owns(party.derive(secret, "mask"))

    def opened(self, owner: int, kind: str) -> bytes | None:
        """The secret behind the shares, if there are enough."""
        held = self.shares[owner, kind]
        if len(held) < self.session.threshold:
            return None
        return shamir.join(dict(islice(held.items(), self.session.threshold)))

    def sums(
        self,
        vectors: Mapping[int, np.ndarray],
        tables: Mapping[int, Mapping[int, bytes]],
        partners: Mapping[int, Iterable[int]],
        commitments: Mapping[int, bytes],
    ) -> dict[frozenset[int], np.ndarray]:
        """Every group of vectors whose sum is known; `tables[u]` are the keys that u was shown."""
        bare, group = {}, {index: index for index in self._everybody(vectors, partners)}
        hidden = set()  # under a mask that nothing cancels

        def root(index: int) -> int:
            while group[index] != index:
                index = group[index]
            return index

        for index in group:
            secret = self.opened(index, "mask")
            known = [t[index] for t in tables.values() if index in t]
            if secret and any(masks.public_key(secret) == party.mask_key(k) for k in known):
                self.owns(secret)
        for index, vector in vectors.items():
            total = vector.copy()
            for other in partners[index]:
                seed = self._pair_seed(index, other, tables[index])
                if seed is None and self._question(index) != self._question(other):
                    hidden.add(index)
                elif seed is None:
                    group[root(index)] = root(other)
                else:
                    masks.add(total, seed, -1 if index < other else 1)
            own = self.opened(index, "self")
            if own and digest("self-mask", self.attempt, index, own) == commitments[index]:
                mask = party.self_mask(self.attempt, index, own, self._question(index))
                masks.add(total, mask, -1)
                bare[index] = total
        members = defaultdict(set)
        for index in group:
            members[root(index)].add(index)
        bits = self.session.bits
        return {
            frozenset(some): signed(np.sum([bare[i] for i in some], axis=0, dtype=np.uint64), bits)
            for some in members.values()
            if some <= bare.keys() - hidden
        }

    def _everybody(self, vectors: Mapping[int, Any], partners: Mapping[int, Any]) -> list[int]:
        return sorted({*vectors, *(other for own in partners.values() for other in own)})

    def _pair_seed(self, index: int, other: int, table: Mapping[int, bytes]) -> bytes | None:
        mine, theirs = party.mask_key(table[index]), party.mask_key(table[other])
        for known, public in ((mine, theirs), (theirs, mine)):
            if known in self.secrets:
                secret = self.secrets[known]
                question = self._question(index)
                return party.pair_seed(self.attempt, index, other, secret, public, question)
        return None

    def _question(self, index: int) -> bytes:
        return self.questions.get(index, QUESTION)


def survivors_told(
    vectors: Mapping[int, Any],
    people: Crowd,
    told: Mapping[int, Any],
    colluders: Iterable[int] = (),
    questions: Mapping[int, bytes] | None = None,
) -> tuple[dict[frozenset[int], np.ndarray], int]:
    """Masked vectors of all, then survivors as each honest party is told them, then shares.

    Colluders sign every set, and that they answered every question. Returns what the server
    can work out, and how many answered.
    """
    session = people.session
    done = run(people, vectors, until="mask", questions=questions)
    seen = Adversary(session, session.attempt(0, 0), questions)
    for index in colluders:
        state = done.states["mask"][index]
        seen.corrupts(index, state.held, state.before.secret)
    sealed = {i: one for i, (_, one) in done.messages["mask"].items()}
    agreed, answers = {}, 0
    for index in set(range(session.parties)) - set(colluders):
        state = done.states["mask"][index]
        shown = {i: sealed[i] for i in told[index]}
        for i in set(colluders) & set(shown):
            also = party.sent(state.before.attempt, i, state.dealers_digest, state.question)
            shown[i] = people.identities[i].sign(also)
        try:
            agreed[index] = party.agree(state, shown)
        except PrivacyViolation:
            continue
    for index, (state, _) in agreed.items():
        votes = {
            i: vote for i, (other, vote) in agreed.items() if other.statement == state.statement
        }
        votes |= {i: people.identities[i].sign(state.statement) for i in colluders}
        try:
            answer = party.unmask(state, {i: v for i, v in votes.items() if i in state.survivors})
        except PrivacyViolation:
            continue
        answers += 1
        seen.hears(index, answer, state.survivors)
    honest = [i for i in range(session.parties) if i not in colluders]
    return seen.sums(
        {i: done.messages["mask"][i][0] for i in honest},
        dict.fromkeys(honest, done.table.keys),
        {i: session.neighbours(i) for i in honest},
        {i: deal.commitment for i, deal in done.messages["deal"].items()},
    ), answers
