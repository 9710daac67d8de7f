"""A party on a stock SuperNode: for compatibility, with less to rely on.

A SuperNode starts a new process for every message and runs the code that the server ships. Nothing
remains in memory between messages, so the secure sum, whose one-time keys must, is refused; the
ledger on disk still counts every turn. Paths come from the node's own configuration:

    flower-supernode ... --node-config 'name="north" study="study.toml" roster="roster.toml"
        data="north.csv" policy="policy.toml" keys="keys" output="out" server="10.0.0.5:9092"'
"""

from collections.abc import Mapping
from pathlib import Path

from unisono.deployment.party import STOCK, Member, PartyConfig
from unisono.engines.flower.stock import configured_app
from unisono.errors import InvalidInput


def answer(data: bytes, configuration: Mapping[str, str]) -> bytes:
    """One message, answered by a party that is built for it and forgotten."""
    fields = list(PartyConfig.__dataclass_fields__)
    missing = {*fields, "server"} - configuration.keys()
    if missing:
        raise InvalidInput(f"the node's configuration lacks {', '.join(sorted(missing))}")
    paths = {key: Path(configuration[key]) for key in fields if key != "name"}
    seat = PartyConfig(configuration["name"], **paths)
    member = Member(seat, configuration["server"], transport=STOCK)
    if member.agreed.session.masked:
        raise InvalidInput(
            "a secure sum needs a party that stays: join with `unisono join`, not with a SuperNode"
        )
    member.recall()
    reply = member.answer(data)
    if member.finished:
        member.finish()
    return reply


app = configured_app(answer)
