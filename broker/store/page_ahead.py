"""Pages of the commit log are had before they are written.

The first touch of a page costs the writer more than all else that the kernel does for a message: memory is to be found and
zeroed, 2 µs a KB. A worker thread does that for the next megabyte meanwhile. Not with SYNC_FLUSH, where every flush would
have to write what is still empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio

from broker.store.commit_log import CommitLog
from broker.store.segment import Segment

__all__ = ["have_pages_ahead"]


async def have_pages_ahead(log: CommitLog, in_thread: Callable[..., Any]) -> None:
    """Runs until cancelled, or until the kernel turns out not to know how."""
    wanted = trio.Event()

    def want() -> None:
        wanted.set()

    log.pages_wanted = want
    try:
        while True:
            await wanted.wait()
            wanted = trio.Event()
            if not await in_thread(_populate, *log.pages_ahead()):
                return
    finally:
        log.pages_wanted = None


def _populate(segment: Segment, position: int, length: int) -> bool:
    try:
        return not length or segment.populate_pages(position, length)
    except ValueError:  # the file was closed meanwhile
        return True
