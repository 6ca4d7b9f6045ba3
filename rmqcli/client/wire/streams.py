"""Streams to brokers and name servers, and their opening; tests replace `OpenStream`.

A stream has trio's methods `send_all`, `receive_some`, `aclose`. Errors of opening are mapped here, later
ones in `link`.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, runtime_checkable

import trio

from rmqcli.client.errors import ConnectionFailed, InvalidRequest
from rmqcli.client.wire.addresses import split_address
from rmqcli.client.wire.tls_problems import tls_problem
from rmqcli.codec.errors import TlsError

READ_SIZE = 128 * 1024
CONNECT_TIMEOUT = 3.0  # seconds; NettyClientConfig.connectTimeoutMillis


class Stream(Protocol):
    """The methods of a connection that a link uses (TcpStream, TlsStream, streams of trio.testing).

    `send_now`, if present, saves the link a task switch for most requests; a DirectStream saves one for most
    replies.
    """

    async def send_all(self, data: bytes) -> None: ...
    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray: ...
    async def aclose(self) -> None: ...


SendNow = Callable[[bytes], int]
"""Writes without waiting. Returns the number of bytes written, which is 0 also for a broken connection."""


@runtime_checkable
class DirectStream(Stream, Protocol):
    """A stream whose reader may stop or change at any time without losing bytes."""

    async def wait_readable(self) -> None:
        """Wait for bytes. Raises ClosedResourceError if the stream is closed or `call_off` is called."""

    def read_now(self, max_bytes: int) -> bytes | None:
        """Return the bytes that have arrived: None if there are none, empty at the end of the stream.

        Raises OSError and ClosedResourceError.
        """

    def call_off(self) -> None:
        """End the current `wait_readable`."""


class TcpStream:
    """A plain TCP connection for one reader and one writer.

    Reading waits first. A stream of trio reads first, which costs a system call and an exception for each
    reply to a lone request.
    """

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._fd = stream.socket.fileno()
        self._closed = False
        self.wait_readable = partial(trio.lowlevel.wait_readable, self._fd)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        while True:
            await self.wait_readable()
            data = self.read_now(max_bytes or READ_SIZE)
            if data is not None:
                return data

    def read_now(self, max_bytes: int) -> bytes | None:
        if self._closed:  # the descriptor may belong to another file by now
            raise trio.ClosedResourceError
        try:
            return os.read(self._fd, max_bytes)
        except BlockingIOError:
            return None

    def call_off(self) -> None:
        if not self._closed:
            trio.lowlevel.notify_closing(self._fd)

    async def send_all(self, data: bytes) -> None:
        with memoryview(data) as view:
            sent = 0
            while True:
                sent += self._write(view[sent:])
                if sent == len(view):
                    return
                # `call_off` ends this wait as well.
                with contextlib.suppress(trio.ClosedResourceError):
                    await trio.lowlevel.wait_writable(self._fd)

    def _write(self, data: memoryview) -> int:
        if self._closed:
            raise trio.ClosedResourceError
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        self._closed = True
        await self._stream.aclose()

    def send_now(self, data: bytes) -> int:
        if self._closed:
            return 0
        try:
            return os.write(self._fd, data)
        except OSError:
            return 0


async def close_forcefully(stream: Stream) -> None:
    """Close a stream at once, even when cancelled (`trio.aclose_forcefully`)."""
    with trio.CancelScope(shield=True) as scope:
        scope.cancel()
        await stream.aclose()


OpenStream = Callable[[str, int], Awaitable[Stream]]


async def open_tcp(host: str, port: int) -> Stream:
    """Open a plain TCP connection (TCP_NODELAY, as trio does)."""
    # For a string, Python would import its codec "idna", even for digits.
    return TcpStream(await trio.open_tcp_stream(host.encode() if host.isascii() else host, port))


def _reason(error: BaseException) -> str:
    """Return the innermost message of an OS error; trio wraps the errors of all addresses that it tried."""
    inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__
    if isinstance(inner, OSError | BaseExceptionGroup):
        return _reason(inner)
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def opened(open_stream: OpenStream, address: str, timeout: float) -> Stream:
    """Return a stream to "host:port".

    Raises ConnectionFailed after `timeout` seconds, or at once if none are left.
    """
    timeout = max(0.0, timeout)
    try:
        host, port = split_address(address)
    except InvalidRequest:
        raise ConnectionFailed(address, "not an address, host:port is expected") from None
    try:
        with trio.fail_after(timeout):
            return await open_stream(host, port)
    except trio.TooSlowError:
        raise ConnectionFailed(address, f"no answer within {timeout:g} s") from None
    except TlsError as error:
        problem, reason = tls_problem(error)
        raise ConnectionFailed(address, reason, problem) from error
    except (OSError, UnicodeError, trio.BrokenResourceError) as error:
        raise ConnectionFailed(address, _reason(error)) from error
