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


def _always(_topic: str, _queue_id: int) -> bool:
    return True


class News:
    """Gathers arrivals until `announce`. `failed` gets what the disk refuses."""

    def __init__(self, index: Index | None, failed: Callable[[OSError], object]) -> None:
        self._index = index
        self._failed = failed
        self._arrivals: list[Arrival] = []
        self._batches: list[StoredBatch] = []
        """Those since the last announcement, as long as there are no `_arrivals`."""
        self._listeners: list[ArrivalListener] = []
        self._wants: list[WantsArrivals] = []
        self.late = LateArrivals(index, self._listeners, failed)

    def add_listener(self, listener: ArrivalListener, wants: WantsArrivals | None = None) -> None:
        """Has `listener` called for what arrives in queues that it wants; None: in all."""
        self._listeners.append(listener)
        self._wants.append(wants or _always)

    def add(self, arrivals: Iterable[Arrival]) -> None:
        """Adds arrivals."""
        if self._batches:
            self._expand_batches()
        self._arrivals += arrivals

    def add_batch(self, stored: StoredBatch) -> None:
        """Adds a batch, or a part of one."""
        if stored.batch.is_long:
            self.add_late(stored.arrivals(), stored.batch.weight)
        elif self._arrivals:
            self._arrivals += stored.arrivals()
        else:
            self._batches.append(stored)

    def add_late(self, arrivals: Iterable[Arrival], weight: int) -> None:
        """Leaves arrivals to the service, behind those before them."""
        self._expand_batches()
        if self._arrivals:
            before, self._arrivals = self._arrivals, []
            self.late.add(before)
        self.late.add(arrivals, weight)

    def announce(self) -> None:
        """Adds index items, and calls the listeners, for what was stored since the last call."""
        if self._batches:
            batches, self._batches = self._batches, []
            for stored in batches:
                self._announce_batch(stored)
        if not self._arrivals:
            return
        arrivals, self._arrivals = self._arrivals, []
        if self.late:
            self.late.add(arrivals)
            return
        if self._index is not None:
            try:
                self._index.add_arrivals(arrivals)
            except OSError as error:
                self._failed(error)
        for listener in self._listeners:
            listener(arrivals)

    def _announce_batch(self, stored: StoredBatch) -> None:
        if self.late:
            self.late.add(stored.arrivals())
            return
        batch = stored.batch
        if self._index is not None:
            try:
                self._index.add_batch(batch.hashes, batch.counts, stored.offsets, stored.timestamp)
            except OSError as error:
                self._failed(error)
        heard = [wants(batch.topic, batch.queue_id) for wants in self._wants]
        if any(heard):
            arrivals = list(stored.arrivals())
            for listener, wanted in zip(self._listeners, heard, strict=True):
                if wanted:
                    listener(arrivals)

    def _expand_batches(self) -> None:
        batches, self._batches = self._batches, []
        for stored in batches:
            self._arrivals += stored.arrivals()
