"""Registers new and changed topics at the name servers at once, not at the next periodic registration.

Changes that arrive during one registration go together into the next. The reply to the request that created a
topic waits until the name servers know the topic, at most MAX_WAIT_SECONDS, so that its client finds the
route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

from codec.bodies.config import TopicConfig

MAX_WAIT_SECONDS = 2.0


class Announcer:
    """Calls `register` (None: no name servers) with changed topics, or with None for all topics."""

    def __init__(self, register: Callable[[Sequence[TopicConfig] | None], Awaitable[None]] | None) -> None:
        self._register = register
        self._pending: dict[str, TopicConfig] = {}
        self._all = False
        self.asked = 0
        """The number of calls of `announce`: a caller that compares it knows if its own work announced
        something."""
        self._done = 0
        self._wake = trio.Event()
        self._progress = trio.Event()

    def announce(self, configs: Sequence[TopicConfig]) -> None:
        """Register topics soon, all of them when `configs` is empty."""
        self._all = self._all or not configs
        self._pending.update((config.topic_name, config) for config in configs)
        self.asked += 1
        self._wake.set()

    async def settled(self) -> None:
        """Wait until everything announced so far is registered, at most MAX_WAIT_SECONDS."""
        if self._register is None:
            return
        wanted = self.asked
        with trio.move_on_after(MAX_WAIT_SECONDS):
            while self._done < wanted:
                await self._progress.wait()

    async def run(self) -> None:
        """Register until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            asked = self.asked
            await self._register_pending()
            self._done = asked
            self._progress.set()
            self._progress = trio.Event()

    async def _register_pending(self) -> None:
        everything, pending = self._all, self._pending
        self._all, self._pending = False, {}
        try:
            if self._register is not None:
                await self._register(None if everything else list(pending.values()))
        except Exception:  # the next attempt must include what this one took
            self._all, self._pending = everything or self._all, pending | self._pending
            self._wake.set()
            raise
