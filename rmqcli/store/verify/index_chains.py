"""The check that index slots lead to their newest items, and each item to the one before it in its slot."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from codec.store.index_file import ITEM, item_position
from rmqcli.store.read.files import NamedFile, mapped
from rmqcli.store.read.vectorised import is_vectorised
from rmqcli.store.verify.findings import Finding, Report


class Chains(NamedTuple):
    """Items [1, end) of a file with this many slots. Links of `damaged` items are not reported, since their
    hashes may be wrong.

    With `growing` a broker may add items meanwhile: slots may have numbers from `end` on.
    """

    file: NamedFile
    slots: int
    end: int
    damaged: Collection[int]
    growing: bool
    cost: int = 0


def verify_chains(chains: Chains) -> Report:
    report = Report()
    if is_vectorised():
        from codec.scan.index_chains import wrong_links
    else:
        from codec.store.index_file import wrong_links
    with mapped(chains.file) as data:
        for link in wrong_links(data, chains.slots, chains.end):
            from_damage = {link.item, link.found, link.expected} & set(chains.damaged)
            added = chains.growing and link.slot is not None and link.found >= chains.end
            if not from_damage and not added:
                report.add(Finding(chains.file.path, link.position(chains.slots), str(link)))
    return report


def damaged_items(report: Report, file: NamedFile, slots: int) -> frozenset[int]:
    """Returns the numbers of the items that a report has findings of."""
    first = item_position(slots, 0)
    places = (one.position for one in report.findings if one.path == file.path)
    return frozenset((position - first) // ITEM.size for position in places if position >= first)
