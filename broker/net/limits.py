"""Bounds on what connections can cost a server: their number, their silence, the memory that they hold.

One connection is bounded by the longest frame. Many connections that each send most of a frame and then stop
are bounded together: above `max_partial_bytes` the one that holds most is closed.
"""

from __future__ import annotations

import logging
import resource
import sys
from typing import TYPE_CHECKING, NamedTuple

from broker.config import BrokerConfig, NamesrvConfig

if TYPE_CHECKING:
    from broker.net.session import Session

RESERVED = 256
"""Descriptors that connections leave to files; a quarter of them where there are fewer than 1,024."""

_log = logging.getLogger("broker.net.server")


class SessionLimits(NamedTuple):
    """Bounds of one connection: bytes queued for the peer, and tasks that work for it at a time."""

    pause_bytes: int = 1024 * 1024
    max_outgoing_bytes: int = 64 * 1024 * 1024
    max_deferred: int = 1024
    max_frame: int = 16 * 1024 * 1024


class ServerLimits(NamedTuple):
    """Bounds of one server. `idle_seconds` is serverChannelMaxIdleTimeSeconds of NettyServerConfig.

    A connection whose file descriptor is above `max_descriptor` is refused: the kernel gives the lowest free
    number, so that many are in use, and the store needs the rest.
    """

    max_connections: int = 16384
    idle_seconds: float = 120.0
    session: SessionLimits = SessionLimits()
    max_partial_bytes: int = 512 * 1024 * 1024
    max_descriptor: int = sys.maxsize

    @classmethod
    def of(cls, config: BrokerConfig | NamesrvConfig) -> ServerLimits:
        """The bounds that a configuration sets."""
        session = SessionLimits(max_outgoing_bytes=config.max_outgoing_bytes)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls(
            config.max_connections,
            config.server_channel_max_idle_time_seconds,
            session,
            max_descriptor=sys.maxsize if soft == resource.RLIM_INFINITY else soft - min(soft // 4, RESERVED),
        )


class PartialFrames:
    """Counts the bytes of incomplete frames over all connections of a server."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._total = 0
        self._held: dict[Session, int] = {}

    def update(self, session: Session) -> None:
        """Counts what a connection holds now. Call it after each read."""
        held = session.connection.buffered
        if session in self._held:
            self.forget(session)
        if not held:
            return
        self._held[session] = held
        self._total += held
        while self._total > self._max_bytes:
            largest = max(self._held, key=self._held.__getitem__)
            _log.warning(
                "%s: closed: incomplete frames of all connections exceed %d bytes, its own has %d",
                largest.peer_text,
                self._max_bytes,
                self._held[largest],
            )
            self.forget(largest)
            largest.close()

    def forget(self, session: Session) -> None:
        self._total -= self._held.pop(session, 0)
