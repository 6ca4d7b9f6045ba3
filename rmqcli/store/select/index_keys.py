"""Index files by the offsets and times of their items, the items of a key, and the messages they point to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rmqcli.codec.records.filter import record_filter
from rmqcli.codec.store.index_file import decode_header
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store.read.commit_log import Found, LogReader
from rmqcli.store.read.files import NamedFile, mapped, naming_damage
from rmqcli.store.read.index import ChainLink, IndexGeometry, geometry_of, index_files, key_chain, overlaps


class IndexKey(NamedTuple):
    """A topic and a key. The index stores keys only together with their topic."""

    topic: str
    key: str


class KeyItem(NamedTuple):
    file: IndexGeometry
    slot: int
    chain: ChainLink


def files_in_range(path: Path, wanted: OffsetRange) -> list[NamedFile]:
    """Return the files with items in the range; `last` counts files."""
    found = []
    for file in index_files(path):
        with naming_damage(file), mapped(file) as data:
            if overlaps(decode_header(data), wanted):
                found.append(file)
    return found if wanted.last is None else found[max(len(found) - wanted.last, 0) :]


def items_of_key(path: Path, slots: int | None, wanted_key: IndexKey, wanted: OffsetRange) -> list[KeyItem]:
    """Return the items on the chains of a key in the range; `last` counts items of the key, newest first."""
    found: list[KeyItem] = []
    for file in index_files(path):
        with naming_damage(file), mapped(file) as data:
            shape = geometry_of(file, data, slots)
            _, slot, chain = key_chain(data, shape, *wanted_key)
            found += [KeyItem(shape, slot, link) for link in chain]
    if wanted.last is None:
        return list(wanted.select(found, lambda link: (link.chain.item.phy_offset, link.chain.time)))
    mine = sorted((link for link in found if link.chain.matches), key=lambda link: link.chain.item.phy_offset)
    return mine[: -wanted.last - 1 : -1]


def messages_of(
    store: Path, links: Iterable[KeyItem], wanted_key: IndexKey, wanted: OffsetRange
) -> Iterator[Found]:
    """Yield the messages that have the key, not just its hash, newest first, except those that retention
    removed.
    """
    chosen = record_filter(wanted_key.key, topics={wanted_key.topic})
    offsets = sorted({link.chain.item.phy_offset for link in links if link.chain.matches}, reverse=True)
    with LogReader(store) as log:
        for offset in offsets:
            found = log.read(offset)
            if found is not None and chosen.accepts(found[1]) and wanted.holds_time(found[1].store_timestamp):
                yield found
