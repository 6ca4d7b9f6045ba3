"""What real and hostile bytes lead to, a line each: `python -m tests.forms.outcomes FOLDER`, for either form of the
core.

Most lines are what the users of the core make of the bytes, whatever its functions are called: frames that are
decoded, replies of a broker, files of its store, records and batches that are read, findings on store folders.
With `--ran` they are the functions of the interpreted core that ran meanwhile, on a tenth of the hostile bytes.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import sha256
from itertools import chain, product
from pathlib import Path
from types import FrameType
from typing import Any, Final

import trio
import trio.testing
from hpack import HPACKError

from rmqcli import broker
from rmqcli.codec import core
from rmqcli.codec.batch_item import ITEM_HEAD, SMALLEST_ITEM, TEXT_LENGTH
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.compression import compress
from rmqcli.codec.core.agreement import entries_inside
from rmqcli.codec.core.columns import Columns
from rmqcli.codec.core.delivery import Delivery
from rmqcli.codec.core.hashing import crc32, index_key_hash, java_string_hash
from rmqcli.codec.core.property_pairs import write_pairs
from rmqcli.codec.core.walk import Walk
from rmqcli.codec.errors import CodecError
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import decode_batch, encode_batch
from rmqcli.codec.properties import decode_properties, mended_properties, properties_problem
from rmqcli.codec.proxy.frames import literal
from rmqcli.codec.proxy.http2 import HeaderReader
from rmqcli.codec.records.filter import record_filter
from rmqcli.codec.records.reading import decode_record, decode_records, peek_record, scan_record
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.connection import Connection
from rmqcli.codec.remoting.frame import decode_frame, encode_frame
from rmqcli.codec.store.consume_queue import ENTRY, FILLER
from rmqcli.codec.store.record_layout import MAGIC_V1, MAGIC_V2
from rmqcli.grammar.offset_range import OffsetRange
from rmqcli.store import CommitLogFiles
from rmqcli.store.read.folder import StoreFolder
from rmqcli.store.read.log_records import log_records
from rmqcli.store.repair.salvage import salvage
from rmqcli.store.stats.log_shape import shape_of
from rmqcli.store.verify.store import verify_store
from tests.codec.mutants import mutated, sources
from tests.codec.samples import make_record
from tests.codec.wire import KINDS, load_wire, with_length
from tests.seeds import times
from tests.support import unpack

CORE: Final = str(Path(core.__file__).parent)
VALUES: Final = [b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"]
"""What is written over each place, and so over each length."""
IS_TRACED: Final = "--ran" in sys.argv
THINNED: Final = 10 if IS_TRACED else max(1, 4 // times(1))
"""Which part of the hostile bytes is taken: each tenth, each fourth, or all where RMQ_SEEDS asks for as many."""
STEPS: Final = {"json": 7, "rocketmq": 1}
"""Places of a frame from one that is written over to the next: binary heads have lengths."""
STORES: Final = ("store-clean", "store-killed", "store-five")
SETTINGS: Final[dict[str, Any]] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 6_000,
    "max_hash_slot_num": 100,
    "max_index_num": 400,
}
STORED: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.CONSUMER_SEND_MSG_BACK)  # fmt: skip
RECORDS: Final = {MAGIC_V1, MAGIC_V2}
READING: Final = (RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID)

Line = tuple[str, object]


def outcome(function: Callable[..., object], *arguments: object) -> object:
    """Return what a function returns, or the error that the codec raises. Another error is a defect."""
    try:
        return function(*arguments)
    except CodecError as error:
        return type(error).__name__, str(error)


def overwritten(data: bytes, begin: int, end: int, step: int = 1) -> Iterator[bytes]:
    """Yield copies that have one of VALUES at a place, or end there."""
    for at in range(begin, end, step * THINNED):
        yield data[:at]
        for value in VALUES:
            yield data[:at] + value + data[at + len(value) :]


def frames() -> Iterator[Line]:
    for kind in KINDS:
        shapes, rng = sources(kind), random.Random(f"forms {kind}")
        for frame in shapes:
            yield f"frame {kind}", outcome(decode_frame, frame)
        for frame in random.Random(1).sample(shapes, 6):
            end = 4 + int.from_bytes(frame[1:4], "big")
            for changed in overwritten(frame, 0, min(end, 400), STEPS[kind]):
                yield f"frame {kind} {changed!r}", outcome(decode_frame, changed)
        for _ in range(3_000 // THINNED):
            changed = mutated(rng, shapes)
            yield f"frame {kind} {changed!r}", outcome(decode_frame, changed)
        for _ in range(50):
            stream = bytearray(b"".join(with_length(frame) for frame in rng.choices(shapes, k=5)))
            stream[rng.randrange(len(stream))] ^= 1 << rng.randrange(8)
            yield f"stream {kind} {bytes(stream)!r}", outcome(Connection().receive, bytes(stream))


def property_texts(count: int) -> Iterator[bytes]:
    """Yield property texts: of recorded messages, changed, and of bytes that mean something in them."""
    rng = random.Random("texts")
    known = sorted({text for _, _, text in batch_items()})
    names = b"TAGS KEYS UNIQ_KEY WAIT DELAY TIMER_DELAY_SEC CLUSTER PGROUP a".split()
    yield from (
        b"WAIT\1true\2WAIT\1true",
        b"WAIT\1false\2KEYS\1k\2",
        b"KEYS\1a\2KEYS\1b",
        b"\1",
        b"\2\2a\1b",
        b"a\1",
    )
    for _ in range(count):
        text = bytearray(rng.choice(known) if rng.random() < 0.3 else b"")
        for _ in range(rng.randrange(5)):
            text += rng.choice((b"", b"\2")) + rng.choice(names) + rng.choice((b"\1", b"\1", b"", b"\1\1"))
            text += (
                rng.choice((b"true", b"k1 k2", b" ", b"", "é😀".encode(), b"\xff", b"\xed\xa0\x80")) + b"\2"
            )
        if text and rng.random() < 0.5:
            text[rng.randrange(len(text))] = rng.choice(b"\0\1\2 \x7f\x80\xff")
        yield bytes(text)


def header_blocks() -> Iterator[Line]:
    """What the blocks of one connection lead to, damaged ones between the others: all are pieces that mean something."""
    rng, reader = random.Random("header blocks"), HeaderReader()
    pieces = b"\0 \1 \x10 \x3f \x40 \x7e \x7f \x80 \x82 \x83 \xbe \xfe \xff".split(b" ")
    pieces += [literal(b"te", b"trailers"), literal(b"x" * 126, b"v" * 126), b"\x10\2te\0", b"\0\1\xff\x7e"]
    for _ in range(8_000 // THINNED):
        block = b"".join(rng.choices(pieces, k=rng.randrange(7)))
        yield f"header block {block!r}", outcome(read_block, reader, block)
    yield "long header block", outcome(read_block, reader, literal(b"n", b"v" * 126) * 80)


def read_block(reader: HeaderReader, block: bytes) -> object:
    try:
        return reader.read(block)
    except HPACKError as error:  # its text may name an address in memory
        return type(error).__name__


def texts() -> Iterator[Line]:
    for data in property_texts(4_000 // THINNED):
        for function in (decode_properties, properties_problem, mended_properties):
            yield f"{function.__name__} {data!r}", outcome(function, data)
        first = make_record(properties=data)
        second = make_record(properties=b"a\1" + data, physical_offset=4096 + len(first))
        yield f"columns {data!r}", columns_of(first + second)
        for name in ("", "UNIQ_KEY"):
            yield f"pairs {data!r}", outcome(write_pairs, decode_properties(data), name, "1")
        word = data.decode("utf-8", "replace")
        hashes = java_string_hash(word), index_key_hash("topic", word), crc32(data)
        yield f"hashes {data!r}", hashes


def batch_bodies() -> list[bytes]:
    wires = [load_wire(kind) for kind in KINDS]
    rows = [(row, frame) for wire in wires for row, frame in zip(wire.index, wire.frames, strict=True)]
    return [
        frame[8 + row["headerLen"] :]
        for row, frame in rows
        if row["type"] == "request" and row["code"] == RequestCode.SEND_BATCH_MESSAGE
    ]


def batch_items() -> Iterator[tuple[int, bytes, bytes]]:
    for body in batch_bodies():
        for item in decode_batch(body):
            yield item.flag, item.body, item.properties


def batches() -> Iterator[Line]:
    for body in batch_bodies():
        yield f"batch {body[:60]!r}", outcome(decode_batch, body)
        for changed in overwritten(body, 0, min(len(body), 300)):
            yield f"batch {changed!r}", outcome(decode_batch, changed)


def records(folder: Path) -> Iterator[Line]:
    body, flag = compress(b"body " * 99)
    packed = make_record(body=body, sys_flag=flag)
    for record in (packed, *overwritten(packed, 0, len(packed), 3)):
        yield f"columns {record!r}", columns_of(record)
    for name in STORES:
        for path in sorted((folder / name / "store" / "commitlog").iterdir()):
            data = path.read_bytes()
            at = number = 0
            while at < len(data) and (head := peek_record(data, at)).magic in RECORDS:
                record = data[at : at + head.total_size]
                yield f"record {path.name} {at}", outcome(decode_record, record)
                yield f"scan {path.name} {at}", outcome(scan_record, record)
                if number % 800 == 0:
                    for changed in overwritten(record, 0, min(len(record), 300), 3):
                        for function in (decode_record, scan_record):
                            yield f"{function.__name__} {changed!r}", outcome(function, changed)
                at, number = at + head.total_size, number + 1
            yield f"walk {path.name}", outcome(walked, data)
            yield f"columns {path.name}", columns_of(data)
            for changed in overwritten(data[: min(at, 800)], 0, min(at, 800), 5):
                yield f"walk {changed!r}", outcome(walked, changed)
                yield f"columns {changed!r}", columns_of(changed)
            yield f"records {path.name}", outcome(partial(decode_records, check_crc=True), data[:at])


def columns_of(data: bytes) -> list[object]:
    """What the columns of the records before damage hold: with and without copies of bodies, walked and in two ranges."""
    found: list[object] = []
    for in_place in (False, True):
        columns, walk = Columns(data, in_place, True), Walk(data, -1, check_crc=in_place)
        found.append(outcome(columns.add_all, walk, 1_000, 1 << 20))
        found.append(contents(columns))
        columns.clear(not in_place)
        found.append(outcome(columns.add_runs, walk, [0, walk.position], [walk.position, len(data)]))
        found.append(contents(columns))
    return found


def contents(columns: Columns) -> list[object]:
    texts = (columns.msg_id, columns.offset_msg_id, columns.keys, columns.values, columns.bodies)
    codes = (columns.topic, columns.tags, columns.names, columns.born_host, columns.store_host)
    numbers = (
        columns.queue_id,
        columns.queue_offset,
        columns.born_timestamp,
        columns.store_timestamp,
        columns.flag,
    )
    more = (
        columns.sys_flag,
        columns.reconsume_times,
        columns.prepared_transaction_offset,
        columns.store_size,
    )
    others = (columns.body_crc, columns.commit_log_offset, columns.views, columns.key_ends, columns.pair_ends)
    return [
        (columns.count, columns.body_size, columns.buffers),
        [(one.count, one.data.getvalue(), one.ends.getvalue()) for one in texts],
        [(one.missing, one.texts, one.numbers.getvalue()) for one in codes],
        [one.getvalue() for one in (*numbers, *more, *others)],
    ]


def readings(folder: Path) -> Iterator[Line]:
    """What filters choose of whole logs, in place, and how the records count."""
    wheres = (
        "topic = 'SeedNormal' AND 1 >= queue_id",
        "store_size < 300.5 OR born_timestamp > 0 AND tags = 'tagA'",
    )
    filters = [record_filter(where=where) for where in wheres] + [record_filter(key="key-7", queue_id=1)]
    for name in STORES:
        log = CommitLogFiles(folder / name / "store")
        for chosen in filters:
            found = log_records(log, OffsetRange(begin=1000), chosen)
            yield f"chosen of {name}: {chosen}", [place.offset for place, _ in found]
        shape = shape_of(log)
        topics = [
            (one.statistics, one.bodies, one.largest_body, one.keyed, one.keys.count)
            for one in shape.topics.values()
        ]
        yield f"shape of {name}", (topics, shape.records, shape.rate.counts)


def walked(data: bytes) -> tuple[int, int, int]:
    walk = Walk(data, -1)
    walk.skip()
    return walk.position, walk.ending, walk.count


def deliveries() -> Iterator[Line]:
    """What pulls take of queue entries that name any place: in the log, around its ends, and nowhere."""
    rng = random.Random("deliveries")
    begin, end, size = log = 1 << 20, 9 << 20, 1 << 20
    places = (begin, end, 2 * size, 0, -(1 << 63), (1 << 63) - 1)
    for _ in range(2_000 // THINNED):
        entries = [
            (
                min(max(rng.choice(places) + rng.randint(-100, 100), -(1 << 63)), (1 << 63) - 1)
                if rng.random() < 0.4
                else rng.randrange(begin, end),
                rng.choice((0, 1, 91, 300, size, -1, (1 << 31) - 1, -(1 << 31))),
                rng.choice((0, 5, -1, -(1 << 31), -(1 << 63))),
            )
            for _ in range(rng.randrange(12))
        ]
        limits, most = (32, 1 << 20, 8, 600), rng.randrange(1, 40)
        delivery = Delivery(limits, most, log, rng.choice(places), None, None, None)
        full = delivery.read(b"".join(ENTRY.pack(*entry) for entry in entries)[: 20 * 11 + 7])
        places_taken = [[bytes(view) for view in file.views(memoryview(bytes(8)))] for file in delivery.files]
        counts = (
            delivery.count,
            delivery.size,
            delivery.scanned,
            delivery.last,
            delivery.end,
            delivery.has_removed,
        )
        yield f"delivery of {entries!r}", (full, counts, places_taken)


def stores(folder: Path) -> Iterator[Line]:
    """Whole store folders, and copies with a damaged log."""
    for name in STORES:
        root = folder / name / "store"
        yield f"verify {name}", verify_store(StoreFolder(root))
        rng = random.Random(name)
        log = max(path for path in (root / "commitlog").iterdir() if path.read_bytes().strip(b"\0"))
        sound = log.read_bytes()
        for number in range(6 // THINNED + 1):
            damaged, at = bytearray(sound), rng.randrange(len(sound.rstrip(b"\0")) - 4)
            damaged[at : at + 4] = rng.choice(VALUES)
            log.write_bytes(damaged)
            yield f"verify {name}, damage {number} at {at}", verify_store(StoreFolder(root))
            yield f"salvage {name}, damage {number} at {at}", salvage(root, folder / f"{name} {number}")
        log.write_bytes(sound)


def entries() -> Iterator[Line]:
    raw = b"".join(ENTRY.pack(offset, 100, 5) for offset in range(0, 3000, 100)) + FILLER
    for begins, ends in (([], []), ([0, 700], [650, 1200]), ([100], [5000])):
        yield f"entries inside {begins}", entries_inside(raw, len(raw) // ENTRY.size, begins, ends)


def requests_to_brokers(kind: str, code: int) -> list[tuple[int, bytes]]:
    """Return recorded requests of a code, each with the place of its body."""
    wire = load_wire(kind)
    return [
        (8 + row["headerLen"], frame)
        for row, frame in zip(wire.index, wire.frames, strict=True)
        if (row["code"], row["type"], row["role"]) == (code, "request", "broker") and row["length"] < 4_096
    ]


def recorded() -> Iterator[list[bytes]]:
    for kind, code in product(KINDS, (*STORED, *READING)):
        frames = [frame for _, frame in requests_to_brokers(kind, code)[: 200 // THINNED]]
        yield from ([b"".join(frames[at : at + 16])] for at in range(0, len(frames), 16))


def hostile() -> Iterator[list[bytes]]:
    rng = random.Random("requests")
    for kind in KINDS:
        shapes = []
        for code in (*STORED, *READING):
            known = requests_to_brokers(kind, code)
            shapes += [frame[4:] for _, frame in known]
            for body_at, frame in rng.sample(known, min(1, len(known))):
                for changed in overwritten(frame, 4, min(len(frame), body_at + 120), STEPS[kind]):
                    yield [with_length(changed[4:])]
        for _ in range(1_000 // THINNED):
            yield [with_length(mutated(rng, shapes))]


def made() -> Iterator[list[bytes]]:
    """What was not recorded: sends that wait for the disk, batches of any length, pulls that wait meanwhile."""
    text = "KEYS\1k1 k2\2TAGS\1TagA\2WAIT\1"
    item = encode_batch([Message.of("T", b"12345", tags="TagA")])
    yield [
        b"".join(send(f"{text}{word}\2") for word in ("true", "false", "true", "")),
        *(pull(offset, tag) for offset in (0, 4, 6, 10**6) for tag in ("*", "TagA", "TagB || TagC")),
        *(send("KEYS\1k", item * count, batch=True) for count in (1, 2, 63, 64, 65, 1_000, 40_000)),
    ]
    properties = list(property_texts(800 // THINNED))
    yield [send("a\1b") + send(text.decode("utf-8", "replace")) for text in properties]
    yield [send("WAIT\1true", batch_item(text), batch=True) for text in properties]


def batch_item(text: bytes) -> bytes:
    return (
        ITEM_HEAD.pack(SMALLEST_ITEM + 1 + len(text), 0, 0, 0, 1) + b"x" + TEXT_LENGTH.pack(len(text)) + text
    )


def send(properties: str, body: bytes = b"x", *, batch: bool = False) -> bytes:
    code = RequestCode.SEND_BATCH_MESSAGE if batch else RequestCode.SEND_MESSAGE_V2
    fields = {"a": "P", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 7, "h": 3, "j": 0, "k": "false"}
    return request(code, fields | {"i": properties, "m": str(batch).lower()}, body)


def pull(offset: int, tags: str) -> bytes:
    fields = {"consumerGroup": "CID_ONSAPI_G", "topic": "T", "queueId": 0, "queueOffset": offset}
    known = {"subscription": tags, "subVersion": 0, "expressionType": "TAG", "suspendTimeoutMillis": 15_000}
    return request(
        RequestCode.PULL_MESSAGE, fields | known | {"maxMsgNums": 32, "sysFlag": 6, "commitOffset": 0}
    )


def request(code: int, fields: Mapping[str, object], body: bytes = b"") -> bytes:
    ext_fields = {name: str(value) for name, value in fields.items()}
    return encode_frame(RemotingCommand(code, ext_fields=ext_fields, body=body))


async def replies(groups: Iterable[list[bytes]], store: Path, setting: dict[str, Any]) -> list[Line]:
    """Send bytes to a broker, on a connection each that stays open until its group ends; return what comes back."""
    lines: list[Line] = []
    async with broker.embedded_in_memory(store=store, **SETTINGS, **setting) as cluster:
        open_stream = cluster.client()["open_stream"]
        host, _, port = cluster.broker_address.rpartition(":")
        for group in groups:
            streams = []
            for data in group:
                streams.append(stream := await open_stream(host, int(port)))
                await stream.send_all(data)
                await trio.testing.wait_all_tasks_blocked()
            for data, stream in zip(group, streams, strict=True):
                answer = b""
                with trio.move_on_after(1):
                    await stream.send_stream.aclose()
                    async for part in stream:
                        answer += part
                await stream.aclose()
                lines.append((f"replies to {data!r}", answer))
    return lines


def broker_lines(folder: Path) -> Iterator[Line]:
    # Tasks of one moment run in an order by chance, but for this setting of trio's for Hypothesis.
    scheduler: Any = trio._core._run
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING, order = True, scheduler._r
    parts: dict[str, Iterable[list[bytes]]] = {
        "flush_disk_type ASYNC_FLUSH": chain(made(), recorded(), hostile()),
        "flush_disk_type SYNC_FLUSH": made(),
        "broker_role SYNC_MASTER": made(),
    }
    for setting, groups in parts.items():
        name, value = setting.split()
        store, clock = folder / value, trio.testing.MockClock(autojump_threshold=0)
        order.seed(0)
        yield from trio.run(replies, groups, store, {name: value}, clock=clock)
        for path in sorted(store.rglob("*")):
            if path.is_file():
                yield f"file {path.relative_to(store)}", sha256(path.read_bytes()).hexdigest()
        yield f"verify the store of a broker with {setting}", verify_store(StoreFolder(store))


def main() -> None:
    folder = Path(tempfile.mkdtemp(dir=sys.argv[1]))
    for name in STORES:
        unpack(name, folder)
    for part in (
        frames(),
        header_blocks(),
        texts(),
        batches(),
        deliveries(),
        records(folder),
        readings(folder),
        stores(folder),
        broker_lines(folder),
    ):
        for name, value in part:
            text = repr(value).replace(str(folder), "")
            if not IS_TRACED:
                print(sha256(f"{name} {text}".encode()).hexdigest()[:16], f"{name:.300} => {text:.300}")


def print_what_runs() -> None:
    ran: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(CORE):
            ran.add(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}")

    sys.setprofile(note)
    main()
    sys.setprofile(None)
    print(*sorted(ran), sep="\n")


if __name__ == "__main__":
    print_what_runs() if IS_TRACED else main()
