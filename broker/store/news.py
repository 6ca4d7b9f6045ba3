"""News of what was stored: index items to add, listeners to call, in the order of the log."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import trio

from broker.errors import NotReady
from broker.store.index import Index, items_of
from broker.store.values import ArrivalListener
from codec.core.derived import IndexItem
from codec.core.run import QueueRun

ITEMS_PER_LOOK = 16
"""Items between two looks at the clock."""
TURN_SECONDS = 0.0003
"""The event loop does so much of this at a time."""
MOST_LATE = 65536
"""Bytes of properties and messages of long batches that may be late; further long ones wait."""


class LateArrivals:
    """Arrivals that wait for their turns. `bring_file` creates an index file that items wait for, or reads
    its pages; `failed` gets what the disk refuses.
    """

    def __init__(
        self,
        index: Index | None,
        listeners: Sequence[ArrivalListener],
        failed: Callable[[OSError], object],
    ) -> None:
        self._failed = failed
        self._index = index
        self._listeners = listeners
        self.bring_file: Callable[[], Awaitable[None]] | None = None
        self._waiting: deque[tuple[Sequence[QueueRun], Iterable[IndexItem], int]] = deque()
        self._work = self._steps()
        self._weight = 0
        self._added = self._done = 0
        self._wake = trio.Event()
        self._progress = trio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, stored: Sequence[QueueRun], items: Iterable[IndexItem], weight: int = 0) -> None:
        """Add messages after those that wait already, to tell of once their index items are added."""
        if not self._waiting:
            self._work = self._steps()
        self._waiting.append((stored, items, weight))
        self._weight += weight
        self._added += 1
        self._wake.set()

    def require_room(self) -> None:
        """NotReady when others have to be done before a long message can be stored."""
        if self._weight >= MOST_LATE:
            raise NotReady(self.settled, in_order=True)

    async def settled(self) -> None:
        """Return once everything that is late now is done."""
        wanted = self._added
        while self._done < wanted:
            await self._progress.wait()

    async def run(self) -> None:
        """Run the service."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            ends = trio.current_time() + TURN_SECONDS
            for number, _ in enumerate(self._work, 1):
                if number % ITEMS_PER_LOOK == 0 and trio.current_time() >= ends:
                    await trio.lowlevel.checkpoint()
                    ends = trio.current_time() + TURN_SECONDS
                    if self._index is not None and self._index.waits and self.bring_file is not None:
                        await self.bring_file()

    def finish(self) -> None:
        """Do everything at once, for the stop and where nothing else runs."""
        for _ in self._work:
            pass

    def _steps(self) -> Iterator[None]:
        """Yield after each index item, and after the messages of each queue."""
        while self._waiting:
            stored, items, weight = self._waiting[0]
            if self._index is not None:
                try:
                    yield from self._index.add_in_steps(items)
                except OSError as error:
                    self._failed(error)
            for one in stored:
                for listener in self._listeners:
                    listener(one)
                yield
            self._waiting.popleft()
            self._weight -= weight
            self._done += 1
            self._progress.set()
            self._progress = trio.Event()


class News:
    """Gathers what was stored until `announce`. `failed` gets what the disk refuses."""

    def __init__(self, index: Index | None, failed: Callable[[OSError], object]) -> None:
        self._index = index
        self._failed = failed
        self._stored: list[QueueRun] = []
        self._items: list[IndexItem] = []
        """The index items of `_stored`."""
        self.listeners: list[ArrivalListener] = []
        self.late = LateArrivals(index, self.listeners, failed)

    def add(self, stored: Sequence[QueueRun], items: list[IndexItem]) -> None:
        """Add messages that listeners hear of, and index items, of others too."""
        self._stored += stored
        self._items += items

    def add_late(self, stored: QueueRun, told: Sequence[QueueRun], weight: int) -> None:
        """Leave the index items of messages to the service, after those before them, and then to tell of them."""
        self._leave_to_service()
        self.late.add(told, items_of(stored), weight)

    def announce(self) -> None:
        """Add index items, and call the listeners, for what was stored since the last call."""
        if not (self._stored or self._items):
            return
        if self.late:
            self._leave_to_service()
            return
        stored, items = self._stored, self._items
        self._stored, self._items = [], []
        if self._index is not None:
            try:
                self._index.add_items(items)
            except OSError as error:
                self._failed(error)
        for one in stored:
            for listener in self.listeners:
                listener(one)

    def _leave_to_service(self) -> None:
        if self._stored or self._items:
            self.late.add(self._stored, self._items)
            self._stored, self._items = [], []
