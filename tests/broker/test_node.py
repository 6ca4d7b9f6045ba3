"""A broker on a socket: start, stop, and restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli.broker.config import BrokerConfig, NamesrvConfig
from rmqcli.broker.errors import ConfigError
from rmqcli.broker.namesrv.node import open_name_server
from rmqcli.broker.net.network import TcpListener, TcpNetwork, own_address
from rmqcli.broker.node import BrokerNode, open_broker
from rmqcli.broker.store import StoreDamaged, StoreLocked
from rmqcli.client import Admin, Message, Producer
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.config import parse_properties
from rmqcli.codec.bodies.route import TopicRouteData
from rmqcli.codec.codes import RequestCode
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from tests.broker.serving import Client, connect
from tests.broker.support import SMALL_FILES, pull_header, send_header
from tests.support import PATIENCE

TARGET_START_SECONDS = 0.15


def config(root: Path, **settings: Any) -> BrokerConfig:
    values = {**SMALL_FILES, "bind_address": "127.0.0.1", "listen_port": 0, **settings}
    return BrokerConfig(**{**values, "store_path_root_dir": str(root)})


async def ask(
    client: Client, code: int, ext: dict[str, str] | None = None, body: bytes = b""
) -> RemotingCommand:
    with trio.fail_after(PATIENCE):
        return await client.ask(RemotingCommand(code, ext, body))


async def send(client: Client, topic: str, body: bytes = b"x") -> RemotingCommand:
    return await ask(client, 310, to_ext(send_header(topic)), body)


async def test_a_restart_finds_all_messages_and_offsets(tmp_path: Path) -> None:
    started = time.process_time()
    async with open_broker(config(tmp_path)) as node:
        assert time.process_time() - started < 10 * TARGET_START_SECONDS
        peer = await connect(node.address)
        port = int(node.address.rpartition(":")[2])
        reply = await send(peer, "T", b"first")
        assert (reply.ext_fields or {})["msgId"] == f"7F000001{port:08X}{0:016X}"
        await ask(peer, 15, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"})
        assert node.store_path == tmp_path
    assert not (tmp_path / "abort").exists()
    async with open_broker(config(tmp_path)) as node:
        peer = await connect(node.address)
        pulled = await ask(peer, 11, pull_header("T"))
        assert [m.body for m in decode_records(pulled.body)] == [b"first"]
        offset = await ask(peer, 14, {"consumerGroup": "G", "topic": "T", "queueId": "0"})
        assert offset.ext_fields == {"offset": "1"}


async def test_the_backlog_of_its_socket_is_the_configured_one(tmp_path: Path) -> None:
    class Noted(TcpNetwork):
        backlog = 0

        def listen(self, host: str, port: int, backlog: int = 1024) -> TcpListener:
            self.backlog = backlog
            return super().listen(host, port, backlog)

    network = Noted()
    async with open_broker(config(tmp_path, server_socket_backlog=7), network=network):
        assert network.backlog == 7


async def test_a_new_topic_has_a_route_before_its_creator_gets_the_reply(tmp_path: Path) -> None:
    names = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with open_name_server(names, host="127.0.0.1", port=0) as namesrv:
        async with open_broker(config(tmp_path, namesrv_addr=namesrv.address)) as node:
            peer, finder = await connect(node.address), await connect(namesrv.address)

            async def route(topic: str) -> RemotingCommand:
                return await ask(finder, 105, {"topic": topic})

            assert (await route("TBW102")).code == 0, "registered before it serves"
            assert (await route("Auto")).code == 17
            assert (await send(peer, "Auto")).code == 0
            data = decode_body(TopicRouteData, (await route("Auto")).body)
            assert data.broker_datas[0].broker_addrs == {0: node.address}
            header = {
                "topic": "Made",
                "defaultTopic": "TBW102",
                "readQueueNums": "3",
                "writeQueueNums": "3",
                "perm": "6",
            }
            await ask(peer, 17, header)
            assert decode_body(TopicRouteData, (await route("Made")).body).queue_datas[0].read_queue_nums == 3
            assert (await route("Auto")).code == 0, "an incremental registration takes nothing away"
        assert (await route("Auto")).code == 17, "unregistered at the stop"


async def test_a_cancelled_broker_stops_cleanly(tmp_path: Path) -> None:
    names = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with open_name_server(names, host="127.0.0.1", port=0) as namesrv:
        with trio.CancelScope() as scope:
            async with open_broker(config(tmp_path, namesrv_addr=namesrv.address)) as node:
                peer = await connect(node.address)
                await send(peer, "T")
                await ask(peer, 15, {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"})
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        finder = await connect(namesrv.address)
        assert (await ask(finder, 105, {"topic": "T"})).code == 17
    assert not (tmp_path / "abort").exists()
    assert '"T@G":{0:1' in (tmp_path / "config" / "consumerOffset.json").read_text()


async def test_an_exception_of_the_block_is_not_grouped(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_broker(config(tmp_path)):
            raise KeyError("mine")
    assert not (tmp_path / "abort").exists()


async def test_a_broker_serves_without_a_name_server(tmp_path: Path) -> None:
    async with open_broker(config(tmp_path, namesrv_addr="127.0.0.1:1")) as node:
        peer = await connect(node.address)
        with trio.fail_after(PATIENCE):
            assert (await send(peer, "T")).code == 0


async def test_a_store_is_served_once(tmp_path: Path) -> None:
    async with open_broker(config(tmp_path)):
        with pytest.raises(StoreLocked):
            async with open_broker(config(tmp_path)):
                raise AssertionError("two brokers on one store")


async def test_clients_go_through_the_port_that_they_are_told(tmp_path: Path) -> None:
    (forward,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    told = forward.socket.getsockname()[1]
    names = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with (
        open_name_server(names, port=0) as namesrv,
        open_broker(config(tmp_path, advertised_port=told, namesrv_addr=namesrv.address)) as node,
        trio.open_nursery() as nursery,
    ):
        own = node.context.config.listen_port
        assert node.address == f"127.0.0.1:{told}" and own != told

        async def pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            async for data in source:
                await sink.send_all(data)

        async def serve(stream: trio.SocketStream) -> None:
            broker = await trio.open_tcp_stream("127.0.0.1", own)
            async with trio.open_nursery() as both:
                both.start_soon(pump, stream, broker)
                both.start_soon(pump, broker, stream)

        nursery.start_soon(trio.serve_listeners, serve, [forward])
        async with Producer("g", namesrv=namesrv.address, timeout=PATIENCE) as producer:
            sent = await producer.send(Message(topic="T", body=b"there"))
        async with Admin(namesrv=namesrv.address, timeout=PATIENCE) as admin:
            assert (await admin.messages.view(sent.offset_msg_id)).body == b"there"
            reply = await admin.invoke(node.address, RequestCode.GET_BROKER_CONFIG)
        properties = parse_properties(bytes(reply.body).decode())
        assert (properties["listenPort"], properties["advertisedPort"]) == (str(own), str(told))
        nursery.cancel_scope.cancel()


async def test_unreadable_tables_stop_the_start_and_change_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    for name in ("topics.json", "topics.json.bak"):
        (folder / name).write_bytes(b"garbage")
    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        async with open_broker(config(tmp_path)):
            raise AssertionError("it started")
    assert (folder / "topics.json").read_bytes() == b"garbage"
    assert (folder / "topics.json.bak").read_bytes() == b"garbage"


async def test_invalid_settings_are_reported(tmp_path: Path) -> None:
    for settings, text in (
        ({"message_delay_level": "1s soon"}, "messageDelayLevel"),
        ({"broker_ip1": "no.such.host.invalid"}, "brokerIP1"),
    ):
        with pytest.raises(ConfigError, match=text):
            async with open_broker(config(tmp_path, **settings)):
                raise AssertionError("it started")


async def test_a_port_in_use_is_an_os_error(tmp_path: Path) -> None:
    async with open_broker(config(tmp_path / "one")) as node:
        port = int(node.address.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            async with open_broker(config(tmp_path / "two", listen_port=port)):
                raise AssertionError("it started")


async def test_a_java_store_is_served_message_for_message(copy_java_store: Any) -> None:
    store = copy_java_store("store-clean")
    sizes = {"mapped_file_size_commit_log": 512 * 1024, "max_hash_slot_num": 500, "max_index_num": 2000}
    async with open_broker(config(store.root, **sizes)) as node:
        expected = {
            (line["topic"], line["queueId"], line["queueOffset"])
            for line in store.of_kind("msg")
            if line["topic"] == "SeedTags"
        }
        assert expected
        assert {(t, q, o) async for t, q, o in served(node, "SeedTags")} == expected


async def served(node: BrokerNode, topic: str) -> Any:
    """Every message of a topic as a client pulls it."""
    peer = await connect(node.address)
    topic_config = node.context.topics.get(topic)
    assert topic_config is not None
    for queue_id in range(topic_config.read_queue_nums):
        offset = 0
        while True:
            reply = await ask(peer, 11, pull_header(topic, queue_id, offset))
            offset = int((reply.ext_fields or {})["nextBeginOffset"])
            if reply.code == 19:
                break
            for message in decode_records(reply.body) if reply.code == 0 else ():
                yield message.topic, message.queue_id, message.queue_offset


def test_the_address_for_clients() -> None:
    assert own_address("127.0.0.1") == "127.0.0.1"
    assert own_address("0.0.0.0").count(".") == 3
