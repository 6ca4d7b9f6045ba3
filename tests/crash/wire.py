"""A client that speaks the remoting protocol and nothing more: requests, their replies, and checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from rmqcli.codec.headers.base import Header, to_ext
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection


class Gone(Exception):
    """The broker has closed the connection, or is closing it."""


class _Waiting:
    def __init__(self) -> None:
        self.done = trio.Event()
        self.reply: RemotingCommand | None = None


class Wire:
    """One connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._connection = Connection()
        self._sending = trio.Lock()

    async def run(self, asked: Callable[[RemotingCommand], None]) -> None:
        """Receives until the broker closes the connection. `asked` gets its requests."""
        try:
            async for data in self._stream:
                for command in self._connection.receive(bytes(data)):
                    waiting = self._connection.match(command)
                    if isinstance(waiting, _Waiting):
                        waiting.reply = command
                        waiting.done.set()
                    elif not command.is_response:
                        asked(command)
        except trio.BrokenResourceError:
            pass
        finally:
            for waiting in self._connection.abandon():
                assert isinstance(waiting, _Waiting)
                waiting.done.set()

    async def ask(
        self, code: int, header: Header | Mapping[str, str] | None = None, body: bytes = b""
    ) -> RemotingCommand:
        """Sends a request and returns its reply. Raises Gone."""
        waiting = _Waiting()
        await self._send(self._connection.request(_command(code, header, body), waiting))
        await waiting.done.wait()
        if waiting.reply is None:
            raise Gone
        return waiting.reply

    async def tell(self, code: int, header: Header | Mapping[str, str]) -> None:
        """Sends a one-way request. Raises Gone."""
        await self._send(self._connection.oneway(_command(code, header, b"")))

    async def _send(self, frame: bytes) -> None:
        try:
            async with self._sending:
                await self._stream.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise Gone from None


def _command(code: int, header: Header | Mapping[str, str] | None, body: bytes) -> RemotingCommand:
    ext = to_ext(header) if isinstance(header, Header) else None if header is None else dict(header)
    return RemotingCommand(code, ext, body)
