"""What a master says about its log."""

from __future__ import annotations

from typing import Any

import pytest

from rmqcli.broker.errors import BrokerError
from rmqcli.broker.ha.peer import LogRange, MasterPeer
from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.route import KVTable
from rmqcli.codec.remoting.command import RemotingCommand


class Said:
    """Peers of which every one gives the same table."""

    def __init__(self, **table: str) -> None:
        self.table = table

    async def request(self, *_: Any) -> RemotingCommand:
        return RemotingCommand(0, None, encode_body(KVTable(table=self.table)))


def peer(**table: str) -> MasterPeer:
    said: Any = Said(**table)
    return MasterPeer(said, "127.0.0.1:10911")


async def test_where_a_log_begins_and_ends() -> None:
    assert await peer(commitLogMinOffset="4096", commitLogMaxOffset="9000").log_range() == LogRange(
        4096, 9000
    )


async def test_an_empty_log_of_java() -> None:
    assert await peer(commitLogMinOffset="-1", commitLogMaxOffset="0").log_range() == LogRange(0, 0)


@pytest.mark.parametrize("table", [{}, {"commitLogMinOffset": "x", "commitLogMaxOffset": "1"}])
async def test_a_master_that_does_not_say(table: dict[str, str]) -> None:
    with pytest.raises(BrokerError, match="does not say"):
        await peer(**table).log_range()


class Answers:
    """Peers that answer every request with the same code and remark."""

    def __init__(self, code: int, remark: str, body: bytes = b"") -> None:
        self.reply = RemotingCommand(code, None, body, remark=remark)

    async def request(self, *_: Any) -> RemotingCommand:
        return self.reply


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        (1, "org.apache.rocketmq.acl.common.AclException: No default permission for topic:T"),
        (16, "User:k has no permission to access Cluster:C from 1.2.3.4, no matched policies."),
    ],
)
async def test_a_refusal_is_not_a_record_that_is_missing(code: int, remark: str) -> None:
    """The log would be cut where the master does not show it."""
    refusing: Any = Answers(code, remark)
    with pytest.raises(BrokerError, match=f"refused VIEW_MESSAGE_BY_ID with {code}"):
        await MasterPeer(refusing, "m:1").record(4096)


async def test_a_record_that_is_missing() -> None:
    lost: Any = Answers(1, "can not find message by the offset, 4096")
    assert await MasterPeer(lost, "m:1").record(4096) is None
    there: Any = Answers(0, "", b"record")
    assert await MasterPeer(there, "m:1").record(4096) == b"record"
