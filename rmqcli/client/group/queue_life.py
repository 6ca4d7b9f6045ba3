"""Detects that a queue is no longer the one that a consumer has read: a topic that is deleted and created
again begins at offset 0, below the offsets of its consumers, which would skip the messages up to there.

Java's clients accept the broker's correction, which is the end of the queue. Times of messages are from the
broker's clock, so a message of the former queue is never newer than one of the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from rmqcli.codec.message import MessageExt

CLOCKS = 60_000
"""The milliseconds by which the clocks of client and broker may differ."""


class QueueLife:
    """A consumer's knowledge of the lifetime of one queue.

    `absent_since`: when a broker or name server first reported that the topic does not exist, by the clock of
    the client (epoch ms); None while it exists.
    """

    def __init__(self) -> None:
        self.absent_since: int | None = None
        self._seen = -1

    def see(self, messages: Sequence[MessageExt]) -> None:
        """Note that messages were pulled."""
        if messages:
            self._seen = messages[-1].store_timestamp

    def vanish(self, now_ms: int) -> None:
        """Note that the topic does not exist."""
        if self.absent_since is None:
            self.absent_since = now_ms

    def is_doubtful(self, offset: int, low: int, high: int, following: int) -> bool:
        """Return True if the reply to a pull from `offset` may come from another queue.

        Either the topic was missing, or the queue from `low` to `high` begins at 0 and ends below the offset,
        and the broker continues at its end.
        """
        return low <= 0 < offset and (self.absent_since is not None or following == high < offset)

    def is_another(self, earliest: int) -> bool:
        """Return True if a doubtful queue is a different one: its oldest message is newer than any known
        before.

        The message, stored at `earliest` (epoch ms), must be newer than the last message read, or than the
        absence of the topic. A queue that lost its end in a power cut has older messages; the broker's
        correction of the offset then applies. It also applies to an empty queue (-1), which begins at its
        end.
        """
        if earliest < 0:
            return False
        if self._seen >= 0:
            return earliest > self._seen
        return self.absent_since is None or is_younger(earliest, self.absent_since)


def is_younger(earliest: int, absent_since: int) -> bool:
    """Return True if a message was stored after this client learned that the topic does not exist."""
    return earliest > absent_since - CLOCKS
