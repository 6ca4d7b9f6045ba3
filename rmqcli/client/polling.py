"""How often a task looks for its reply before it sleeps until the system wakes it.

To be put to sleep and woken costs more than the whole answer of a broker on the same machine. A look is a turn of trio's
scheduler, about 4 µs, in which all other tasks go on.
"""

from __future__ import annotations

__all__ = ["LOOKS", "MAX_PAUSE", "Polling"]

LOOKS = 32
MAX_PAUSE = 1024  # requests


class Polling:
    """For one connection. `left`: looks for the reply to the request on its way.

    Looks that were all in vain are left out for 1, 2, 4 … MAX_PAUSE requests: that peer is further away.
    """

    def __init__(self) -> None:
        self.left = 0
        self._pause = 0
        self._left_out = 0

    def begin(self) -> None:
        """A request is on its way."""
        if self._left_out:
            self._left_out -= 1
        else:
            self.left = LOOKS

    def in_vain(self) -> None:
        """Nothing had come yet."""
        if self.left:
            self.left -= 1
            if not self.left:
                self._pause = self._left_out = min(2 * self._pause or 1, MAX_PAUSE)

    def end(self) -> None:
        """Nothing is awaited any more: what came before the last look was near."""
        if self.left:
            self.left = self._pause = 0
