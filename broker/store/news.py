"""News of what was stored: index items to add, listeners to call.

Of a batch nothing is made for listeners that do not want to hear of its queue. News keep the order of the
log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.store.batches import StoredBatch
from broker.store.index import Index
from broker.store.late_arrivals import LateArrivals
from broker.store.values import Arrival, ArrivalListener, WantsArrivals
from codec.core.derived import IndexItem


def _always(_topic: str, _queue_id: int) -> bool:
    return True


class News:
    """Gathers arrivals until `announce`. `failed` gets what the disk refuses."""

    def __init__(self, index: Index | None, failed: Callable[[OSError], object]) -> None:
        self._index = index
        self._failed = failed
        self._stored: list[list[Arrival] | StoredBatch] = []
        self._items: list[IndexItem] = []
        """The index items of `_stored`."""
        self._listeners: list[ArrivalListener] = []
        self._wants: list[WantsArrivals] = []
        self.late = LateArrivals(index, self._listeners, failed)

    def add_listener(self, listener: ArrivalListener, wants: WantsArrivals | None = None) -> None:
        """Call `listener` for what arrives in queues that it wants; None: in all."""
        self._listeners.append(listener)
        self._wants.append(wants or _always)

    def add(self, stored: list[Arrival] | StoredBatch, items: list[IndexItem]) -> None:
        """Add arrivals, or a part of a batch, with their index items."""
        self._stored.append(stored)
        self._items += items

    def add_late(self, arrivals: Iterable[Arrival], weight: int) -> None:
        """Leave arrivals to the service, after those before them."""
        self._leave_to_service()
        self.late.add(arrivals, weight)

    def announce(self) -> None:
        """Add index items, and call the listeners, for what was stored since the last call."""
        if not self._stored:
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
            if isinstance(one, StoredBatch):
                self._tell_of_batch(one)
            else:
                for listener in self._listeners:
                    listener(one)

    def _tell_of_batch(self, stored: StoredBatch) -> None:
        heard = [wants(stored.batch.topic, stored.batch.queue_id) for wants in self._wants]
        if any(heard):
            arrivals = list(stored.arrivals())
            for listener, wanted in zip(self._listeners, heard, strict=True):
                if wanted:
                    listener(arrivals)

    def _leave_to_service(self) -> None:
        stored, self._stored, self._items = self._stored, [], []
        for one in stored:
            self.late.add(one.arrivals() if isinstance(one, StoredBatch) else one)
