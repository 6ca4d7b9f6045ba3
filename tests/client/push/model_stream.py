"""The client's end of a connection to the model: what is sent is answered at once, without a task at the other end.

Like trio's streams every call is a checkpoint, so a cancellation may come at each of them.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

__all__ = ["ModelStream"]


class ModelStream:
    """`heard` gets what the client sends, `gone` hears once that it closed the stream (`closed`). One task may receive at a time."""

    def __init__(self) -> None:
        self.heard: Callable[[bytes], None] = lambda data: None
        self.gone: Callable[[], None] = lambda: None
        self._data = bytearray()
        self._ended = False
        self.closed = False
        self._arrival = trio.lowlevel.ParkingLot()

    def put_data(self, data: bytes) -> None:
        """What the model says; nobody hears it when either end is closed."""
        if not self._ended and not self.closed:
            self._data += data
            self._arrival.unpark()

    def put_eof(self) -> None:
        """The model closes its end."""
        self._ended = True
        self._arrival.unpark()

    def send_now(self, data: bytes) -> int:
        """As a socket with room does."""
        if self.closed:
            return 0
        self.heard(data)
        return len(data)

    async def send_all(self, data: bytes) -> None:
        if self.closed:
            raise trio.ClosedResourceError
        self.heard(bytes(data))
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._data or self._ended or self.closed:
            await trio.lowlevel.checkpoint()
        while not (self._data or self._ended or self.closed):
            await self._arrival.park()
        if self.closed:
            raise trio.ClosedResourceError
        data = bytes(self._data)
        self._data.clear()
        return data

    async def aclose(self) -> None:
        if not self.closed:
            self.closed = True
            self._arrival.unpark()
            self.gone()
        await trio.lowlevel.checkpoint()
