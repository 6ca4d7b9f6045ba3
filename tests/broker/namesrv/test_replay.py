"""The name server answers the recorded requests of a Java client and broker as Java's did.

Some connections are missing in the recording, so the name server that was recorded knew topics and order
entries that are not registered in it. The order entries are put in first; a request for the route of a topic
that no recorded registration has named yet must be answered with "no route" (one with a data version that is
no news names none); topic lists must hold what was registered, which is part of what was recorded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from rmqcli.broker.config.servers import FIXED_OF_NAME_SERVERS
from rmqcli.broker.namesrv.kv_config import ORDER_TOPIC_CONFIG
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import parse_properties
from rmqcli.codec.bodies.route import KVTable, TopicList
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.fastjson import loads
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame
from tests.broker.namesrv.support import NameServerUnderTest
from tests.broker.support import FakeSession
from tests.codec.wire import KINDS, load_wire

OURS = {
    "bindAddress",
    "maxConnections",
    "maxOutgoingBytes",
    "scanNotActiveBrokerInterval",
    "brokerExpiredTime",
}
PATHS = {"kvConfigPath", "configStorePath", "rocketmqHome"}


@dataclass
class Replay:
    """A name server, the recorded connections to it, and what the recording has registered so far."""

    server: NameServerUnderTest = field(default_factory=NameServerUnderTest)
    sessions: dict[int, FakeSession] = field(default_factory=dict)
    asked: dict[tuple[int, int], tuple[RemotingCommand, RemotingCommand, frozenset[str]]] = field(
        default_factory=dict
    )
    registered: set[str] = field(default_factory=set)
    compared: Counter[int] = field(default_factory=Counter)

    def request(self, connection: int, request: RemotingCommand) -> None:
        session = self.sessions.setdefault(connection, FakeSession())
        reply = self.server.handle(request, session)
        if request.code == RequestCode.REGISTER_BROKER:
            self.registered |= loads(request.body)["topicConfigSerializeWrapper"]["topicConfigTable"].keys()
        if request.code == RequestCode.DELETE_TOPIC_IN_NAMESRV and request.ext_fields:
            self.registered.discard(request.ext_fields["topic"])
        self.asked[connection, request.opaque] = request, reply, frozenset(self.registered)

    def reply(self, connection: int, theirs: RemotingCommand) -> None:
        request, ours, registered = self.asked.pop((connection, theirs.opaque))
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            topic = (request.ext_fields or {})["topic"]
            if topic not in registered:
                assert ours.code == ResponseCode.TOPIC_NOT_EXIST
                return
        self.compared[request.code] += 1
        assert (ours.code, ours.remark) == (theirs.code, theirs.remark)
        assert ours.serialize_type == theirs.serialize_type
        compare = COMPARE.get(RequestCode(request.code), same)
        compare(ours, theirs, registered)


def same(ours: RemotingCommand, theirs: RemotingCommand, _registered: frozenset[str]) -> None:
    assert (ours.ext_fields or {}) == (theirs.ext_fields or {})
    assert _json(ours) == _json(theirs)


def _json(command: RemotingCommand) -> Any:
    return loads(command.body) if command.body else None


def same_topics(ours: RemotingCommand, theirs: RemotingCommand, registered: frozenset[str]) -> None:
    mine, recorded = (set(decode_body(TopicList, one.body).topic_list) for one in (ours, theirs))
    assert mine == registered
    assert mine <= recorded


def same_system_topics(ours: RemotingCommand, theirs: RemotingCommand, _registered: frozenset[str]) -> None:
    mine, recorded = (decode_body(TopicList, one.body) for one in (ours, theirs))
    assert set(mine.topic_list) == set(recorded.topic_list)
    assert mine.broker_addr == recorded.broker_addr


def same_count(ours: RemotingCommand, theirs: RemotingCommand, registered: frozenset[str]) -> None:
    assert ours.ext_fields is not None and theirs.ext_fields is not None
    assert ours.ext_fields == {name: str(len(registered)) for name in theirs.ext_fields}


def same_configuration(ours: RemotingCommand, theirs: RemotingCommand, _registered: frozenset[str]) -> None:
    mine, recorded = (parse_properties(bytes(one.body).decode()) for one in (ours, theirs))
    for name in OURS | PATHS | FIXED_OF_NAME_SERVERS.keys():
        mine.pop(name, None)
        recorded.pop(name, None)
    assert mine == recorded


COMPARE = {
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: same_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: same_topics,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: same_system_topics,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: same_count,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: same_count,
    RequestCode.GET_NAMESRV_CONFIG: same_configuration,
}
ASKED = {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224, 304, 318, 319, 327}


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_requests_get_the_recorded_replies(kind: str) -> None:
    wire = load_wire(kind)
    rows = [row for row in wire.index if row["role"] == "namesrv"]
    commands = [decode_frame(wire.data[row["offset"] + 4 : row["offset"] + row["length"]]) for row in rows]
    replay = Replay()
    first_registration = next(
        command for row, command in zip(rows, commands, strict=True) if row.get("reqcode") == 103
    )
    for key, value in decode_body(KVTable, first_registration.body).table.items():
        trio.run(replay.server.state.kv.put, ORDER_TOPIC_CONFIG, key, value)
    for row, command in zip(rows, commands, strict=True):
        (replay.request if row["dir"] == "c2s" else replay.reply)(row["conn"], command)
    assert not replay.asked
    assert replay.compared.keys() == ASKED
    assert replay.compared[RequestCode.GET_ROUTEINFO_BY_TOPIC] > 700
