"""The session of a study: what every signature of its run covers."""

from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.releases.release import MODULUS_BITS
from unisono.secagg.roster import Roster, digest
from unisono.secagg.session import Session


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
    )
