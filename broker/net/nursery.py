"""A nursery for services that run beside a block of code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

__all__ = ["background"]


@asynccontextmanager
async def background() -> AsyncIterator[trio.Nursery]:
    """Tasks of the nursery end with the block. What the block raises comes out bare, not in a group of one."""
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield nursery
        except Exception as error:  # raised again below, outside the nursery that would wrap it
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
