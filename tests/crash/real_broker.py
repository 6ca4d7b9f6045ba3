"""A broker in a process of its own, four producers that load it until it ends, and what its files must hold."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import trio

from codec.message import Message
from codec.store.consume_queue import ENTRY
from codec.store.record import decode_record, peek_record
from codec.store.record_layout import MAGIC_FILLER
from rmqcli.client import ClientError, Producer, SendResult, SendStatus
from tests.support import PATIENCE

PRODUCERS = 4
QUEUES = 4
SEGMENT = 8 * 1024 * 1024

Acked = dict[tuple[int, int], tuple[str, str]]  # (queue id, queue offset) -> (message id, body)


class Moment(NamedTuple):
    """When the broker ends: so many acknowledgements of the round, then so many seconds."""

    acknowledged: int
    seconds: float


@contextmanager
def running(store: Path, flush: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    settings = [
        f"mappedFileSizeCommitLog={SEGMENT}",
        f"flushDiskType={flush}",
        f"defaultTopicQueueNums={QUEUES}",
    ]
    command = [
        sys.executable,
        "-m",
        "rmqcli",
        "up",
        "--json",
        "--port",
        "0",
        "--namesrv-port",
        "0",
        "--store",
        str(store),
    ]
    for setting in settings:
        command += ["--set", setting]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())["namesrv"]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


async def load(
    namesrv: str, acked: Acked, round_number: int, moment: Moment, end: Callable[[], object]
) -> None:
    """Four producers send until `end`, which ends the broker; every acknowledged message is recorded at once."""
    enough, target = trio.Event(), len(acked) + moment.acknowledged

    async def produce(number: int) -> None:
        async with Producer(f"crash-{number}", namesrv=namesrv, retries=0, send_timeout=2.0) as producer:
            for n in itertools.count():
                body = f"{round_number}-{number}-{n}-" + "x" * (n % 700)
                try:
                    result: SendResult = await producer.send(
                        Message.of("Crash", body.encode(), keys=[f"{number}-{n}"])
                    )
                except ClientError:
                    if enough.is_set():
                        return
                    continue  # a busy machine: timed out
                if result.status is not SendStatus.SEND_OK:
                    assert enough.is_set()  # the disk has failed before the process ended
                    continue
                at = (result.message_queue.queue_id, result.queue_offset)
                assert at not in acked, f"queue offset {at} was given twice"
                acked[at] = (result.msg_id, body)
                if len(acked) >= target:
                    enough.set()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(PRODUCERS):
                nursery.start_soon(produce, number)
            await enough.wait()
            await trio.sleep(moment.seconds)
            end()


def commit_log_records(store: Path) -> Iterator[tuple[int, int, int, bytes]]:
    """(queue id, queue offset, commit-log offset, record) of the topic, walked by sizes alone."""
    for segment in sorted((store / "commitlog").iterdir()):
        data, position, base = segment.read_bytes(), 0, int(segment.name)
        while position + 8 <= len(data):
            head = peek_record(data, position)
            if head.total_size == 0 or head.magic == MAGIC_FILLER:
                break
            message = decode_record(data, position, check_crc=True)
            assert message.commit_log_offset == base + position
            if message.topic == "Crash":
                yield (
                    message.queue_id,
                    message.queue_offset,
                    base + position,
                    data[position : position + head.total_size],
                )
            position += head.total_size


def consume_queue(store: Path, queue_id: int) -> list[tuple[int, int]]:
    data = b"".join(p.read_bytes() for p in sorted((store / "consumequeue/Crash" / str(queue_id)).iterdir()))
    entries = (ENTRY.unpack_from(data, at) for at in range(0, len(data), ENTRY.size))
    return [(offset, size) for offset, size, _tags in entries if size > 0]


def check_store(store: Path, acked: Acked) -> None:
    """The log holds what was acknowledged, once and in order, and the consume queues agree with it."""
    from_log: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    bodies: dict[tuple[int, int], tuple[str, str]] = {}
    for queue_id, queue_offset, at, record in commit_log_records(store):
        message = decode_record(record)
        from_log[queue_id].append((queue_offset, at, len(record)))
        bodies[queue_id, queue_offset] = (message.msg_id, message.body.decode())
    lost = {at: what for at, what in acked.items() if bodies.get(at) != what}
    assert not lost, (
        f"{len(lost)} of {len(acked)} acknowledged messages are gone or changed, first {next(iter(lost.items()))}"
    )
    for queue_id, records in from_log.items():
        assert [offset for offset, _, _ in records] == list(range(len(records))), (
            "gaps or duplicates in the queue offsets"
        )
        assert consume_queue(store, queue_id) == [(at, size) for _, at, size in records]
