"""Methods of the classes of `rmqcli.client.aio`: those of the trio classes, run in the guest run.

A method is declared by its trio counterpart, `send = hosted(TrioProducer.send)`; signature, types and
docstring come from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from rmqcli.client.aio.guest import Guest, OpenClient, on_loop
from rmqcli.client.calls import closed
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.functions import is_async
from rmqcli.client.instance import Client as TrioClient

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")
TrioT = TypeVar("TrioT", bound=TrioClient)


def hosted(
    method: Callable[Concatenate[Any, P], Awaitable[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the asyncio version of an async method."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        guest: Guest = self._guest
        return await guest.call(partial(method, self._trio, *args, **kwargs))

    return call


def carried(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the asyncio version of an async method whose coroutine can be detached."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        guest: Guest = self._guest
        return await guest.carry(method(self._trio, *args, **kwargs))

    return call


def relayed(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return the asyncio version of a plain method."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._trio, *args, **kwargs)

    return call


def hostable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that a trio client can call: an async function will run on the loop, a plain one is
    returned unchanged.
    """
    return on_loop(function) if is_async(function) else function


def documented(method: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that gives a method the docstring of the trio method."""

    def decorate(function: F) -> F:
        function.__doc__ = method.__doc__
        return function

    return decorate


class Client(Generic[TrioT]):
    """Base of the clients for asyncio. Any number of tasks of one loop may use one at the same time.

    `async with` opens and closes a client; `open` and `close` do so without a block.
    """

    def __init__(self, client: TrioT) -> None:
        self._trio = client
        self._open: OpenClient | None = None

    async def open(self) -> Self:
        """Connect and start the background tasks. A client can be opened only once."""
        if self._open is not None:
            raise InvalidRequest("a client is opened once")
        self._open = OpenClient(self._context())
        await self._open.open()
        return self

    async def close(self) -> None:
        """Close the client, as at the end of an `async with` block. A second call does nothing."""
        await self._close(None)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(error)

    def _context(self) -> Any:
        """Return the context manager that is entered in the guest run."""
        return self._trio

    @property
    def _guest(self) -> Guest:
        if self._open is None:
            raise closed()
        return self._open.guest

    async def _close(self, error: BaseException | None) -> None:
        if self._open is not None:
            await self._open.close(error)
