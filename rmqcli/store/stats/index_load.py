"""The load of index files: the lengths of the chains of their slots, and the store times of their items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rmqcli.codec.store.index_file import ITEM, IndexItem, item_position
from rmqcli.store.read.index import IndexGeometry
from rmqcli.store.stats.distribution import Rate


class IndexLoad(NamedTuple):
    """The load of a file: slots in use, mean and greatest chain length (items)."""

    used_slots: int
    mean_chain: float
    longest_chain: int


def load_of(data: memoryview, index: IndexGeometry) -> IndexLoad:
    """Measure the chains of a file. Reads every item once."""
    lengths = _chain_lengths(data, index)
    used = len(lengths)
    return IndexLoad(used, index.items / used if used else 0.0, max(lengths.values(), default=0))


def _items(data: memoryview, index: IndexGeometry) -> Iterator[IndexItem]:
    first = item_position(index.slots, 1)
    return map(IndexItem._make, ITEM.iter_unpack(data[first : first + index.items * ITEM.size]))


def _chain_lengths(data: memoryview, index: IndexGeometry) -> Counter[int]:
    return Counter(item.key_hash % index.slots for item in _items(data, index))


class IndexSpread:
    """The load of several files: `chains` is chain length → number of slots, `rate` counts items by time."""

    def __init__(self) -> None:
        self.files = 0
        self.chains: Counter[int] = Counter()
        self.rate = Rate()

    def add(self, data: memoryview, index: IndexGeometry) -> None:
        self.files += 1
        self.chains.update(_chain_lengths(data, index).values())
        seconds = Counter(item.time_diff for item in _items(data, index))
        for after, count in seconds.items():
            self.rate.add(index.header.begin_timestamp + after * 1000, count)
