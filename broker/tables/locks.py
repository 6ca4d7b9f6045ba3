"""Queue locks of orderly consumers (Java class `RebalanceLockManager`)."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from rmqcli.codec.message_queue import MessageQueue

LOCK_LIVE_MS = 60_000
MOST_LOCKS = 262_144
LONGEST_NAMES = 1024
"""Maximum number of characters of group and client id together, and of topic and broker name together."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    last_update: int


class LockTable:
    """Group → queue → holder. `len` counts locks, of which there are at most `MOST_LOCKS`."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def is_full(self) -> bool:
        """True if no more queues can be locked; `expire` may help."""
        return self._count >= MOST_LOCKS

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now: int
    ) -> list[MessageQueue]:
        """Lock queues that are free, held by the client, or not renewed for 60 s. Return those that it now
        holds."""
        if len(group) + len(client_id) > LONGEST_NAMES:
            return []
        held = self._groups.setdefault(group, {})
        locked = [queue for queue in queues if self._take(held, queue, client_id, now)]
        if not held:
            del self._groups[group]
        return locked

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release locks that the client holds; those of others stay."""
        held = self._groups.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client_id == client_id:
                self._release(group, queue)

    def expire(self, now: int) -> Generator[None, None, None]:
        """Release locks that were not renewed for 60 s, in steps."""
        for group in list(self._groups):
            for queue, lock in list(self._groups.get(group, {}).items()):
                if now - lock.last_update > LOCK_LIVE_MS and self._groups.get(group, {}).get(queue) is lock:
                    self._release(group, queue)
                yield

    def _take(self, held: dict[MessageQueue, _Lock], queue: MessageQueue, client_id: str, now: int) -> bool:
        lock = held.get(queue)
        if lock is None:
            if self.is_full or len(queue.topic) + len(queue.broker_name) > LONGEST_NAMES:
                return False
            self._count += 1
        elif lock.client_id != client_id and now - lock.last_update <= LOCK_LIVE_MS:
            return False
        held[queue] = _Lock(client_id, now)
        return True

    def _release(self, group: str, queue: MessageQueue) -> None:
        held = self._groups[group]
        del held[queue]
        self._count -= 1
        if not held:
            del self._groups[group]
