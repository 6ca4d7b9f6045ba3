"""Follow-up work for stored messages, in log order: index items to add, listeners to call."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import trio

from rmqcli.broker.errors import NotReady
from rmqcli.broker.store.index import Index, items_of
from rmqcli.broker.store.values import ArrivalListener
from rmqcli.codec.core.derived import IndexItem
from rmqcli.codec.core.record_writer import QueueRun

# Messages whose index items take long: a long batch, or one message with thousands of keys.
#
# Their items are added, and the listeners of arrivals called, some in each turn of the event loop. Messages
# stored in the meantime come after them: the index needs the messages in the order of the log.

ITEMS_PER_LOOK = 16
"""Items between two readings of the clock."""
TURN_SECONDS = 0.0003
"""Seconds of late work that the event loop does at a time."""
MOST_LATE = 65536
"""Maximum number of bytes of long properties whose work may be late; beyond that, further long messages and
batches wait."""


class LateArrivals:
    """Arrivals whose follow-up work a service does in small steps. `bring_file` creates an index file that
    items wait for, or reads its pages; `failed` is called with an OSError of the disk.
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
        # An attribute, because `finish` and a restarted service continue what `run` has begun.
        self._work = self._steps()
        self._weight = 0
        self._added = self._done = 0
        self._wake = trio.Event()
        self._progress = trio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, stored: Sequence[QueueRun], items: Iterable[IndexItem], weight: int = 0) -> None:
        """Queue messages behind those that wait: index items first, then listeners."""
        if not self._waiting:
            # The last generator has ended: it found nothing more to do.
            self._work = self._steps()
        self._waiting.append((stored, items, weight))
        self._weight += weight
        self._added += 1
        self._wake.set()

    def require_room(self) -> None:
        """Raise NotReady if late work has to be done before another long message can be stored."""
        if self._weight >= MOST_LATE:
            raise NotReady(self.settled, in_order=True)

    async def settled(self) -> None:
        """Return once all work that is late now is done."""
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
        """Do all the work now, for a stop or if nothing else runs."""
        for _ in self._work:
            pass

    def _steps(self) -> Iterator[None]:
        """Do the work; yield after each index item, and after the messages of each queue."""
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


class Arrivals:
    """Collects follow-up work until `announce`. `failed` is called with an OSError of the disk."""

    def __init__(self, index: Index | None, failed: Callable[[OSError], object]) -> None:
        self._index = index
        self._failed = failed
        self._stored: list[QueueRun] = []
        self._items: list[IndexItem] = []
        """The index items of `_stored`."""
        self.listeners: list[ArrivalListener] = []
        self.late = LateArrivals(index, self.listeners, failed)

    def add(self, stored: Sequence[QueueRun], items: list[IndexItem]) -> None:
        """Add messages to pass to listeners, and index items, which may belong to other messages too."""
        self._stored += stored
        self._items += items

    def add_late(self, stored: QueueRun, told: Sequence[QueueRun], weight: int) -> None:
        """Leave to the service, in order, the index items of `stored`, and then the calls of listeners with
        `told`."""
        self._leave_to_service()
        self.late.add(told, items_of(stored), weight)

    def announce(self) -> None:
        """Add index items, and call the listeners, for what was stored since the last call."""
        if not (self._stored or self._items):
            return
        if self.late:
            # The index and listeners get messages in log order, so these have to wait as well.
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
