"""Transactions that end while the disk refuses their op messages."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rmqcli.broker.context import BrokerContext
from rmqcli.broker.errors import NotReady
from rmqcli.broker.services import put as puts
from rmqcli.broker.services.transactions import half
from rmqcli.broker.store.values import AppendResult, PutStatus, StoreMessage
from tests.broker.support import fake_broker
from tests.broker.transactions.support import (
    COMMIT,
    OP,
    ROLLBACK,
    answer,
    bodies,
    end,
    producer,
    progress,
    questions,
    send_half,
)

MINUTE = 60


def no_file() -> AppendResult:
    return AppendResult(PutStatus.CREATE_MAPEDFILE_FAILED)


def never_ready() -> AppendResult:
    async def ready() -> None:
        raise OSError(errno.EIO, "Input/output error")

    raise NotReady(ready)


class Refusing:
    """A put that refuses as many op messages as `times` says."""

    def __init__(self, refuse: Callable[[], AppendResult] = no_file) -> None:
        self.times = 0.0
        self._refuse = refuse

    def __call__(self, broker: BrokerContext, message: StoreMessage) -> AppendResult:
        if message.topic == OP and self.times > 0:
            self.times -= 1
            return self._refuse()
        return puts.put(broker, message)


@pytest.fixture
def refusing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Refusing:
    put = Refusing(getattr(request, "param", no_file))
    monkeypatch.setattr(half, "put", put)
    return put


@pytest.mark.parametrize("refusing", [no_file, never_ready], indirect=True)
@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_commit_is_not_checked_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock, refusing: Refusing, times: int
) -> None:
    refusing.times = times
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        assert (await end(client, await send_half(client))).code == 0, "the message is stored"
        await trio.sleep(5 * MINUTE)
        assert (questions(client), bodies(broker), bodies(broker, OP)) == ([], [b"half"], [b"0"])
        assert progress(broker) == (1, 1)


async def test_the_next_end_writes_the_op_message(tmp_path: Path, refusing: Refusing) -> None:
    refusing.times = 1
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        first, second = await send_half(client, b"first"), await send_half(client, b"second")
        await end(client, second)
        assert bodies(broker, OP) == []
        await end(client, first)
        assert bodies(broker, OP) == [b"1", b"0"]


async def test_a_copy_is_not_checked_again(
    tmp_path: Path, autojump_clock: trio.abc.Clock, refusing: Refusing
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await send_half(client)
        await trio.sleep(MINUTE + 1)
        refusing.times = 3
        assert (await answer(client, COMMIT)).code == 0
        await trio.sleep(10 * MINUTE)
        assert len(questions(client)) == 1
        assert (bodies(broker), bodies(broker, OP)) == ([b"half"], [b"1"])


async def test_rollbacks_on_a_full_disk_are_stored_once_there_is_room(
    tmp_path: Path, autojump_clock: trio.abc.Clock, refusing: Refusing
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        sent = [await send_half(client, str(number).encode()) for number in range(30)]
        refusing.times = math.inf
        for one in sent:
            assert (await end(client, one, ROLLBACK)).code == 0
        await trio.sleep(3 * MINUTE)
        assert (questions(client), bodies(broker, OP)) == ([], [])
        refusing.times = 0
        await trio.sleep(MINUTE + 1)
        assert bodies(broker, OP) == [str(number).encode() for number in range(30)]
        await trio.sleep(3 * MINUTE)
        assert (questions(client), bodies(broker)) == ([], [])
        assert progress(broker) == (30, 30)


async def test_an_end_writes_few_of_many_that_wait(tmp_path: Path, refusing: Refusing) -> None:
    async with fake_broker(tmp_path) as broker:
        client = broker.client()
        sent = [await send_half(client, str(number).encode()) for number in range(30)]
        refusing.times = math.inf
        for one in sent[1:]:
            await end(client, one, ROLLBACK)
        refusing.times = 0
        await end(client, sent[0], ROLLBACK)
        assert bodies(broker, OP) == [b"1", b"2"]


@pytest.mark.parametrize(("has_room", "checks"), [(True, 0), (False, 1)])
async def test_a_stop_stores_what_the_disk_takes(
    tmp_path: Path, autojump_clock: trio.abc.Clock, refusing: Refusing, has_room: bool, checks: int
) -> None:
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        sent = await send_half(client)
        refusing.times = math.inf
        await end(client, sent, ROLLBACK)
        refusing.times = 0 if has_room else math.inf
    async with fake_broker(tmp_path) as broker:
        client = await producer(broker)
        await trio.sleep(MINUTE + 1)
        assert len(questions(client)) == checks
