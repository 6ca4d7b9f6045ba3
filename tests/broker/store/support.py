"""Makes stores and messages; rebuilds queues and index from a commit log alone, with the codec only."""

from __future__ import annotations

import contextlib
import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import trio

from rmqcli.broker.disk import REAL, Disk
from rmqcli.broker.store import MessageStore, StoreConfig, StoreMessage, open_store
from rmqcli.broker.store.batches import LONG_PROPERTIES
from rmqcli.broker.store.values import AppendResult
from rmqcli.codec.core.hashing import index_key_hash, tags_code
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.core.sends import Sends
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.ids import pack_host
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.records.reading import decode_record, peek_record
from rmqcli.codec.store.consume_queue import ENTRY, FILLER
from rmqcli.codec.store.index_file import (
    HEADER,
    ITEM,
    SLOT,
    index_file_size,
    item_position,
    slot_position,
    time_difference,
)
from rmqcli.codec.store.record_layout import MAGIC_FILLER, MAGIC_V1

HOST = pack_host("127.0.0.1", 10911)
BORN = pack_host("10.0.0.7", 40000)
LOG_SIZE = 16 * 1024
QUEUE_SIZE = 20 * 16
SLOTS = 64
ITEMS = 256
START_MS = 1_700_000_000_000
COUNT = 100


class Clock:
    """Milliseconds that pass only when told, or `step` at each look."""

    def __init__(self, now: int = START_MS, step: int = 0) -> None:
        self.now = now
        self.step = step

    def __call__(self) -> int:
        self.now += self.step
        return self.now


async def inline(function: Any, *arguments: Any) -> Any:
    """Stands for a worker thread where the clock is virtual."""
    await trio.lowlevel.checkpoint()
    return function(*arguments)


def small_config(root: Path, **settings: Any) -> StoreConfig:
    """Files so small that a few messages roll all of them."""
    sizes: dict[str, Any] = {
        "mapped_file_size_commit_log": LOG_SIZE,
        "mapped_file_size_consume_queue": QUEUE_SIZE,
        "max_hash_slot_num": SLOTS,
        "max_index_num": ITEMS,
    }
    return StoreConfig(root=root, **(sizes | settings))


@contextlib.contextmanager
def loaded(config: StoreConfig, clock: Clock | None = None, disk: Disk = REAL) -> Iterator[MessageStore]:
    """A store without services; leaving the block closes it as a killed process would."""
    store = MessageStore(config, now_ms=clock or Clock(step=7), store_host=HOST, in_thread=inline, disk=disk)
    try:
        store.load()
        yield store
    finally:
        store.close()


def message(
    number: int = 0,
    *,
    topic: str = "TopicA",
    queue_id: int = 0,
    size: int = 100,
    sys_flag: int = 0,
    **properties: str,
) -> StoreMessage:
    """A message that tells its number in body, key and UNIQ_KEY."""
    pairs = {"UNIQ_KEY": f"{number:032X}", "KEYS": f"k{number} all", "TAGS": f"Tag{number % 3}"} | properties
    return StoreMessage(
        topic=topic,
        queue_id=queue_id,
        body=f"{number}:".encode().ljust(size, b"b"),
        properties=pairs,
        properties_text=encode_properties(pairs),
        born_timestamp=START_MS - 5,
        born_host=BORN,
        sys_flag=sys_flag,
    )


