"""Tells whether a queue is still the one that a consumer has read: a topic that is deleted and created again has other
messages at the same queue offsets."""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.codec.message import MessageExt

CLOCKS = 60_000
"""Milliseconds by which the clocks of a client and a broker may differ."""


class QueueLife:
    """The knowledge of a consumer about one queue.

    `absent_since`: when a broker or name server first said that the topic does not exist, by the clock of the
    client (epoch ms); None while it exists.
    """

    def __init__(self) -> None:
        self.absent_since: int | None = None
        self._seen = -1

    def see(self, messages: Sequence[MessageExt]) -> None:
        """Note messages that were pulled."""
        if messages:
            self._seen = messages[-1].store_timestamp

    def vanish(self, now_ms: int) -> None:
        """Note that the topic does not exist."""
        if self.absent_since is None:
            self.absent_since = now_ms

    def is_doubtful(self, offset: int, low: int, high: int, following: int) -> bool:
        """Return True if the reply to a pull from `offset` may be that of another queue: the topic was away,
        or the queue from `low` to `high` begins at 0, end below the offset, and the broker goes on at its
        end.
        """
        return low <= 0 < offset and (self.absent_since is not None or following == high < offset)

    def is_another(self, earliest: int) -> bool:
        """Return True if a doubtful queue is another one, because its oldest message, stored at `earliest`
        (epoch ms), is younger than what was read before, or than the absence of the topic.

        A queue that lost its end in a power cut has older ones; then the broker's correction holds. So it
        does for an empty queue (-1), which begins at its end.
        """
        if earliest < 0:
            return False
        if self._seen >= 0:
            return earliest > self._seen
        return self.absent_since is None or is_younger(earliest, self.absent_since)


def is_younger(earliest: int, absent_since: int) -> bool:
    """Return True if a message of a broker was stored after this client heard that there is no topic."""
    return earliest > absent_since - CLOCKS
