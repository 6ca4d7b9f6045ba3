"""Reads the files of a store from their bytes alone, by the format of RocketMQ 4.9: no code of the broker, of
its codec or of the command line takes part, so that what they have in common is not taken for the truth.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import PurePath
from typing import Any, NamedTuple

HEAD = struct.Struct(">iI")
PREFIX = struct.Struct(">iIiiiqqiq8sq8siqi")
ENTRY = struct.Struct(">qiq")
INDEX_HEAD = struct.Struct(">qqqqii")
INDEX_SLOT = struct.Struct(">i")
INDEX_ITEM = struct.Struct(">iqii")
MAGIC, FILLER = 0xDAA320A7, 0xCBD43194
ENTRY_FILLER = 0x7FFFFFFF
HOST_V6 = 0x30
"""The bits of the sys flag for hosts of 16 bytes, which the programme does not use."""
NUMERIC_KEY = re.compile(r"([{,]\s*)(-?\d+)(\s*:)")
"""fastjson writes the numbers of queues as keys without quotes."""


class Unreadable(AssertionError):
    """The files contradict the format."""


class Record(NamedTuple):
    """One message as stored. `stored` is its store time, ms; `reconsumed` counts how often it was sent back."""

    offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    stored: int
    reconsumed: int
    body: bytes
    properties: dict[str, str]

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.queue_id, self.queue_offset


class Entry(NamedTuple):
    """One entry of a consume queue."""

    offset: int
    size: int
    code: int


@lru_cache(1 << 16)
def java_hash(text: str) -> int:
    """`String.hashCode` of a text of the basic plane."""
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def index_hash(topic: str, key: str) -> int:
    """The hash of a key in an index item."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value >> 31 else value


def read_record(data: bytes, position: int, offset: int) -> Record | None:
    """The record at a position that the log calls `offset`; None if there is no whole one."""
    if position + PREFIX.size > len(data):
        return None
    size, magic, crc, queue_id, _, queue_offset, own_offset, sys_flag, *rest = PREFIX.unpack_from(
        data, position
    )
    _, _, stored, _, reconsumed, _, body_size = rest
    end, body_at = position + size, position + PREFIX.size
    topic_at = body_at + body_size
    if magic != MAGIC or own_offset != offset or sys_flag & HOST_V6 or end > len(data):
        return None
    if not (body_size >= 0 and topic_at + 3 <= end):
        return None
    body = data[body_at:topic_at]
    text_at = topic_at + 1 + data[topic_at] + 2
    if zlib.crc32(body) & 0x7FFFFFFF != crc or text_at > end:
        return None
    topic = data[topic_at + 1 : text_at - 2].decode()
    # no CRC covers the properties, of which a page may not have got to the disk
    if text_at + int.from_bytes(data[text_at - 2 : text_at], "big") != end or 0 in data[text_at:end]:
        return None
    text = data[text_at:end].decode()
    properties = dict(pair.split("\1", 1) for pair in text.split("\2") if "\1" in pair)
    return Record(offset, size, topic, queue_id, queue_offset, sys_flag, stored, reconsumed, body, properties)


