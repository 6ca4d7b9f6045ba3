"""News of what was stored: index items to add, listeners to call, in the order of the log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.store.index import Index, items_of
from broker.store.late_arrivals import LateArrivals
from broker.store.values import ArrivalListener
from codec.core.derived import IndexItem
from codec.core.run import QueueRun


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
