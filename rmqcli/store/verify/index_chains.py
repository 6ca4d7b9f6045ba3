"""Whether the slots of index files lead to their newest items, and each item to the one before it in its slot."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from codec.store.index_file import ITEM, SLOT, decode_item, item_position, slot_position
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.vectorised import vectorised_checks
from rmqcli.store.verify.findings import Finding, Report

__all__ = ["Chains", "WrongLink", "verify_chains"]


class WrongLink(NamedTuple):
    """An item number at byte `position`: that of the newest item of `slot`, or of the one before `item` (then `slot` is None)."""

    slot: int | None
    item: int
    found: int
    expected: int

    def position(self, slots: int) -> int:
        if self.slot is None:
            return item_position(slots, self.item)
        return slot_position(self.slot)

    def __str__(self) -> str:
        if self.slot is None:
            return f"item {self.item}: the item before it in its chain is {self.found}, not {self.expected}"
        return f"slot {self.slot}: its newest item is {self.found}, not {self.expected}"


class Chains(NamedTuple):
    """All items [1, end) of a file with so many slots. Of `damaged` items nothing is said, for their hashes may be wrong.

    With `growing` a broker may add items meanwhile: numbers from `end` on in slots are right.
    """

    file: NamedFile
    slots: int
    end: int
    damaged: Collection[int]
    growing: bool
    cost: int = 0


def verify_chains(chains: Chains) -> Report:
    """Findings only."""
    report = Report()
    with mapped(chains.file) as data:
        for link in _wrong_links(data, chains.slots, chains.end):
            from_damage = {link.item, link.found, link.expected} & set(chains.damaged)
            added = chains.growing and link.slot is not None and link.found >= chains.end
            if not from_damage and not added:
                report.add(Finding(chains.file.path, link.position(chains.slots), str(link)))
    return report


def _wrong_links(data: memoryview, slots: int, count: int) -> Iterator[WrongLink]:
    checks = vectorised_checks()
    if checks is not None:
        for wrong in checks.wrong_links(data, slots, count):
            yield WrongLink(*wrong)
        return
    newest: dict[int, int] = {}
    for number in range(1, count):
        item = decode_item(data, slots, number)
        slot = item.key_hash % slots
        expected = newest.get(slot, 0)
        if item.previous != expected:
            yield WrongLink(None, number, item.previous, expected)
        newest[slot] = number
    for slot, (found,) in enumerate(SLOT.iter_unpack(data[slot_position(0) : slot_position(slots)])):
        if found != newest.get(slot, 0):
            yield WrongLink(slot, 0, found, newest.get(slot, 0))


def damaged_items(report: Report, file: NamedFile, slots: int) -> frozenset[int]:
    """The numbers of the items that a report has findings of."""
    first = item_position(slots, 0)
    places = (one.position for one in report.findings if one.path == file.path)
    return frozenset((position - first) // ITEM.size for position in places if position >= first)
