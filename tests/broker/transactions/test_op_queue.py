"""The op queue as one scan of the half queue reads it."""

from __future__ import annotations

from pathlib import Path

from rmqcli.broker.services.transactions.op_queue import OpQueue
from rmqcli.broker.store.values import StoreMessage
from rmqcli.codec.ids import pack_host
from tests.broker.support import HOST, FakeBroker, fake_broker
from tests.broker.transactions.support import OP


def write(broker: FakeBroker, *bodies: bytes) -> None:
    for body in bodies:
        broker.context.store.writer.append(StoreMessage(OP, 0, body, {}, b"TAGS\x01d", 0, pack_host(*HOST)))


def read_all(queue: OpQueue) -> int:
    batches = 0
    while queue.read():
        batches += 1
    return batches


async def test_progress_advances_over_used_up_messages_only(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"2", b"0", b"1")
        queue = OpQueue(broker.context.store, 0, 0)
        assert not queue.take(0), "not read yet"
        assert (read_all(queue), queue.progress) == (1, 0)
        assert (queue.take(0), queue.take(1), queue.progress) == (True, True, 0)
        assert (queue.take(2), queue.progress) == (True, 3)
        assert not queue.take(2)
        write(broker, b"3")
        assert queue.read() and queue.take(3)
        assert queue.progress == 4


async def test_half_messages_before_the_scan_are_not_needed(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"4", b"9", b"5")
        queue = OpQueue(broker.context.store, 0, 6)
        read_all(queue)
        assert (queue.progress, queue.late) == (1, {4, 5})
        assert queue.take(9) and queue.progress == 3


async def test_two_ends_of_one_half_message(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"7", b"7", b"8")
        queue = OpQueue(broker.context.store, 0, 7)
        read_all(queue)
        assert queue.take(7) and not queue.take(7)
        assert queue.progress == 2


async def test_lists_of_5x_are_read_and_invalid_bodies_are_used_up(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"1,3,3,2,", b"", b"x", b"-5", b"9" * 500, b"\xff\xfe", b"0,")
        queue = OpQueue(broker.context.store, 0, 0)
        read_all(queue)
        taken = [offset for offset in range(5) if queue.take(offset)]
        assert (taken, queue.progress) == ([0, 1, 2, 3], 7)


async def test_op_messages_are_read_in_batches_from_the_progress(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, *(str(n).encode() for n in range(400)))
        queue = OpQueue(broker.context.store, 100, 100)
        assert read_all(queue) == 11, "the end of a queue file (300) ends a batch"
        assert all(queue.take(offset) for offset in range(100, 400))
        assert queue.progress == 400
        assert OpQueue(broker.context.store, 9000, 0).progress == 400
