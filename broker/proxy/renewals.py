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

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.proxy.clients import Client
from rmqcli.codec.receipt_handle import ReceiptHandle

SCAN_SECONDS: Final = 5.0
AHEAD_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 3 * 3600.0
TIMES_MS: Final = tuple(60_000 * minutes for minutes in (1, 3, 5, 10, 30, 60))
"""The time of each renewal; the last one for all others."""
MOST_MESSAGES: Final = 1024 * 1024

_log = logging.getLogger("rmqcli.broker.proxy")


Key = tuple[str, str, ReceiptHandle]
"""Group and topic, and the handle that the client has."""


@dataclass(slots=True, eq=False)
class _Lent:
    """A message in flight: its present handle, and the time of trio's clock until which it is lent."""

    client: Client
    handle: ReceiptHandle
    due: float
    began: float
    renewals: int = 0


class Renewals:
    """The messages in flight that the server renews, by the handles that their clients have."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._lent: dict[Key, _Lent] = {}
        self._of: dict[Client, dict[Key, None]] = {}
        self._left: deque[tuple[Key, _Lent]] = deque()
        self._news = trio.Event()

    def __len__(self) -> int:
        return len(self._lent)

    def add(self, client: Client, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int) -> None:
        """Renew a message from now on, until its client takes it or leaves."""
        if len(self._lent) >= MOST_MESSAGES:
            return  # it is received again once its time is over
        if client not in self._of:
            self._of[client] = {}
            client.on_close(partial(self._leave, client))
        now = trio.current_time()
        key = group, topic, handle
        self._of[client][key] = None
        self._lent[key] = _Lent(client, handle, now + invisible_ms / 1000, now)

    def take(self, group: str, topic: str, handle: ReceiptHandle) -> ReceiptHandle:
        """Stop renewing a message; return its present handle."""
        key = group, topic, handle
        lent = self._lent.get(key)
        if lent is None:
            return handle
        self._forget(key, lent)
        return lent.handle

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
            pace = self._broker.turns.pace()
            soon = trio.current_time() + AHEAD_SECONDS
            for key, lent in list(self._lent.items()):
                if lent.due <= soon and self._lent.get(key) is lent:
                    await self._renew(key, lent)
                    await pace.step()

    async def _renew(self, key: Key, lent: _Lent) -> None:
        group, topic, _ = key
        if trio.current_time() - lent.began > LONGEST_SECONDS:
            self._forget(key, lent)
            return
        times = TIMES_MS[min(lent.renewals, len(TIMES_MS) - 1)]
        changed = await self._broker.store.when_ready(self._change, key, lent, times)
        if changed is None and self._lent.get(key) is lent:
            _log.info("a message of topic %s is not in flight any more for group %s", topic, group)
            self._forget(key, lent)

    def _change(self, key: Key, lent: _Lent, invisible_ms: int) -> ReceiptHandle | None:
        if self._lent.get(key) is not lent:  # taken while the disk was read
            return lent.handle
        changed = self._broker.pops.change(key[0], key[1], lent.handle, invisible_ms)
        if changed is not None:
            lent.handle, lent.renewals = changed, lent.renewals + 1
            lent.due = trio.current_time() + invisible_ms / 1000
        return changed

    async def release_left(self) -> None:
        """Run the service that releases the messages of clients that have left."""
        while True:
            while self._left:
                (group, topic, _), lent = self._left.popleft()
                await self._broker.pops.release(group, topic, lent.handle, counts=True)
                await trio.lowlevel.checkpoint()
            self._news = trio.Event()
            await self._news.wait()
