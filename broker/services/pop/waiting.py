"""Pops that wait for messages (Java class `PopLongPollingService`).

A message wakes one waiting pop of each group that accepts its tag. That pop takes the available messages, and
wakes the next one if any are left. Pops of one queue and pops of all queues wait separately.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import trio

from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.receipt_handle import RETRY_V1, RETRY_V2, pop_retry_topic

MOST_WAITING = 20_000
MOST_OF_PLACE = 1024
"""Maximum number of pops of one group and queue that wait (Java `popPollingSize`)."""
MOST_OF_SESSION = 1024

ALL_QUEUES = -1
Place = tuple[str, int]
"""Group, and queue id or -1."""


class Waiter:
    """One waiting pop."""

    __slots__ = ("codes", "is_released", "news", "place", "session", "topic")

    def __init__(self, topic: str, place: Place, codes: frozenset[int] | None, session: Hashable) -> None:
        self.topic = topic
        self.place = place
        self.codes = codes
        self.session = session
        self.news = trio.Event()
        self.is_released = False
        """True if it must neither wait any longer nor take anything."""

    async def wait(self) -> None:
        """Return once this pop is woken; it then waits for the next time."""
        await self.news.wait()
        self.news = trio.Event()

    def release(self) -> None:
        """End the waiting."""
        self.is_released = True
        self.news.set()


class Waiting:
    """All pops that wait. `len` counts them."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[Place, dict[Waiter, None]]] = {}
        self._retries: dict[str, tuple[str, str]] = {}
        """Retry topic → topic and group, of those that wait."""
        self._sessions: dict[Hashable, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, group: str, topic: str, queue_id: int) -> int:
        """Return how many pops of a group wait."""
        return len(self._topics.get(topic, {}).get((group, queue_id), ()))

    def has_room(self, group: str, topic: str, queue_id: int, session: Hashable) -> bool:
        return (
            self._count < MOST_WAITING
            and self.of(group, topic, queue_id) < MOST_OF_PLACE
            and self._sessions.get(session, 0) < MOST_OF_SESSION
        )

    @contextmanager
    def waiter(
        self, group: str, topic: str, queue_id: int, codes: frozenset[int] | None, session: Hashable
    ) -> Iterator[Waiter]:
        """Yield a waiting pop; it waits inside the block. If it was woken but takes nothing, it wakes the
        next one.
        """
        place = group, max(queue_id, ALL_QUEUES)
        one = Waiter(topic, place, codes, session)
        self._topics.setdefault(topic, {}).setdefault(place, {})[one] = None
        for flag in (RETRY_V1, RETRY_V2):
            self._retries[pop_retry_topic(group, topic, flag)] = topic, group
        self._sessions[session] = self._sessions.get(session, 0) + 1
        self._count += 1
        try:
            yield one
        finally:
            self._leave(one)
            if one.news.is_set() and not one.is_released:
                self.wake_next(topic, group, place[1])

    def arrived(self, stored: QueueRun) -> None:
        """Wake the pops for which messages have arrived. This is an arrival listener of the store."""
        places = self._topics.get(stored.topic)
        if places is not None:
            for place in places:
                if place[1] in (ALL_QUEUES, stored.queue_id):
                    self._wake(places[place], stored.codes)
        elif stored.topic in self._retries:
            topic, group = self._retries[stored.topic]
            self.wake_group(topic, group)

    def wake_group(self, topic: str, group: str) -> None:
        """Wake a pop of each queue of a group, because messages may have become visible."""
        for place, waiters in self._topics.get(topic, {}).items():
            if place[0] == group:
                self._wake(waiters)

    def wake_next(self, topic: str, group: str, queue_id: int) -> None:
        """Wake the next pop, because messages are left."""
        places = self._topics.get(topic)
        if places is not None:
            self._wake(places.get((group, max(queue_id, ALL_QUEUES)), {}))

    def release_topic(self, topic: str) -> None:
        """End the waiting of all pops of a topic, because it is deleted."""
        for waiters in self._topics.get(topic, {}).values():
            for one in waiters:
                one.release()

    def release_member(self, group: str, session: Hashable) -> None:
        """End the waiting of the pops of a member that leaves its group: nobody would consume what they take."""
        for topic in self._topics.values():
            for place, waiters in topic.items():
                for one in waiters:
                    if place[0] == group and one.session == session:
                        one.release()

    def release_all(self) -> None:
        """End the waiting of all pops, because the permissions of their senders may have changed."""
        for topic in self._topics:
            self.release_topic(topic)

    def _wake(self, waiters: dict[Waiter, None], codes: list[int] | None = None) -> None:
        for one in waiters:
            if one.news.is_set():
                # It also takes the new messages, or wakes the next one.
                if one.codes is None:
                    return
            elif codes is None or one.codes is None or not one.codes.isdisjoint(codes):
                one.news.set()
                return

    def _leave(self, one: Waiter) -> None:
        places = self._topics[one.topic]
        waiters = places[one.place]
        del waiters[one]
        if not waiters:
            del places[one.place]
        if not places:
            del self._topics[one.topic]
        group = one.place[0]
        if not any(place[0] == group for place in places):
            for flag in (RETRY_V1, RETRY_V2):
                self._retries.pop(pop_retry_topic(group, one.topic, flag), None)
        self._count -= 1
        left = self._sessions[one.session] - 1
        if left:
            self._sessions[one.session] = left
        else:
            del self._sessions[one.session]
