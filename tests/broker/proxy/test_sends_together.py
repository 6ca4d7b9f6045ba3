"""Sends that one read of a gRPC connection has brought: stored with one write, answered one by one.

All messages have one message group: the first message of a queue is stored alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import h2.settings
import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.services.put import put_sends
from rmqcli.codec.core.sends import Sends
from rmqcli.codec.proxy import messages
from rmqcli.codec.proxy.codes import Code
from rmqcli.codec.proxy.frames import RST_STREAM, frame
from rmqcli.codec.proxy.framing import prefixed
from tests.broker.proxy.calls import Stub, cluster_with_grpc, connected, message, pulled

SEND = "/apache.rocketmq.v2.MessagingService/SendMessage"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of messages of each write of several."""
    found: list[int] = []

    def counting(broker: Any, sends: Sends) -> None:
        found.append(len(sends))
        put_sends(broker, sends)

    monkeypatch.setattr("rmqcli.broker.proxy.embedded.put_sends", counting)
    return found


def begun(stub: Stub, one: Any) -> int:
    """Queue a call that sends a message; `flush` writes all of them at once."""
    stream = stub.client.open(SEND)
    data = prefixed(messages.SendMessageRequest(messages=[one]).SerializeToString())
    stub.client.h2.send_data(stream, data, end_stream=True)
    return stream


async def replied(stub: Stub, stream: int) -> Any:
    answer = await stub.client.end(stream)
    assert answer.status == 0
    data = answer.next()
    assert data is not None
    return messages.SendMessageResponse.FromString(data)


@pytest.mark.parametrize("window", [65_535, 10])
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_sends_of_one_read_are_stored_together(
    nursery: trio.Nursery, autojump_clock: MockClock, runs: list[int], flush: str, window: int
) -> None:
    async with cluster_with_grpc(flush_disk_type=flush) as cluster:
        stub = await connected(nursery, cluster)
        stub.client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        await stub("SendMessage", messages=[message("orders", b"first", message_group="g")])
        runs.clear()
        bodies = [b"%d" % number for number in range(9)]
        streams = [
            begun(stub, message("orders", body, tag="t", keys=["k"], message_group="g")) for body in bodies
        ]
        await stub.client.flush()
        replies = [await replied(stub, stream) for stream in streams]
        assert runs == [9]
        assert [(one.status.code, one.entries[0].status.code) for one in replies] == [(Code.OK, Code.OK)] * 9
        found = {one.body: one for one in await pulled(cluster, "orders")}
        for body, reply in zip(bodies, replies, strict=True):
            stored, (entry,) = found[body], reply.entries
            assert (stored.msg_id, stored.queue_offset) == (entry.message_id, entry.offset)
            assert (stored.tags, stored.keys) == ("t", ["k"])


async def test_other_messages_go_their_own_way(
    nursery: trio.Nursery, autojump_clock: MockClock, runs: list[int]
) -> None:
    """Messages stay in order; what is wrong with one concerns no other."""
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await stub("SendMessage", messages=[message("orders", b"first", message_group="g")])
        runs.clear()
        wanted = [
            (message("orders", b"1", message_group="g"), Code.OK),
            (message("orders", b"2", message_group="g"), Code.OK),
            (message("orders", b"", message_group="g"), Code.MESSAGE_BODY_EMPTY),
            (message("orders", b"3", message_group="g"), Code.OK),
            (message("orders", b"x", tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
            (message("fresh", b"4"), Code.OK),
            (message("orders", b"5", message_group="g"), Code.OK),
            (message("orders", b"6", message_group="g"), Code.OK),
        ]
        given_up = begun(stub, message("orders", b"given up"))
        streams = [begun(stub, one) for one, _ in wanted]
        reset = frame(RST_STREAM, 0, given_up, (8).to_bytes(4, "big"))
        data = stub.client.h2.data_to_send()
        await stub.client.stream.send_all(data + reset)
        replies = [await replied(stub, stream) for stream in streams]
        assert [one.status.code for one in replies] == [code for _, code in wanted]
        assert runs == [2, 1, 2]
        queues: dict[int, list[bytes]] = defaultdict(list)
        for one in await pulled(cluster, "orders"):
            queues[one.queue_id].append(one.body)
        assert list(queues.values()) == [[b"first", b"1", b"2", b"3", b"5", b"6"]]


async def test_a_long_read_is_stored_in_several_writes(
    nursery: trio.Nursery, autojump_clock: MockClock, runs: list[int]
) -> None:
    async with cluster_with_grpc() as cluster:
        stub = await connected(nursery, cluster)
        await stub("SendMessage", messages=[message("orders", message_group="g")])
        runs.clear()
        streams = [begun(stub, message("orders", message_group="g")) for _ in range(100)]
        await stub.client.flush()
        for stream in streams:
            assert (await replied(stub, stream)).status.code == Code.OK
        assert sum(runs) == 100
        assert 25 <= max(runs) <= 40
