"""The lifetime of a client that is opened and closed from outside trio."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import trio


class Life:
    """The lifetime of one client: a task enters it, waits for `close`, and leaves it.

    The same task does both, as nurseries require.
    """

    def __init__(self, client: AbstractAsyncContextManager[object]) -> None:
        self._client = client
        self._closing = trio.Event()
        self._error: BaseException | None = None

    async def run(self, opened: Callable[[], object]) -> None:
        """Call `opened` once the client is entered; return after it has been left."""
        client = self._client
        await client.__aenter__()
        opened()
        try:
            await self._closing.wait()
        except BaseException as error:
            await client.__aexit__(type(error), error, error.__traceback__)
            raise
        error_of_block = self._error
        kind = None if error_of_block is None else type(error_of_block)
        await client.__aexit__(kind, error_of_block, None)

    def close(self, error: BaseException | None) -> None:
        """Let the task leave the client; `error` is the exception that ended the caller's block."""
        if not self._closing.is_set():
            self._error = error
            self._closing.set()
