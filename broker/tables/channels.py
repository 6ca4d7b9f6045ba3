"""One client as a broker sees it: a connection, and what its last heartbeat said (Java class
`ClientChannelInfo`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from codec.remoting.frame import RemotingCommand


class Channel(Protocol):
    """A connection as the tables see it. It is hashed by identity."""

    @property
    def peer_text(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def oneway(self, command: RemotingCommand) -> None: ...
    async def request(self, command: RemotingCommand, timeout_s: float) -> RemotingCommand: ...


@dataclass(slots=True)
class ClientChannel:
    """`language` and `version` are the codes of the request header, `last_update` is in ms."""

    channel: Channel
    client_id: str
    language: int
    version: int
    last_update: int
