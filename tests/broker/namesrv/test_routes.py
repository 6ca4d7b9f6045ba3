"""Routes in both kinds of JSON, topic lists, key-value entries, the running configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from msgspec.structs import replace

from rmqcli.broker.config import NamesrvConfig, load_config
from rmqcli.broker.errors import NotReady, Refusal, StoreDamaged
from rmqcli.broker.namesrv.kv_config import KVConfig
from rmqcli.broker.namesrv.node import bound_handlers
from rmqcli.broker.namesrv.state import NameServerState
from rmqcli.codec.bodies.base import decode_body, encode_body
from rmqcli.codec.bodies.route import TopicList, TopicRouteData
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.errors import BodyError
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.namesrv.support import NO_FILES, NameServerUnderTest, topic
from tests.broker.support import FakeSession, SlowDisk

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC


@pytest.fixture
def server() -> NameServerUnderTest:
    made = NameServerUnderTest()
    made.register(topic("T"), topic("U", flag=1), topic("S", flag=2), topic("US", flag=3))
    made.register(topic("T"), topic("Other"), name="b2", address="10.0.0.2:10911", cluster="C2")
    return made


def names(server: NameServerUnderTest, code: RequestCode, **ext: Any) -> set[str]:
    return set(decode_body(TopicList, server.ask(code, **ext).body).topic_list)


@pytest.mark.parametrize(
    ("version", "ext", "key"),
    [
        (401, {}, b'{"0":"10.0.0.1:10911"}'),
        (400, {}, b'{0:"10.0.0.1:10911"}'),
        (317, {"acceptStandardJsonOnly": "true"}, b'{"0":"10.0.0.1:10911"}'),
        (0, {"acceptStandardJsonOnly": "false"}, b'{0:"10.0.0.1:10911"}'),
    ],
)
def test_a_route_is_standard_json_for_who_can_read_it(
    server: NameServerUnderTest, version: int, ext: dict[str, Any], key: bytes
) -> None:
    reply = server.ask(ROUTE, version=version, topic="U", **ext)
    assert bytes(reply.body) == (
        b'{"brokerDatas":[{"brokerAddrs":' + key + b',"brokerName":"broker-a","cluster":"DefaultCluster"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
        b'"topicSysFlag":1,"writeQueueNums":4}]}'
    )


def test_an_unknown_topic_is_refused_with_javas_words(server: NameServerUnderTest) -> None:
    reply = server.ask(ROUTE, topic="Nope")
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST
    assert reply.remark == (
        "No topic route info in name server for the topic: Nope\n"
        "See http://rocketmq.apache.org/docs/faq/ for further details."
    )


@pytest.mark.parametrize(("enabled", "expected"), [(True, "broker-a:4"), (False, None)])
def test_the_order_of_a_topic_is_told_only_when_enabled(enabled: bool, expected: str | None) -> None:
    config = NamesrvConfig(kv_config_path=None, config_store_path=None, order_message_enable=enabled)
    server = NameServerUnderTest(config)
    server.register(topic("T"))
    server.ask(RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
    assert decode_body(TopicRouteData, server.ask(ROUTE, topic="T").body).order_topic_conf == expected


def test_cluster_info_has_bare_numbers_as_keys(server: NameServerUnderTest) -> None:
    body = bytes(server.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    assert b'"broker-a":{"brokerAddrs":{0:"10.0.0.1:10911"}' in body
    assert b'"clusterAddrTable":{"DefaultCluster":["broker-a"],"C2":["b2"]}' in body


def test_topic_lists(server: NameServerUnderTest) -> None:
    assert names(server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == {"T", "U", "S", "US", "Other"}
    assert names(server, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="C2") == {"T", "Other"}
    assert names(server, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="none") == set()
    assert names(server, RequestCode.GET_UNIT_TOPIC_LIST) == {"U", "US"}
    assert names(server, RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST) == {"S", "US"}
    assert names(server, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == {"S"}
    system = decode_body(TopicList, server.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)
    assert set(system.topic_list) == {"DefaultCluster", "C2", "broker-a", "b2"}
    assert system.broker_addr == "10.0.0.1:10911"
    empty = NameServerUnderTest().ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    assert bytes(empty.body) == b'{"topicList":[]}'


def test_a_topic_is_deleted_in_one_cluster_or_everywhere(server: NameServerUnderTest) -> None:
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T", clusterName="C2")
    route = decode_body(TopicRouteData, server.ask(ROUTE, topic="T").body)
    assert [data.broker_name for data in route.queue_datas] == ["broker-a"]
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T", clusterName="C2")
    assert server.ask(ROUTE, topic="T").code == ResponseCode.SUCCESS
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T")
    server.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, topic="T")
    assert server.ask(ROUTE, topic="T").code == ResponseCode.TOPIC_NOT_EXIST


def test_codes_of_5_x(server: NameServerUnderTest) -> None:
    known, unknown = (
        decode_body(TopicRouteData, b'{"queueDatas":[{"brokerName":"%s","perm":6,"readQueueNums":2}]}' % name)
        for name in (b"b2", b"stranger")
    )
    for route in (known, unknown):
        server.ask(RequestCode.REGISTER_TOPIC_IN_NAMESRV, encode_body(route), topic="Fresh")
    found = decode_body(TopicRouteData, server.ask(ROUTE, topic="Fresh").body)
    assert [data.broker_name for data in found.queue_datas] == ["b2"]
    reply = server.ask(RequestCode.GET_BROKER_MEMBER_GROUP, clusterName="C2", brokerName="b2")
    assert b'"brokerAddrs":{0:"10.0.0.2:10911"}' in bytes(reply.body)


def test_a_long_route_of_5_x_is_decoded_in_turns(server: NameServerUnderTest) -> None:
    queues = b",".join(
        b'{"brokerName":"stranger-%d","perm":6,"readQueueNums":2,"writeQueueNums":2}' % number
        for number in range(2000)
    )
    body = b'{"queueDatas":[%b,{"brokerName":"b2","perm":6,"readQueueNums":2}]}' % queues
    request = RemotingCommand(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": "Fresh"}, body)
    with pytest.raises(NotReady):
        server.handlers[request.code](server.session, request)  # type: ignore[arg-type]
    assert server.ask(ROUTE, topic="Fresh").code == ResponseCode.TOPIC_NOT_EXIST
    assert server.handle(request).code == ResponseCode.SUCCESS
    found = decode_body(TopicRouteData, server.ask(ROUTE, topic="Fresh").body)
    assert [data.broker_name for data in found.queue_datas] == ["b2"]
    odd = server.handle(replace(request, body=body.replace(b'"perm"', b"'perm'")))
    assert (odd.code, "32768 is the limit" in (odd.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)


def test_kv_entries(server: NameServerUnderTest) -> None:
    missing = server.ask(RequestCode.GET_KV_CONFIG, namespace="N", key="k")
    assert (missing.code, missing.remark) == (22, "No config item, Namespace: N Key: k")
    missing = server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="N")
    assert (missing.code, missing.remark) == (22, "No config item, Namespace: N")
    server.ask(RequestCode.PUT_KV_CONFIG, namespace="N", key="k", value="v=1")
    assert server.ask(RequestCode.GET_KV_CONFIG, namespace="N", key="k").ext_fields == {"value": "v=1"}
    listed = server.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="N")
    assert bytes(listed.body) == b'{"table":{"k":"v=1"}}'
    for _ in range(2):
        assert server.ask(RequestCode.DELETE_KV_CONFIG, namespace="N", key="k").code == 0
    assert server.ask(RequestCode.GET_KV_CONFIG, namespace="N", key="k").code == 22


def loaded_kv(path: Path) -> KVConfig:
    kv = KVConfig(path)
    kv.load()
    return kv


async def test_kv_entries_outlive_the_name_server_and_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    kv = KVConfig(path)
    await kv.put("N", "k", "v")
    await kv.put("N", "k2", "é")
    assert path.read_bytes() == '{"configTable":{"N":{"k":"v","k2":"é"}}}'.encode()
    assert loaded_kv(path).namespace("N") == {"k": "v", "k2": "é"}
    await kv.put("N", "k3", "v")
    await kv.delete("N", "k3")
    assert loaded_kv(path).namespace("N") == {"k": "v", "k2": "é"}
    path.write_bytes(b'{"configTable":')
    assert loaded_kv(path).namespace("N") == {"k": "v", "k2": "é", "k3": "v"}
    backup = path.with_name("kvConfig.json.bak")
    backup.write_bytes(b"\x00garbage")
    with pytest.raises(StoreDamaged):
        loaded_kv(path)


@pytest.mark.parametrize("blank", [b"", b"{}"])
async def test_an_emptied_table_of_entries_is_damage(tmp_path: Path, blank: bytes) -> None:
    """Without them no topic is ordered."""
    path = tmp_path / "kvConfig.json"
    path.write_bytes(blank)
    assert loaded_kv(path).namespace("N") is None, "it never had an entry"
    kv = KVConfig(path)
    await kv.put("N", "k", "v")
    await kv.put("N", "k2", "v")
    path.write_bytes(blank)
    assert loaded_kv(path).namespace("N") == {"k": "v"}
    path.write_bytes(blank)
    backup = path.with_name("kvConfig.json.bak")
    backup.write_bytes(blank)
    with pytest.raises(StoreDamaged, match=r"it is empty, beside .*bak"):
        loaded_kv(path)
    backup.write_bytes(b'{"configTable":{"N":{}}}')
    assert loaded_kv(path).namespace("N") == {}, "its last entry was deleted"


async def test_a_kv_change_that_cannot_be_saved_did_not_happen(tmp_path: Path) -> None:
    kv = KVConfig(tmp_path / "namesrv" / "kvConfig.json")
    await kv.put("N", "k", "v")
    (tmp_path / "namesrv").rename(tmp_path / "gone")
    (tmp_path / "namesrv").write_text("in the way")
    changes: list[Callable[[], Awaitable[None]]] = [
        lambda: kv.put("N", "k", "new"),
        lambda: kv.put("M", "k", "v"),
        lambda: kv.delete("N", "k"),
    ]
    for change in changes:
        with pytest.raises(OSError, match="namesrv"):
            await change()
    assert (kv.namespace("N"), kv.namespace("M")) == ({"k": "v"}, None)


def test_the_configuration_is_shown_changed_and_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    saved = tmp_path / "conf" / "name server" / "namesrv.properties"
    config = NamesrvConfig(kv_config_path=None, config_store_path=str(saved))
    server = NameServerUnderTest(config)
    assert b"orderMessageEnable=false\n" in bytes(server.ask(RequestCode.GET_NAMESRV_CONFIG).body)
    change = b"orderMessageEnable=true\nnobodyKnows=1\n"
    assert server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, change).code == ResponseCode.SUCCESS
    assert b"orderMessageEnable=true\n" in bytes(server.ask(RequestCode.GET_NAMESRV_CONFIG).body)
    assert "nobodyKnows" in caplog.text
    loaded, unknown = load_config(NamesrvConfig, saved)
    assert (loaded.order_message_enable, loaded.config_store_path, unknown) == (True, str(saved), [])
    assert server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, b"clusterTest=true\n").code == ResponseCode.SUCCESS
    assert load_config(NamesrvConfig, saved)[0].cluster_test


async def test_configurations_that_are_saved_at_one_time_leave_the_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "namesrv.properties"
    config = NamesrvConfig(kv_config_path=None, config_store_path=str(path))
    state = NameServerState(config, KVConfig(), lambda: 0, disk=SlowDisk())
    handler: Any = bound_handlers(state)[RequestCode.UPDATE_NAMESRV_CONFIG]
    async with trio.open_nursery() as nursery:
        for name in ("a", "b", "c"):
            change = f"productEnvName={name}\n".encode()
            handler(FakeSession(), RemotingCommand(RequestCode.UPDATE_NAMESRV_CONFIG, body=change))
            assert state.barrier is not None
            nursery.start_soon(state.barrier)
    assert load_config(NamesrvConfig, path)[0].product_env_name == "c"
    assert not caplog.records


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (b"kvConfigPath=/tmp/x\norderMessageEnable=true\n", ResponseCode.NO_PERMISSION),
        (b"listenPort=many\norderMessageEnable=true\n", ResponseCode.SYSTEM_ERROR),
        (b"scanNotActiveBrokerInterval=-1\norderMessageEnable=true\n", ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_forbidden_or_bad_change_changes_nothing(change: bytes, code: ResponseCode) -> None:
    server = NameServerUnderTest()
    assert server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, change).code == code
    assert server.state.config == NO_FILES


def test_a_change_that_is_not_utf_8_changes_nothing() -> None:
    server = NameServerUnderTest()
    with pytest.raises(BodyError, match="not UTF-8 at byte 0"):
        server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, b"\xff\xfe")
    assert server.state.config == NO_FILES


def test_a_configuration_that_cannot_be_saved_holds_until_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    config = NamesrvConfig(kv_config_path=None, config_store_path=str(tmp_path / "file" / "x"))
    server = NameServerUnderTest(config)
    assert server.ask(RequestCode.UPDATE_NAMESRV_CONFIG, b"clusterTest=true\n").code == 0
    assert server.state.config.cluster_test
    assert "cannot save" in caplog.text


def test_a_refusal_without_fields_has_none() -> None:
    assert Refusal(17, "no").ext_fields is None
