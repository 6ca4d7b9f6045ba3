"""Plain readers of whole store files, for comparison with what wrote them."""

from __future__ import annotations

from collections.abc import Iterator

from rmqcli.codec.store.consume_queue import END_OF_FILE, ENTRY, HEAD, ExtensionEntry, decode_extension_entry
from rmqcli.codec.store.index_file import SLOT, IndexItem, decode_header, decode_item, slot_position


def used_entries(data: bytes) -> list[tuple[int, int, int]]:
    """The entries of a consume-queue file before the first that was never written."""
    entries = list(ENTRY.iter_unpack(data))
    count = next((number for number, (_, size, _) in enumerate(entries) if size == 0), len(entries))
    assert not any(data[count * ENTRY.size :])
    return entries[:count]


def extension_entries(data: bytes) -> Iterator[tuple[int, ExtensionEntry]]:
    """Positions and entries of an extension file, up to the end mark, zeros or the end of the file."""
    position = 0
    read_size = HEAD.part("size").unpack_from
    while position + 2 <= len(data) and read_size(data, position)[0] not in (END_OF_FILE, 0):
        entry = decode_extension_entry(data, position)
        yield position, entry
        position += entry.size


def items_of(data: bytes, slots: int, key_hash: int) -> Iterator[IndexItem]:
    """The items of a hash in a sound index file, newest first."""
    (number,) = SLOT.unpack_from(data, slot_position(key_hash % slots))
    while number:
        assert 0 < number < decode_header(data).index_count
        item = decode_item(data, slots, number)
        if item.key_hash == key_hash:
            yield item
        assert item.previous < number
        number = item.previous
