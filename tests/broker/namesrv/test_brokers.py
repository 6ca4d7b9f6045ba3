"""Registration in all its forms, and what is left when a broker goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from rmqcli.broker.namesrv.broker_handlers import LONG_BODY
from rmqcli.broker.namesrv.node import HANDLERS
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.config import DataVersion
from rmqcli.codec.bodies.route import ClusterInfo, KVTable, TopicList, TopicRouteData
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.errors import CodecError, HeaderError
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.namesrv.support import (
    NameServerUnderTest,
    checksum,
    identity,
    registration,
    topic,
    wrapper,
)
from tests.broker.support import FakeSession

REGISTER, ROUTE = RequestCode.REGISTER_BROKER, RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture
def server() -> NameServerUnderTest:
    return NameServerUnderTest()


def route(server: NameServerUnderTest, name: str) -> TopicRouteData | None:
    reply = server.ask(ROUTE, topic=name)
    assert reply.code in {ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST}
    return decode_body(TopicRouteData, reply.body) if reply.code == ResponseCode.SUCCESS else None


def topics(server: NameServerUnderTest) -> set[str]:
    reply = server.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    return set(decode_body(TopicList, reply.body).topic_list)


FORMS = {
    "json": (registration(topic("T"), topic("U", perm=4)), 409, "false"),
    "compressed": (registration(topic("T"), topic("U", perm=4), compressed=True), 409, "true"),
    "3.0.11, the first with filter servers": (registration(topic("T"), topic("U", perm=4)), 37, "false"),
    "before 3.0.11": (encode_body(wrapper(topic("T"), topic("U", perm=4))), 36, "false"),
}


@pytest.mark.parametrize(("body", "version", "compressed"), FORMS.values(), ids=FORMS)
def test_every_form_of_a_registration_makes_routes(
    server: NameServerUnderTest, body: bytes, version: int, compressed: str
) -> None:
    reply = server.register(body=body, version=version, compressed=compressed, bodyCrc32=checksum(body))
    assert (reply.code, reply.ext_fields, reply.body) == (ResponseCode.SUCCESS, {}, b"")
    found = route(server, "T")
    assert found is not None
    assert found.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911"}
    assert [(q.broker_name, q.read_queue_nums, q.write_queue_nums, q.perm) for q in found.queue_datas] == [
        ("broker-a", 4, 4, 6)
    ]
    assert topics(server) == {"T", "U"}


def test_a_damaged_registration_is_refused_and_changes_nothing(server: NameServerUnderTest) -> None:
    body = registration(topic("T"))
    reply = server.register(body=body, bodyCrc32=checksum(body + b" "))
    assert (reply.code, reply.remark) == (ResponseCode.SYSTEM_ERROR, "crc32 not match")
    for garbage in (b"{", b"[]", b"\x00\x01", b"null"):
        with pytest.raises(CodecError):
            server.register(body=garbage)
    with pytest.raises(CodecError):
        server.register(body=b"not zlib", compressed="true")
    assert topics(server) == set()
    assert (
        decode_body(ClusterInfo, server.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body).broker_addr_table == {}
    )


def test_a_crc_of_zero_is_not_checked_and_a_broker_may_have_no_body(server: NameServerUnderTest) -> None:
    assert server.register(body=registration(topic("T")), bodyCrc32="0").code == ResponseCode.SUCCESS
    assert server.ask(REGISTER, b"", **identity("b2", "10.0.0.2:10911")).code == ResponseCode.SUCCESS
    assert topics(server) == {"T"}


def test_known_topics_change_only_with_the_data_version_and_old_ones_stay(
    server: NameServerUnderTest,
) -> None:
    server.register(topic("T", queues=4), counter=1)
    server.register(topic("T", queues=8), topic("New"), counter=1)
    assert topics(server) == {"T", "New"}
    server.register(topic("New", queues=2), counter=2)
    assert topics(server) == {"T", "New"}
    found = route(server, "T"), route(server, "New")
    assert [one.queue_datas[0].read_queue_nums for one in found if one is not None] == [4, 2]


def test_a_slave_adds_its_address_but_no_topics_and_learns_its_master(server: NameServerUnderTest) -> None:
    alone = server.register(topic("S"), address="10.0.0.2:10911", broker_id=1)
    assert alone.ext_fields == {}
    assert topics(server) == set()
    server.register(topic("T"))
    reply = server.register(topic("S"), address="10.0.0.2:10911", broker_id=1)
    assert reply.ext_fields == {"masterAddr": "10.0.0.1:10911", "haServerAddr": "10.0.0.1:10912"}
    found = route(server, "T")
    assert found is not None
    assert found.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}


def test_a_slave_that_becomes_master_leaves_its_old_id(server: NameServerUnderTest) -> None:
    server.register(address="10.0.0.2:10911", broker_id=1)
    server.register(topic("T"), address="10.0.0.2:10911", broker_id=0)
    found = route(server, "T")
    assert found is not None and found.broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


def test_the_reply_carries_the_order_topics(server: NameServerUnderTest) -> None:
    server.ask(
        RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4;broker-b:4"
    )
    reply = server.register(topic("T"))
    assert decode_body(KVTable, reply.body).table == {"T": "broker-a:4;broker-b:4"}


def test_filter_servers_are_in_the_route_until_a_registration_without_them(
    server: NameServerUnderTest,
) -> None:
    server.register(body=registration(topic("T"), filter_servers=("10.0.0.1:9999",)))
    found = route(server, "T")
    assert found is not None and found.filter_server_table == {"10.0.0.1:10911": ["10.0.0.1:9999"]}
    server.register(topic("T"))
    found = route(server, "T")
    assert found is not None and found.filter_server_table == {}


def test_topics_outlive_one_address_of_a_broker_but_not_the_last(server: NameServerUnderTest) -> None:
    server.register(topic("T"))
    server.register(address="10.0.0.2:10911", broker_id=1)
    server.ask(RequestCode.UNREGISTER_BROKER, **identity())
    found = route(server, "T")
    assert found is not None and found.broker_datas[0].broker_addrs == {1: "10.0.0.2:10911"}
    server.ask(RequestCode.UNREGISTER_BROKER, **identity(address="10.0.0.2:10911", broker_id=1))
    assert route(server, "T") is None
    info = decode_body(ClusterInfo, server.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    assert (info.broker_addr_table, info.cluster_addr_table) == ({}, {})
    assert server.ask(RequestCode.UNREGISTER_BROKER, **identity("never seen")).code == ResponseCode.SUCCESS


def test_a_lost_connection_takes_what_was_registered_over_it_last(server: NameServerUnderTest) -> None:
    first, second = FakeSession(), FakeSession()
    server.register(topic("T"), session=first)
    server.register(topic("U"), name="broker-b", address="10.0.0.5:10911", session=first)
    server.register(topic("T"), session=second)
    first.close()
    assert topics(server) == {"T"}
    second.close()
    assert topics(server) == set()


@pytest.mark.parametrize("leaves", ["unregistered", "lost", "expired"])
def test_of_a_broker_that_left_nothing_is_known(server: NameServerUnderTest, leaves: str) -> None:
    """If its data version were kept, it would learn that nothing changed, and would not register again."""
    server.register(topic("T"), name="broker-b", address="10.0.0.5:10911", session=FakeSession())
    server.register(topic("T"), topic("Own"))
    if leaves == "unregistered":
        server.ask(RequestCode.UNREGISTER_BROKER, **identity())
    elif leaves == "lost":
        server.session.close()
    else:
        server.state.routes.touch("10.0.0.5:10911", server.now + 1)
        assert server.expired(server.now + 1) == [server.session]
    assert topics(server) == {"T"}
    found = route(server, "T")
    assert found is not None and [data.broker_name for data in found.queue_datas] == ["broker-b"]
    version = encode_body(DataVersion(timestamp=5, counter=1))
    reply = server.ask(RequestCode.QUERY_DATA_VERSION, version, **identity())
    assert (reply.ext_fields, reply.body) == ({"changed": "true"}, b"")


def test_a_broker_expires_when_it_was_silent_for_longer_than_the_limit(server: NameServerUnderTest) -> None:
    server.register(topic("T"))
    assert server.expired(server.now) == []
    assert topics(server) == {"T"}


def test_data_version_query(server: NameServerUnderTest) -> None:
    def query(counter: int) -> tuple[dict[str, str] | None, bytes | memoryview]:
        body = encode_body(DataVersion(timestamp=5, counter=counter))
        reply = server.ask(RequestCode.QUERY_DATA_VERSION, body, **identity())
        assert reply.code == ResponseCode.SUCCESS
        return reply.ext_fields, reply.body

    assert query(1) == ({"changed": "true"}, b"")
    server.register(topic("T"), counter=1)
    assert query(1) == ({"changed": "false"}, b'{"counter":1,"timestamp":5}')
    assert query(2) == ({"changed": "true"}, b'{"counter":1,"timestamp":5}')


@pytest.mark.parametrize("refreshed", ["query", "heartbeat"])
def test_a_query_or_heartbeat_keeps_a_broker_alive(server: NameServerUnderTest, refreshed: str) -> None:
    server.register(topic("T"), counter=1)
    server.now += 100_000
    if refreshed == "query":
        body = encode_body(DataVersion(timestamp=5, counter=1))
        server.ask(RequestCode.QUERY_DATA_VERSION, body, **identity())
    else:
        server.ask(RequestCode.BROKER_HEARTBEAT, **identity())
    assert server.expired(server.now - 50_000) == []
    assert topics(server) == {"T"}
    assert server.expired(server.now + 1) == [server.session]
    assert topics(server) == set()


def test_write_permission_is_wiped_and_given_back_until_a_changed_registration(
    server: NameServerUnderTest,
) -> None:
    server.register(topic("T", perm=7), topic("U", perm=6))
    server.register(topic("T", perm=7), name="broker-b", address="10.0.0.5:10911")
    reply = server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert reply.ext_fields == {"wipeTopicCount": "2"}
    found = route(server, "T")
    assert found is not None
    assert {data.broker_name: data.perm for data in found.queue_datas} == {"broker-a": 5, "broker-b": 7}
    server.register(topic("T", perm=7), counter=1)
    assert server.state.routes.route("T").queue_datas[0].perm == 5  # type: ignore[union-attr]
    reply = server.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-a")
    assert reply.ext_fields == {"addTopicCount": "2"}
    found = route(server, "T")
    assert found is not None and found.queue_datas[0].perm == 6
    server.register(topic("T", perm=7), counter=2)
    found = route(server, "T")
    assert found is not None and found.queue_datas[0].perm == 7
    unknown = server.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="nobody")
    assert unknown.ext_fields == {"wipeTopicCount": "0"}


NEED_NOTHING = {
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS,
    RequestCode.GET_UNIT_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    RequestCode.UPDATE_NAMESRV_CONFIG,
    RequestCode.GET_NAMESRV_CONFIG,
}


@pytest.mark.parametrize("code", HANDLERS, ids=lambda code: code.name)
def test_a_request_without_its_header_names_what_is_missing(
    server: NameServerUnderTest, code: RequestCode
) -> None:
    request = RemotingCommand(code)
    if code in NEED_NOTHING:
        assert server.handle(request).code == ResponseCode.SUCCESS
        return
    with pytest.raises(HeaderError, match="is missing"):
        server.handle(request)


def test_every_code_of_a_4_9_8_name_server_has_a_handler() -> None:
    numbers = [*range(100, 107), 205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327]
    assert {RequestCode(number) for number in numbers} <= HANDLERS.keys()


@pytest.mark.parametrize("compressed", [True, False])
async def test_a_registration_of_many_topics_is_decoded_in_a_thread(compressed: bool) -> None:
    """And registered in turns; what is wrong with it is said as for a short one."""
    server, decoded = NameServerUnderTest(), []

    async def in_thread(function: Callable[..., Any], *arguments: object) -> Any:
        await trio.lowlevel.checkpoint()
        decoded.append(function)
        return function(*arguments)

    server.state.in_thread = in_thread
    topics = [topic(f"{'topic' * 20}-{number}") for number in range(1000)]
    body = registration(*topics, compressed=compressed)
    garbage = b"x" * (LONG_BODY + 1)
    for sent, code in ((body, ResponseCode.SUCCESS), (garbage, ResponseCode.SYSTEM_ERROR)):
        ext = identity(compressed=str(compressed).lower())
        request = RemotingCommand(RequestCode.REGISTER_BROKER, ext, sent, opaque=5, version=409)
        async with trio.open_nursery() as nursery:
            session = FakeSession(nursery)
            assert server.handlers[RequestCode.REGISTER_BROKER](session, request) is None  # type: ignore[arg-type]
        assert [reply.code for reply, _ in session.sent] == [code]
    assert len(decoded) == 2
    assert len(server.state.routes.topics()) == len(topics)
