"""Methods of the classes of `rmqcli.client.sync`: those of the trio classes, run in the portal.

A method is declared by its trio counterpart, `send = blocking(trio_client.Producer.send)`; signature, types
and docstring come from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from rmqcli.client.calls import closed
from rmqcli.client.errors import InvalidRequest
from rmqcli.client.functions import is_async
from rmqcli.client.instance import Client as TrioClient
from rmqcli.client.sync.portal import OpenClient, Portal

P = ParamSpec("P")
T = TypeVar("T")
TrioT = TypeVar("TrioT", bound=TrioClient)


def blocking(method: Callable[Concatenate[Any, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return the version of an async method for threads: it blocks until the outcome."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        portal: Portal = self._portal
        return portal.call(partial(method, self._trio, *args, **kwargs))

    return call


def relayed(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return the version of a plain method for threads: it runs in the thread of the portal."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        portal: Portal = self._portal
        return portal.value(partial(method, self._trio, *args, **kwargs))

    return call


def at_once(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Return the version for threads of a plain method that only reads: it runs in the calling thread."""

    @wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._trio, *args, **kwargs)

    return call


def plain(function: Callable[..., Any], what: str) -> None:
    """Raise InvalidRequest for an async function."""
    if is_async(function):
        raise InvalidRequest(f"{what} of rmqcli.client.sync is a plain function, not an async one")


class Client(Generic[TrioT]):
    """Base of the clients for threads. Any number of threads may use one at the same time.

    `with` opens and closes a client; `open` and `close` do so without a block.
    """

    def __init__(self, client: TrioT) -> None:
        self._trio = client
        self._open: OpenClient | None = None

    def open(self) -> Self:
        """Connect and start the background tasks. A client can be opened only once."""
        if self._open is not None:
            raise InvalidRequest("a client is opened once")
        self._open = OpenClient(self._context())
        return self

    def close(self) -> None:
        """Close the client, as at the end of a `with` block. A second call does nothing."""
        self._close(None)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(error)

    def _context(self) -> Any:
        """Return the context manager that is entered in the portal."""
        return self._trio

    @property
    def _portal(self) -> Portal:
        if self._open is None:
            raise closed()
        return self._open.portal

    def _close(self, error: BaseException | None) -> None:
        if self._open is not None:
            self._open.close(error)
