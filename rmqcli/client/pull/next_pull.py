"""The place and time of the next pull of a queue. Pauses are seconds."""

from __future__ import annotations

import trio

from rmqcli.client.errors import UnexpectedReply

PAUSED = 1.0  # while the application has paused the queue
FLOW_CONTROL = 0.05  # while too much is cached
BUSY = 0.02  # after FLOW_CONTROL from the broker
FAILED = 1.0  # after any other error

QUICK = 0.5  # a broker that has nothing and replies sooner does not hold pulls
IDLE = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0)  # after such replies in a row


def check_next_offset(following: int, broker_name: str, *, above: int = -1) -> None:
    """Raises UnexpectedReply unless the next offset that a broker named is greater than `above`.

    That is the offset of a pull that found messages, which would else be consumed again and again.
    """
    if following <= above:
        raise UnexpectedReply(broker_name, "PULL_MESSAGE", f"{following} is the offset of the next pull")


def why_moved(offset: int | None, low: int, high: int) -> str:
    """The reason why a broker refused an offset: inside of the queue, it holds a reset of its own
    (`OFFSET_RESET` of 5.x).
    """
    inside = offset is not None and low <= offset <= high
    return "is overridden by a reset" if inside else "is not in the queue"


class Idle:
    """The pauses of one queue after quick replies without messages."""

    def __init__(self) -> None:
        self._count = 0

    def after(self, begun: float, *, moved: bool) -> float:
        """The pause after a pull that began at `begun` (trio's clock), with `moved` to another offset."""
        if moved or trio.current_time() - begun >= QUICK:
            self._count = 0
            return 0.0
        pause = IDLE[min(self._count, len(IDLE) - 1)]
        self._count += 1
        return pause
