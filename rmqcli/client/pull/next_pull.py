"""Where and when the next pull begins, whatever a broker says."""

from __future__ import annotations

import trio

from rmqcli.client.errors import UnexpectedReply
from rmqcli.client.results import PullStatus


def next_offset(status: PullStatus, offset: int, following: int, broker_name: str) -> int:
    """`following`, where a broker sends a pull from `offset` on; UnexpectedReply if no queue could go on there.

    A broker that names the same offset again would have its messages consumed for ever.
    """
    if following < 0 or (status is PullStatus.FOUND and following <= offset):
        reason = f"offset {following} as the next one, behind a pull from {offset}"
        raise UnexpectedReply(broker_name, "PULL_MESSAGE", reason)
    return following


class Idle:
    """Pauses between pulls that a broker answers at once though it has nothing: longer and longer ones."""

    SOON, FIRST, LAST = 0.5, 0.01, 1.0

    def __init__(self) -> None:
        self._pause = 0.0

    def after(self, begun: float, *, moved: bool) -> float:
        """Seconds to wait after a pull that began at `begun` (trio's time); `moved`: it brought something."""
        if moved or trio.current_time() - begun >= self.SOON:
            self._pause = 0.0
        else:
            self._pause = min(max(2 * self._pause, self.FIRST), self.LAST)
        return self._pause
