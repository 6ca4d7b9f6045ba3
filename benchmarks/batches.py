"""Batches of 32 messages: in process, from the body of a request to records, queue entries and index items,
by the CPU time of a message, against the encoding of its record alone; and sent to a broker, against single
sends.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import trio
from msgspec.structs import replace

from benchmarks.broker import SECONDS, address_of, cpu_of_one
from benchmarks.harness import Measured, cluster
from benchmarks.load import batch_frames, drive, first_reply, send_frames
from benchmarks.scan import one_core
from rmqcli.broker.disk import REAL
from rmqcli.broker.store.config import StoreConfig
from rmqcli.broker.store.store import MessageStore, open_store
from rmqcli.broker.store.values import StoreMessage
from rmqcli.codec.codes import SerializeType
from rmqcli.codec.core.hashing import crc32
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.properties import encode_properties
from rmqcli.codec.remoting.frame import decode_frame
from rmqcli.codec.store.record_layout import PREFIXES

ITEMS, BATCHES, ROUNDS = 32, 200, 5
IN_FLIGHT = 1, 16
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
TOPIC = "BenchTopic"
KINDS: dict[str, tuple[Callable[[random.Random], int], bool]] = {
    "128 bytes each": (lambda _: 128, False),
    "128 bytes each, keyed": (lambda _: 128, True),
    "100 to 1,500 bytes": (lambda rng: rng.randrange(100, 1500), False),
}
"""The sizes of the bodies; with a key, and one of ten tags, or with the same tag."""


def batches() -> Iterator[Measured]:
    """Messages with the properties that Java's producer sets."""
    for name, (size_of, keyed) in KINDS.items():
        sent = _sent(size_of, keyed=keyed)
        with one_core():
            floor = min(_seconds_of(partial(_encode, sent)) for _ in range(ROUNDS))
            stored = min(trio.run(_store, sent) for _ in range(ROUNDS))
        count = ITEMS * BATCHES
        yield Measured(
            f"batch of {ITEMS}, {name}", stored / count * 1e6, "µs/msg", stored / floor, "encoding alone"
        )


def batches_sent() -> Iterator[Measured]:
    """Measure the same over loopback, with binary headers, by messages a second and the broker's CPU for one."""
    for name, (size_of, keyed) in KINDS.items():
        rng = random.Random(1)
        bodies = [[bytes(size_of(rng)) for _ in range(ITEMS)] for _ in range(BATCHES)]
        single = send_frames("Bench", body=bytes(128), kind=SerializeType.ROCKETMQ)
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
            address, pid = address_of(up["broker"]), up["pid"]
            frames = batch_frames("Bench", bodies, keyed=keyed)
            assert decode_frame(first_reply(address, single[0])).code == 0
            assert decode_frame(first_reply(address, frames[0])).code == 0
            for in_flight in IN_FLIGHT:
                alone = drive(address, single, in_flight, SECONDS).per_second
                rate = drive(address, frames, in_flight, SECONDS).per_second * ITEMS
                row = f"batch of {ITEMS}, {name}, sent, {in_flight} in flight"
                yield Measured(row, rate, "msg/s", rate / alone, "single sends of 128 bytes")
                cpu = cpu_of_one(address, frames, in_flight, pid) / ITEMS
                yield Measured(f"{row}, CPU", cpu, "µs/msg")


def _sent(size_of: Callable[[random.Random], int], *, keyed: bool) -> list[list[Message]]:
    rng = random.Random(1)

    def message(number: int) -> Message:
        properties = {"TAGS": "paid", "UNIQ_KEY": f"{number:032X}", "WAIT": "true"}
        if keyed:
            properties |= {"TAGS": f"tag{number * 7 % 10}", "KEYS": f"{number // 4096:010}"}
        return Message(topic=TOPIC, body=bytes(size_of(rng)), properties=properties)

    return [[message(batch * ITEMS + item) for item in range(ITEMS)] for batch in range(BATCHES)]


def _encode(sent: list[list[Message]]) -> None:
    """Make the records of all messages with struct and join alone."""
    pack, topic, text = PREFIXES[0].pack, b"\x0a" + TOPIC.encode(), encode_properties(sent[0][0].properties)
    for batch in sent:
        for message in batch:
            body = message.body
            numbers = 0, 0, 0, 0, 0, 0, HOST, 0, HOST, 0, 0, len(body)
            b"".join((pack(0, 0, crc32(body), *numbers), body, topic, len(text).to_bytes(2, "big"), text))


async def _store(sent: list[list[Message]]) -> float:
    common = StoreMessage(TOPIC, 0, b"", {}, b"", 0, HOST)
    requests = [replace(common, body=encode_batch(batch)) for batch in sent]
    with tempfile.TemporaryDirectory() as folder:
        config = StoreConfig(root=Path(folder))
        async with open_store(
            config,
            now_ms=lambda: time.time_ns() // 1_000_000,
            store_host=HOST,
            in_thread=trio.to_thread.run_sync,
            disk=REAL,
        ) as store:
            await store.when_ready(lambda: _append(store, requests[0]))
            store.query(TOPIC, "key", 1, 0, 0)  # makes the first file of the index
            return _seconds_of(partial(_append_all, store, requests))


def _append_all(store: MessageStore, requests: list[StoreMessage]) -> None:
    for request in requests:
        _append(store, request)


def _append(store: MessageStore, request: StoreMessage) -> None:
    steps = store.writer.prepare_batch(request)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            for part in end.value:
                store.writer.append_batch(part)
            return


def _seconds_of(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started
