"""Limits on the cost of connections for a server: their number, their idle time, the memory they occupy.

A single connection is bounded by the longest frame. Many connections that each send most of a frame and then
stop are bounded together: above `max_partial_bytes`, the connection that has received nothing for the longest
time is closed.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import trio

from rmqcli.broker.config.servers import ServerConfig

if TYPE_CHECKING:
    from rmqcli.broker.net.session import Session

RESERVED = 256
"""Descriptors that connections leave to files; a quarter of all if there are fewer than 1,024."""

STALLED_SECONDS = 30
STALLED_CHECKS = 3
"""A connection is closed once its incomplete frame has not grown for more than this number of checks."""

T = TypeVar("T")

_log = logging.getLogger("rmqcli.broker.net.server")


class SessionLimits(NamedTuple):
    """Limits of one connection: bytes queued for the peer, simultaneous tasks for it, and bytes of a frame
    and of its header, which is decoded in one step."""

    pause_bytes: int = 1024 * 1024
    max_outgoing_bytes: int = 64 * 1024 * 1024
    max_deferred: int = 1024
    max_frame: int = 16 * 1024 * 1024
    max_header: int = 256 * 1024


class ServerLimits(NamedTuple):
    """Limits of one server. `idle_seconds` is serverChannelMaxIdleTimeSeconds of NettyServerConfig.

    A connection whose file descriptor is above `max_descriptor` is refused: the kernel assigns the lowest
    free number, so all lower ones are in use, and the store needs the rest.
    """

    max_connections: int = 16384
    idle_seconds: float = 120.0
    session: SessionLimits = SessionLimits()
    max_partial_bytes: int = 128 * 1024 * 1024
    max_descriptor: int = sys.maxsize

    @classmethod
    def of(cls, config: ServerConfig) -> ServerLimits:
        """Return the limits that a configuration sets."""
        session = SessionLimits(max_outgoing_bytes=config.max_outgoing_bytes)
        return cls(
            config.max_connections,
            config.server_channel_max_idle_time_seconds,
            session,
            max_descriptor=_highest_descriptor(),
        )


def _highest_descriptor() -> int:
    try:
        import resource
    except ImportError:  # Windows, where descriptors are not limited
        return sys.maxsize
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft - min(soft // 4, RESERVED)


class Newcomers(Generic[T]):
    """Connections whose peers have not identified themselves yet. If there are more than `most`, the oldest
    one is ended, so that silent peers cannot keep others out.

    `end` ends a connection.
    """

    def __init__(self, most: int, end: Callable[[T], object]) -> None:
        self.most = most
        self._end = end
        self._waiting: dict[T, None] = {}

    def add(self, one: T) -> None:
        """Count a connection; if there are too many, end the oldest one."""
        if len(self._waiting) >= self.most:
            self.make_room()
        self._waiting[one] = None

    def discard(self, one: T) -> None:
        """Stop counting a connection that is now known, or has ended."""
        self._waiting.pop(one, None)

    @contextmanager
    def counting(self, one: T) -> Iterator[None]:
        """Count a connection inside the block."""
        self.add(one)
        try:
            yield
        finally:
            self.discard(one)

    def make_room(self) -> bool:
        """End the connection that has waited the longest. Return False if there is none."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        self._end(oldest)
        return True


class PartialFrames:
    """Limits the memory of incomplete frames over all connections of a server.

    `_held` has the connections that wait for more bytes, first the one that has waited the longest.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._total = 0
        self._held: dict[Session, tuple[int, int]] = {}  # bytes, and the check after which they came
        self._checks = 0

    def update(self, session: Session) -> None:
        """Count the bytes that a connection holds now, after a read that ended inside a frame."""
        held = session.connection.held
        self._held[session] = held, self._checks
        # `forget` precedes each call, so that the bytes of the last read are not counted twice.
        self._total += held
        while self._total > self._max_bytes:
            reason = f"incomplete frames of all connections exceed {self._max_bytes} bytes"
            self._close(next(iter(self._held)), reason)

    def forget(self, session: Session) -> None:
        """Stop counting a connection that has ended, or whose requests are handled."""
        self._total -= self._held.pop(session, (0, 0))[0]

    async def close_stalled(self) -> None:
        """Run the service that closes connections whose peers sent the beginning of a frame, and then
        nothing.

        Checks are counted, not seconds, so that a pause of the process does not make clients late.
        """
        while True:
            await trio.sleep(STALLED_SECONDS / STALLED_CHECKS)
            self._checks += 1
            for session, (_, received) in list(self._held.items()):
                if received >= self._checks - STALLED_CHECKS:
                    break
                self._close(session, f"the rest of a frame did not come within {STALLED_SECONDS} s")

    def _close(self, session: Session, reason: str) -> None:
        _log.warning("%s: closed: %s, its own has %d", session.peer_text, reason, session.connection.buffered)
        self.forget(session)
        session.close()
