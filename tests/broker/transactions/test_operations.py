"""The op queue as one walk of the half queue reads it."""

from __future__ import annotations

from pathlib import Path

from broker.services.transactions.operations import Operations
from broker.store.values import StoreMessage
from codec.ids import pack_host
from tests.broker.support import HOST, FakeBroker, fake_broker
from tests.broker.transactions.support import OP


def write(broker: FakeBroker, *bodies: bytes) -> None:
    for body in bodies:
        broker.context.store.append(StoreMessage(OP, 0, body, {}, b"TAGS\x01d", 0, pack_host(*HOST)))


def read_all(operations: Operations) -> int:
    batches = 0
    while operations.read():
        batches += 1
    return batches


async def test_progress_goes_over_what_is_used_up_only(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"2", b"0", b"1")
        operations = Operations(broker.context.store, 0, 0)
        assert not operations.take(0), "not read yet"
        assert (read_all(operations), operations.progress) == (1, 0)
        assert (operations.take(0), operations.take(1), operations.progress) == (True, True, 0)
        assert (operations.take(2), operations.progress) == (True, 3)
        assert not operations.take(2)
        write(broker, b"3")
        assert operations.read() and operations.take(3)
        assert operations.progress == 4


async def test_half_messages_before_the_walk_need_nothing(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"4", b"9", b"5")
        operations = Operations(broker.context.store, 0, 6)
        read_all(operations)
        assert (operations.progress, operations.late) == (1, {4, 5})
        assert operations.take(9) and operations.progress == 3


async def test_two_ends_of_one_half_message(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"7", b"7", b"8")
        operations = Operations(broker.context.store, 0, 7)
        read_all(operations)
        assert operations.take(7) and not operations.take(7)
        assert operations.progress == 2


async def test_lists_of_5x_are_understood_and_nonsense_is_used_up(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, b"1,3,3,2,", b"", b"x", b"-5", b"9" * 500, b"\xff\xfe", b"0,")
        operations = Operations(broker.context.store, 0, 0)
        read_all(operations)
        taken = [offset for offset in range(5) if operations.take(offset)]
        assert (taken, operations.progress) == ([0, 1, 2, 3], 7)


async def test_many_are_read_in_batches_from_the_progress_on(tmp_path: Path) -> None:
    async with fake_broker(tmp_path) as broker:
        write(broker, *(str(n).encode() for n in range(400)))
        operations = Operations(broker.context.store, 100, 100)
        assert read_all(operations) == 11, "the end of a queue file (300) ends a batch"
        assert all(operations.take(offset) for offset in range(100, 400))
        assert operations.progress == 400
        assert Operations(broker.context.store, 9000, 0).progress == 400
