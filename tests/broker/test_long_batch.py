"""A long batch is stored as a whole, whatever becomes of its sender."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel

from rmqcli.broker.net.turns import Pace
from rmqcli.broker.store.batches import PART_MESSAGES
from rmqcli.broker.testing.in_memory import embedded_in_memory
from rmqcli.client import PullConsumer
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.message import Message
from rmqcli.codec.message_batch import encode_batch
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import encode_frame
from tests.broker.support import send_header

ITEMS = 8 * PART_MESSAGES


async def test_a_sender_disconnects_before_the_last_part(
    autojump_clock: trio.abc.Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = encode_batch([Message.of("T", f"{n}") for n in range(ITEMS)])
    frame = encode_frame(RemotingCommand(320, to_ext(send_header("T", batch=True)), body, opaque=1))
    monkeypatch.setattr(Pace, "is_over", True)
    async with embedded_in_memory() as cluster:
        host, _, port = cluster.broker_address.rpartition(":")
        stream = await cluster.client()["open_stream"](host, int(port))
        await stream.send_all(frame)
        await trio.lowlevel.checkpoint()
        await stream.aclose()
        await trio.sleep(1)
        async with PullConsumer(**cluster.client()) as consumer:
            (queue,) = [one for one in await consumer.message_queues("T") if one.queue_id == 0]
            assert await consumer.max_offset(queue) == ITEMS
