"""Tells the name servers of new and changed topics at once, not at the next periodic registration.

Changes that come while one registration is under way go together into the next. Who created a topic waits with its answer
until the name servers know it, but never longer than MAX_WAIT_SECONDS: a client must not be surprised by an unknown route.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

import trio

from codec.bodies.config import TopicConfig

__all__ = ["MAX_WAIT_SECONDS", "Announcer"]

MAX_WAIT_SECONDS = 2.0


class Announcer:
    """`register` sends the given topics, or all of them for None; it does not raise for a name server that is down."""

    def __init__(self, register: Callable[[Sequence[TopicConfig] | None], Awaitable[None]] | None) -> None:
        self._register = register
        self._pending: dict[str, TopicConfig] = {}
        self._all = False
        self.asked = 0
        """How often something was announced; who compares it knows whether it announced something itself."""
        self._done = 0
        self._wake = trio.Event()
        self._progress = trio.Event()

    def announce(self, configs: Sequence[TopicConfig]) -> None:
        """Registers these topics soon; all of them when there are none given."""
        self._all = self._all or not configs
        self._pending.update((config.topic_name, config) for config in configs)
        self.asked += 1
        self._wake.set()

    @property
    def is_settled(self) -> bool:
        """Nothing waits to be registered."""
        return self._register is None or self._done == self.asked

    async def settled(self) -> None:
        """Waits until everything announced so far is registered, for a bounded time."""
        wanted = self.asked if self._register is not None else -math.inf
        with trio.move_on_after(MAX_WAIT_SECONDS):
            while self._done < wanted:
                await self._progress.wait()

    async def run(self) -> None:
        """Registers until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            asked, everything = self.asked, self._all
            configs = list(self._pending.values())
            self._pending.clear()
            self._all = False
            if self._register is not None:
                await self._register(None if everything else configs)
            self._done = asked
            self._progress.set()
            self._progress = trio.Event()
