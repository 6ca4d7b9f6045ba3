"""Locks of queues that are consumed in order (Java class `RebalanceLockManager`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codec.message_queue import MessageQueue

LOCK_LIVE_MS = 60_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    last_update: int


class LockTable:
    """Group → queue → holder."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: int
    ) -> list[MessageQueue]:
        """Locks queues that are free, the client's own, or not renewed for 60 s; those that it now holds."""
        held = self._groups.setdefault(group, {})
        return [queue for queue in queues if self._take(held, queue, client_id, now)]

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Releases the client's own locks; those of others stay."""
        held = self._groups.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client_id == client_id:
                del held[queue]
        if not held:
            self._groups.pop(group, None)

    @staticmethod
    def _take(held: dict[MessageQueue, _Lock], queue: MessageQueue, client_id: str, now: int) -> bool:
        lock = held.get(queue)
        if lock is not None and lock.client_id != client_id and now - lock.last_update <= LOCK_LIVE_MS:
            return False
        held[queue] = _Lock(client_id, now)
        return True