class Heard:
    """A listener: topic, queue, queue offset, commit-log offset, tags code and properties of each message."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, int, int, int, int, bytes]] = []

    def __call__(self, stored: QueueRun) -> None:
        for place, facts in enumerate(zip(stored.offsets, stored.codes, stored.texts, strict=True)):
            self.messages.append((stored.topic, stored.queue_id, stored.queue_offset + place, *facts))

    @property
    def offsets(self) -> list[int]:
        return [queue_offset for _, _, queue_offset, *_ in self.messages]


def told_of(sent: StoreMessage, result: AppendResult) -> tuple[str, int, int, int, int, bytes]:
    """What a listener hears of a message."""
    code = tags_code(sent.properties["TAGS"])
    place = sent.topic, sent.queue_id, result.queue_offset, result.physical_offset
    return *place, code, sent.properties_text


class Plain:
    """Stands for the request of a send."""

    flag = serialize_type = opaque = 0

    def __init__(self, sent: StoreMessage) -> None:
        self.body = sent.body
        self.header = SendMessageRequestHeaderV2(
            producer_group="G",
            topic=sent.topic,
            default_topic="",
            default_topic_queue_nums=4,
            queue_id=sent.queue_id,
            sys_flag=sent.sys_flag,
            born_timestamp=sent.born_timestamp,
            flag=sent.flag,
            properties=sent.properties_text.decode(),
            reconsume_times=sent.reconsume_times,
        )


def append_run(store: MessageStore, messages: Sequence[StoreMessage], own: bytes = b"") -> int:
    """Store the plain messages at the beginning with one write; return their number."""
    sends = Sends(store.writer.begin_run(), store.writer.run_of, own, BORN, 4096, LONG_PROPERTIES, False)
    for each in messages:
        request = Plain(each)
        if not sends.take(request, request.header):
            break
    if len(sends):
        store.writer.append_run(sends.run, sends.queues)
    return len(sends)


def killed(root: Path, target: Path, *, power_lost: bool = False) -> Path:
    """A copy of a folder in use, as a killed process leaves it; after a power loss the boot id is another."""
    shutil.copytree(root, target)
    if power_lost and (target / "abort").exists():
        (target / "abort").write_bytes(b"")
    return target


async def use(root: Path, copy: Path) -> None:
    """Fills two topics with `COUNT` messages; `copy` is the folder as a killed process leaves it."""
    clock = Clock(step=7)
    async with open_store(small_config(root), now_ms=clock, store_host=HOST, in_thread=inline) as store:
        for number in range(COUNT):
            store.writer.append(message(number, topic="AB"[number % 5 == 0], queue_id=number % 3))
        killed(root, copy)


def numbers(store: MessageStore, topic: str, queue_id: int) -> list[int]:
    """The numbers of all messages of a queue, read from its minimum on."""
    found: list[int] = []
    offset = store.search.min_offset(topic, queue_id)
    while (result := store.reader.get(topic, queue_id, offset, 32)).count:
        offset = result.next_begin_offset
        data = b"".join(result.views)
        position = 0
        while position < len(data):
            record = decode_record(data, position, check_crc=True)
            found.append(int(record.body.split(b":")[0]))
            position += record.store_size
    return found


class Rebuild:
    """Queues and index files of a folder, built again from its commit log by the rules of the format."""

    def __init__(self, root: Path) -> None:
        self.records = []
        for path in sorted((root / "commitlog").iterdir()):
            data = path.read_bytes()
            position = 0
            while position + 8 <= len(data):
                size, magic = peek_record(data, position)
                if magic == MAGIC_FILLER or magic != MAGIC_V1:
                    break
                self.records.append(decode_record(data, position, check_crc=True))
                position += size

    def queues(self) -> dict[str, bytes]:
        """Bytes of each queue, without what follows the last unit, by `topic/queueId`."""
        content: dict[str, bytes] = defaultdict(bytes)
        for record in self.records:
            if record.sys_flag & 4:
                continue
            name = f"{record.topic}/{record.queue_id}"
            if not content[name] and record.queue_offset:
                content[name] = FILLER * record.queue_offset
            assert len(content[name]) == record.queue_offset * ENTRY.size
            content[name] += ENTRY.pack(
                record.commit_log_offset, record.store_size, tags_code(record.tags or None)
            )
        return dict(content)

    def index_files(self, slots: int, items: int) -> list[bytes]:
        """Whole index files in order."""
        files: list[bytearray] = []
        for record in self.records:
            if record.sys_flag & 12 == 12:
                continue
            unique = record.properties.get("UNIQ_KEY")
            for key in ([unique] if unique else []) + record.properties.get("KEYS", "").split():
                if not files or HEADER.unpack_from(files[-1], 0)[5] >= items:
                    files.append(_new_index_file(files, slots, items))
                _put(files[-1], slots, index_key_hash(record.topic, key), record)
        return [bytes(file) for file in files]


def _new_index_file(files: list[bytearray], slots: int, items: int) -> bytearray:
    file = bytearray(index_file_size(slots, items))
    _, end_time, _, end_offset, _, _ = HEADER.unpack_from(files[-1], 0) if files else (0,) * 6
    HEADER.pack_into(file, 0, end_time, end_time, end_offset, end_offset, 0, 1)
    return file


def _put(file: bytearray, slots: int, key_hash: int, record: Any) -> None:
    begin, _, begin_offset, _, used, count = HEADER.unpack_from(file, 0)
    at = slot_position(key_hash % slots)
    (previous,) = SLOT.unpack_from(file, at)
    seconds = time_difference(begin, record.store_timestamp)
    ITEM.pack_into(file, item_position(slots, count), key_hash, record.commit_log_offset, seconds, previous)
    SLOT.pack_into(file, at, count)
    if count == 1:
        begin, begin_offset = record.store_timestamp, record.commit_log_offset
    HEADER.pack_into(
        file,
        0,
        begin,
        record.store_timestamp,
        begin_offset,
        record.commit_log_offset,
        used + (not previous),
        count + 1,
    )


def queue_bytes(root: Path) -> dict[str, bytes]:
    """The content of the queue files of a folder up to the last entry, by `topic/queueId`."""
    content: dict[str, bytes] = defaultdict(bytes)
    for path in sorted((root / "consumequeue").rglob("*")):
        if path.is_file():
            content[f"{path.parent.parent.name}/{path.parent.name}"] += path.read_bytes()
    return {name: _without_zero_units(data) for name, data in content.items() if any(data)}


def _without_zero_units(data: bytes) -> bytes:
    units = len(data) // ENTRY.size
    while units and not any(data[(units - 1) * ENTRY.size : units * ENTRY.size]):
        units -= 1
    return data[: units * ENTRY.size]
