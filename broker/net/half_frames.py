"""Memory that frames hold which are not whole yet, over all connections of a server.

One connection is bounded by the longest frame; many that each send the better part of one and then nothing are bounded here:
when all together hold too much, the one that holds most is closed.
"""

from __future__ import annotations

import logging

from broker.net.session import Session

__all__ = ["HalfFrames"]

_log = logging.getLogger("broker.net.server")


class HalfFrames:
    """`most` is bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0
        self._held: dict[Session, int] = {}

    def note(self, session: Session) -> None:
        """To be told whenever a connection has received something."""
        held = session.connection.buffered
        if session in self._held:
            self.forget(session)
        if not held:
            return
        self._held[session] = held
        self._total += held
        while self._total > self._most:
            largest = max(self._held, key=self._held.__getitem__)
            _log.warning(
                "%s: closed: the frames that are not whole yet take over %d bytes, its own %d",
                largest.peer_text,
                self._most,
                self._held[largest],
            )
            self.forget(largest)
            largest.close()

    def forget(self, session: Session) -> None:
        self._total -= self._held.pop(session, 0)