class Image:
    """The files of one store, `content` by path below its folder."""

    def __init__(self, content: Mapping[str, bytes]) -> None:
        self.content = content

    def folder(self, name: str) -> dict[PurePath, bytes]:
        """The files below a folder, sorted."""
        return {
            PurePath(path): self.content[path] for path in sorted(self.content) if path.startswith(name + "/")
        }

    # --- the log

    @cached_property
    def walked(self) -> tuple[list[Record], int]:
        """The whole records from the start of the log on, and where they end."""
        records: list[Record] = []
        offset = -1
        for path, data in self.folder("commitlog").items():
            start = int(path.name)
            if offset not in (-1, start):
                break
            offset, position = start, 0
            while position + HEAD.size <= len(data):
                size, magic = HEAD.unpack_from(data, position)
                if magic == FILLER and position + size == len(data):
                    position = len(data)
                    break
                record = read_record(data, position, start + position)
                if record is None:
                    break
                records.append(record)
                position += size
            offset = start + position
        return records, max(offset, 0)

    @cached_property
    def start(self) -> int:
        """Where the log begins: files before were removed."""
        return min((int(path.name) for path in self.folder("commitlog")), default=0)

    @property
    def records(self) -> list[Record]:
        return self.walked[0]

    @property
    def log_end(self) -> int:
        return self.walked[1]

    def bytes_behind_log(self) -> int:
        """The number of bytes behind the last record that are not zero."""
        found = 0
        for path, data in self.folder("commitlog").items():
            behind = data[max(self.log_end - int(path.name), 0) :]
            found += len(behind) - behind.count(0)
        return found

    # --- the queues

    @cached_property
    def queues(self) -> dict[tuple[str, int], dict[int, Entry]]:
        """Topic and queue id → queue offset → entry. Unreadable for a gap, or an entry behind one."""
        found: dict[tuple[str, int], dict[int, Entry]] = {}
        for path, data in self.folder("consumequeue").items():
            _, topic, queue_id, name = path.parts
            entries = found.setdefault((topic, int(queue_id)), {})
            first = int(name) // ENTRY.size
            for number, (offset, size, code) in enumerate(ENTRY.iter_unpack(data), first):
                if size in (ENTRY_FILLER, 0):
                    continue
                if entries and number - 1 not in entries:
                    raise Unreadable(f"{path}: no entry before {number}")
                entries[number] = Entry(offset, size, code)
        return found

    @cached_property
    def queue_ends(self) -> dict[tuple[str, int], int]:
        """Topic and queue id → the next queue offset: behind the last entry, else where the last file begins."""
        found: dict[tuple[str, int], int] = {}
        for path in self.folder("consumequeue"):
            _, topic, queue_id, name = path.parts
            entries = self.queues[topic, int(queue_id)]
            found[topic, int(queue_id)] = max(entries) + 1 if entries else int(name) // ENTRY.size
        return found

    @property
    def rolled(self) -> int:
        """The number of queues that have more than one file."""
        return sum(
            count > 1 for count in Counter(path.parent for path in self.folder("consumequeue")).values()
        )

    # --- the index

    @cached_property
    def indexed(self) -> dict[int, set[int]]:
        """Key hash → commit-log offsets of the items that the chains reach."""
        found: dict[int, set[int]] = defaultdict(set)
        for path, data in self.folder("index").items():
            _, _, _, _, _, count = INDEX_HEAD.unpack_from(data)
            slots = self.slots
            items = INDEX_HEAD.size + slots * INDEX_SLOT.size
            for slot in range(slots):
                (number,) = INDEX_SLOT.unpack_from(data, INDEX_HEAD.size + slot * INDEX_SLOT.size)
                while number:
                    if number >= count:
                        raise Unreadable(f"{path}: slot {slot} leads to item {number} of {count}")
                    hashed, offset, _, before = INDEX_ITEM.unpack_from(data, items + number * INDEX_ITEM.size)
                    if hashed % slots != slot or before >= number:
                        raise Unreadable(f"{path}: item {number} is in the chain of slot {slot}")
                    found[hashed].add(offset)
                    number = before
        return found

    slots = 64

    # --- the tables

    def table(self, name: str) -> Any:
        """The content of config/`name`; an empty table if there is no file."""
        for path in (f"config/{name}", f"config/{name}.bak"):
            if self.content.get(path):
                return json.loads(NUMERIC_KEY.sub(r'\1"\2"\3', self.content[path].decode()))
        return {}

    @property
    def topics(self) -> dict[str, Any]:
        found: dict[str, Any] = self.table("topics.json").get("topicConfigTable", {})
        return found

    @property
    def offsets(self) -> dict[tuple[str, str, int], int]:
        """(topic, group, queue id) → committed offset."""
        table = self.table("consumerOffset.json").get("offsetTable", {})
        return {
            (*key.split("@"), int(queue_id)): offset
            for key, queues in table.items()
            for queue_id, offset in queues.items()
        }
