"""The messages of auto-renewed receives, which their clients do not have to extend (Java
`DefaultReceiptHandleManager`).

A message is lent for a minute at first, and again before that is over, while its client lives, for at most
LONGEST_SECONDS. If a client leaves, others receive its messages at once, as after another attempt.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio

from rmqcli.broker.errors import Refusal
from rmqcli.broker.proxy.answers import StatusError
from rmqcli.broker.proxy.backend import Backend
from rmqcli.broker.proxy.clients import Client
from rmqcli.broker.proxy.http2 import in_task
from rmqcli.codec.receipt_handle import ReceiptHandle

SCAN_SECONDS: Final = 5.0
AHEAD_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 3 * 3600.0
TIMES_MS: Final = tuple(60_000 * minutes for minutes in (1, 3, 5, 10, 30, 60))
"""The time of each renewal; the last one for all others."""
MOST_MESSAGES: Final = 1024 * 1024
RENEWALS_AT_ONCE: Final = 16

_log = logging.getLogger("rmqcli.broker.proxy")


Key = tuple[str, str, ReceiptHandle]
"""Group and topic, and the handle that the client has."""


@dataclass(slots=True, eq=False)
class _Lent:
    """A message in flight: its present handle, and the time of trio's clock until which it is lent. `changing` is
    set while it is being renewed."""

    client: Client
    handle: ReceiptHandle
    due: float
    began: float
    renewals: int = 0
    changing: trio.Event | None = None

    async def settled(self) -> ReceiptHandle:
        """Return the present handle, once no renewal is under way."""
        changing = self.changing  # which may be over before a task has taken over
        if changing is not None:
            await in_task()
            await changing.wait()
        return self.handle


class Renewals:
    """The messages in flight that the server renews, by the handles that their clients have."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lent: dict[Key, _Lent] = {}
        self._of: dict[Client, dict[Key, None]] = {}
        self._left: deque[tuple[Key, _Lent]] = deque()
        self._news = trio.Event()

    def __len__(self) -> int:
        return len(self._lent)

    def add(self, client: Client, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int) -> None:
        """Renew a message from now on, until `take` is called for it or its client leaves."""
        if len(self._lent) >= MOST_MESSAGES:
            return  # it is received again once its time is over
        if client not in self._of:
            self._of[client] = {}
            client.on_close(partial(self._leave, client))
        now = trio.current_time()
        key = group, topic, handle
        self._of[client][key] = None
        self._lent[key] = _Lent(client, handle, now + invisible_ms / 1000, now)

    async def take(self, group: str, topic: str, handle: ReceiptHandle) -> ReceiptHandle:
        """Stop renewing a message; return its present handle."""
        key = group, topic, handle
        lent = self._lent.get(key)
        if lent is None:
            return handle
        self._forget(key, lent)
        return await lent.settled()

    def _forget(self, key: Key, lent: _Lent) -> None:
        del self._lent[key]
        self._of.get(lent.client, {}).pop(key, None)

    def _leave(self, client: Client) -> None:
        for key in self._of.pop(client, {}):
            self._left.append((key, self._lent.pop(key)))
        self._news.set()

    async def run(self) -> None:
        """Run the service that renews messages before their time is over."""
        while True:
            await trio.sleep(SCAN_SECONDS)
            soon = trio.current_time() + AHEAD_SECONDS
            due = deque((key, lent) for key, lent in self._lent.items() if lent.due <= soon)
            async with trio.open_nursery() as nursery:
                for _ in range(min(RENEWALS_AT_ONCE, len(due))):
                    nursery.start_soon(self._renew_all, due)

    async def _renew_all(self, due: deque[tuple[Key, _Lent]]) -> None:
        pace = self._backend.turns.pace()
        while due:
            key, lent = due.popleft()
            if self._lent.get(key) is lent:
                await self._renew(key, lent)
            await pace.step()

    async def _renew(self, key: Key, lent: _Lent) -> None:
        group, topic, _ = key
        now = trio.current_time()
        if now - lent.began > LONGEST_SECONDS:
            self._forget(key, lent)
            return
        times = TIMES_MS[min(lent.renewals, len(TIMES_MS) - 1)]
        lent.changing = trio.Event()
        try:
            changed = await self._backend.change(group, topic, lent.handle, times)
            if changed is not None:
                lent.handle, lent.renewals = changed, lent.renewals + 1
                lent.due = now + times / 1000
        except (Refusal, StatusError) as error:
            _log.info("a message of topic %s was not renewed for group %s: %s", topic, group, error)
            changed = lent.handle if now < lent.due else None  # once more at the next scan
        finally:
            lent.changing.set()
            lent.changing = None
        if changed is None and self._lent.get(key) is lent:
            _log.info("a message of topic %s is not in flight any more for group %s", topic, group)
            self._forget(key, lent)

    async def release_left(self) -> None:
        """Run the service that releases the messages of clients that have left."""
        while True:
            while self._left:
                (group, topic, _), lent = self._left.popleft()
                try:
                    await self._backend.release(group, topic, await lent.settled(), counts=True)
                except (Refusal, StatusError) as error:  # it is received again once its time is over
                    _log.info("a message of topic %s was not released for group %s: %s", topic, group, error)
                await trio.lowlevel.checkpoint()
            self._news = trio.Event()
            await self._news.wait()
