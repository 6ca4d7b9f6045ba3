"""The hold of a long batch on its consume queue, while its parts are stored."""

from __future__ import annotations

import trio

from broker.errors import NotReady


class Hold:
    """Lasts until `end`. Others that add messages to the queue wait for that."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended = trio.Event()

    def end(self) -> None:
        self._ended.set()

    def require_end(self) -> None:
        """Raise NotReady, for a message that others have to be stored before."""
        raise NotReady(self.ended, in_order=True)

    async def ended(self) -> None:
        """Return once the hold has ended."""
        await self._ended.wait()
