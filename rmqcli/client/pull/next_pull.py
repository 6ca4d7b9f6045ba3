"""Where and when the next pull begins, whatever a broker says."""

from __future__ import annotations

import trio

from rmqcli.client.errors import UnexpectedReply


def check_next_offset(following: int, broker_name: str, *, above: int = -1) -> None:
    """UnexpectedReply unless a queue can go on at `following`, the next offset by the word of a broker.

    `above`: the offset of a pull that brought messages; they would be consumed for ever.
    """
    if following <= above:
        raise UnexpectedReply(broker_name, "PULL_MESSAGE", f"{following} is the offset of the next pull")


class Idle:
    """Pauses between pulls that a broker answers at once though it has nothing: longer and longer ones."""

    SOON, FIRST, LAST = 0.5, 0.01, 1.0
    DOUBLED = 7

    def __init__(self) -> None:
        self._count = 0

    def after(self, begun: float, *, moved: bool) -> float:
        """Seconds to wait after a pull that began at `begun` (trio's time); `moved`: it brought something."""
        if moved or trio.current_time() - begun >= self.SOON:
            self._count = 0
            return 0.0
        self._count += 1
        return (
            0.0 if self._count == 1 else min(self.FIRST * 2 ** min(self._count - 2, self.DOUBLED), self.LAST)
        )
