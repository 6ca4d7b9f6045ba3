"""A broker in a process of its own, and four producers that load it until it ends."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import trio

from rmqcli.client import ClientError, Producer, SendStatus
from rmqcli.codec.ids import parse_offset_msg_id
from rmqcli.codec.message import Message
from tests.crash.real_store import TOPIC, Ack, Acked
from tests.crash.runner import READY, Machine
from tests.processes import Process, announced, ended, launched, up
from tests.support import PATIENCE

PRODUCERS = 4
SEND_TIMEOUT = 2.0
Settings = Mapping[str, object]
"""Properties of a broker."""

SETTINGS: Settings = {
    "mappedFileSizeCommitLog": 8 << 20,
    "maxMessageSize": 4096,
    "defaultTopicQueueNums": 4,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 20_000,
}
SMALL_FILES: Settings = {
    "mappedFileSizeCommitLog": 64 << 10,
    "mappedFileSizeConsumeQueue": 4100,
    "maxIndexNum": 1000,
}
"""They roll after about 100 messages, after 200 of a queue, and after 500 messages."""

End = Callable[[], Awaitable[object]]


class Round(NamedTuple):
    """A broker in a process, from its start to its end; `words` announced it."""

    process: Process
    words: dict[str, str]


@contextmanager
def starting(store: Path, settings: Settings, machine: Machine | None = None) -> Iterator[Process]:
    """A broker that has imported what it needs, and starts now."""
    command = (sys.executable, "-m", "tests.crash.runner", str(machine.path) if machine else "")
    with ended(launched(up(store, {**SETTINGS, **settings}), command)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == READY
        yield process


@contextmanager
def running(store: Path, settings: Settings, machine: Machine | None = None) -> Iterator[Round]:
    """A broker that has recovered its store and serves."""
    with starting(store, settings, machine) as process:
        yield Round(process, announced(process))


def stopped(store: Path, settings: Settings) -> None:
    """Starts a broker once more and stops it cleanly."""
    with running(store, settings) as (process, _):
        process.terminate()
        assert process.wait(PATIENCE) == 0
    assert not (store / "abort").exists()


async def load(
    namesrv: str,
    acked: Acked,
    name: object,
    wanted: int,
    end: End,
    *,
    send_timeout: float = SEND_TIMEOUT,
    failed: Counter[str] | None = None,
    most: int = 700,
) -> None:
    """Four producers send. After `wanted` more acknowledgements `end` begins, which ends the broker.

    Every acknowledged message is recorded at once. `name` tells the messages of this call from all others.
    Bodies have up to `most` characters. `failed` counts the sends that had no reply, or a refusal, before the broker ended, by error.
    """
    enough, over, target = trio.Event(), trio.Event(), len(acked) + wanted
    failed = Counter() if failed is None else failed

    async def produce(number: int) -> None:
        producing = Producer(
            f"crash-{number}", namesrv=namesrv, retries=0, send_timeout=send_timeout, compression=None
        )
        async with producing as producer:
            for n in itertools.count():
                body = f"{name}-{number}-{n}-" + "x" * (n * 7919 % most)
                message = Message.of(TOPIC, body.encode(), keys=[f"{number}-{n}"])
                try:
                    result = await producer.send(message)
                except (
                    ClientError
                ) as error:  # the broker has ended or refuses, or the machine is busy: timed out
                    if over.is_set():
                        return
                    failed[type(error).__name__] += 1
                    await trio.sleep(0.01)
                    continue
                if result.status is not SendStatus.SEND_OK:
                    assert enough.is_set()  # the disk has failed before the process ended
                    continue
                at = (result.message_queue.queue_id, result.queue_offset)
                assert at not in acked, f"queue offset {at} was given twice"
                acked[at] = Ack(result.msg_id, body, parse_offset_msg_id(result.offset_msg_id)[2])
                if len(acked) >= target:
                    enough.set()

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for number in range(PRODUCERS):
                nursery.start_soon(produce, number)
            await enough.wait()
            await end()
            over.set()
