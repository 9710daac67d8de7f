"""The session of a study: what every signature of its run covers, and how a server greets it."""

import re
from collections.abc import Mapping
from typing import Any

from unisono import __version__
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.releases.release import MODULUS_BITS
from unisono.secagg.roster import Roster, digest
from unisono.secagg.session import PROTOCOL, Session

# Versions come from strangers and are printed.
_PLAIN = re.compile(r"[0-9A-Za-z.+-]{1,40}")


def session_of(study: Study, roster: Roster, agreed: str = "") -> Session:
    """The session of these parties in this study; `agreed` is a hash of all else they agreed on.

    A study runs once in a session: to run it again, agree on another study.
    """
    facts = study.facts
    return Session(
        roster,
        digest("study", study.hash.encode(), agreed.encode()),
        facts.minimum_parties,
        facts.colluders,
        MODULUS_BITS,
        masked=study.trust is Trust.SECURE_SUM,
        version=__version__,
    )


def greeting(session: Session) -> dict[str, Any]:
    """A session in parts, so that who belongs to another one can tell why."""
    return {
        "session": session.id.hex(),
        "study": session.account.hex(),
        "earlier": session.earlier.hex(),
        **spoken(session),
    }


def spoken(session: Session) -> dict[str, Any]:
    """The protocol and the version that a side speaks."""
    return {"protocol": PROTOCOL, "version": session.version}


def other_version(session: Session, said: Mapping[str, Any]) -> str | None:
    """The version of another side that cannot be spoken with, in words; None if it can be."""
    if (said.get("protocol"), said.get("version")) == (PROTOCOL, session.version):
        return None
    version, protocol = said.get("version"), said.get("protocol")
    plain = isinstance(version, str) and _PLAIN.fullmatch(version) is not None
    shown = version if plain else "of an unknown version"
    number = protocol if type(protocol) is int and 0 <= protocol < 2**31 else "unknown"
    return f"Unisono {shown} (protocol {number})"


def objection(session: Session, said: Mapping[str, Any]) -> str | None:
    """Why a party of this session cannot answer a greeting; None if it can, or if the server runs
    something else altogether."""
    if said.get("session") == session.id.hex():
        return None
    other = other_version(session, said)
    if other is not None:
        return (
            f"The server runs {other}, and this party Unisono {session.version} (protocol "
            f"{PROTOCOL}).\nInstall the same version at the server and at every party."
        )
    if said.get("study") == session.account.hex():
        return (
            "The server continues from another result of an earlier stage than this party was "
            "told.\nCompare the hash of that result with the other parties."
        )
    return None


__all__ = ["greeting", "objection", "other_version", "session_of", "spoken"]
