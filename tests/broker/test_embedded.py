"""Embedded clusters in trio, in a thread, and as pytest fixtures, with clients that send raw frames."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import trio

from rmqcli import broker
from rmqcli.broker.errors import ConfigError
from rmqcli.codec.bodies.base import decode_body
from rmqcli.codec.bodies.route import TopicRouteData
from rmqcli.codec.codes import RequestCode, ResponseCode
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.headers.send import SendMessageRequestHeaderV2
from rmqcli.codec.records.reading import decode_records
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.extras import MissingPackage
from tests.broker.serving import connect
from tests.support import PATIENCE

ROOT = Path(__file__).parents[2]
WITHOUT_PLUGIN = not entry_points(group="pytest11", name="rmq")


async def route(namesrv: str, topic: str) -> TopicRouteData | None:
    client = await connect(namesrv)
    reply = await client.ask(RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}))
    await client.stream.aclose()
    return decode_body(TopicRouteData, reply.body) if reply.code == ResponseCode.SUCCESS else None


def send(topic: str, body: bytes, properties: str = "") -> RemotingCommand:
    header = SendMessageRequestHeaderV2(
        producer_group="G",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=properties,
    )
    return RemotingCommand(RequestCode.SEND_MESSAGE_V2, to_ext(header), body)


def pull(topic: str) -> RemotingCommand:
    header = PullMessageRequestHeader(
        consumer_group="G",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
    )
    return RemotingCommand(RequestCode.PULL_MESSAGE, to_ext(header))


async def bodies(address: str, topic: str) -> list[bytes]:
    client = await connect(address)
    reply = await client.ask(pull(topic))
    await client.stream.aclose()
    assert reply.code == ResponseCode.SUCCESS
    return [bytes(message.body) for message in decode_records(reply.body)]


async def test_a_client_finds_the_broker_and_receives_messages() -> None:
    async with broker.embedded() as cluster:
        default = await route(cluster.namesrv, "TBW102")
        assert default is not None
        address = default.broker_datas[0].broker_addrs[0]
        assert address == cluster.broker_address
        producer = await connect(address)
        for n in range(3):
            reply = await producer.ask(send("Fresh", b"body %d" % n))
            assert (reply.code, (reply.ext_fields or {})["queueOffset"]) == (ResponseCode.SUCCESS, str(n))
        assert await bodies(address, "Fresh") == [b"body 0", b"body 1", b"body 2"]
        with trio.fail_after(PATIENCE):
            while await route(cluster.namesrv, "Fresh") is None:
                await trio.lowlevel.checkpoint()
        assert cluster.store_path.is_dir()
    assert not cluster.store_path.exists()


async def test_a_given_store_is_kept(tmp_path: Path) -> None:
    for round_ in range(2):
        async with broker.embedded(store=tmp_path / "store") as cluster:
            producer = await connect(cluster.broker_address)
            await producer.ask(send("Kept", b"round %d" % round_))
            kept = await bodies(cluster.broker_address, "Kept")
        assert kept == [b"round %d" % n for n in range(round_ + 1)]
    sizes = [file.stat().st_size for file in (tmp_path / "store" / "commitlog").iterdir()]
    assert set(sizes) == {64 << 20}


@pytest.mark.parametrize(
    "sizes",
    [
        {"mapped_file_size_consume_queue": 205 * 20},
        {"max_hash_slot_num": 5_000_000, "max_index_num": 20_000_000},
    ],
)
async def test_a_store_keeps_the_sizes_of_its_files(tmp_path: Path, sizes: dict[str, Any]) -> None:
    """A folder opens again without the sizes of its files."""
    written = [b"body %d" % number for number in range(300)]
    async with broker.embedded(store=tmp_path / "store", **sizes) as cluster:
        producer = await connect(cluster.broker_address)
        for body in written:
            await producer.ask(send("Kept", body, f"KEYS\1{body.decode()}\2"))
    async with broker.embedded(store=tmp_path / "store") as cluster:
        producer = await connect(cluster.broker_address)
        reply = await producer.ask(send("Kept", b"more"))
        assert (reply.code, (reply.ext_fields or {})["queueOffset"]) == (ResponseCode.SUCCESS, "300")


async def test_settings_are_broker_properties() -> None:
    async with broker.embedded(auto_create_topic_enable=False, broker_name="b7") as cluster:
        assert (cluster.broker_name, cluster.cluster_name) == ("b7", "DefaultCluster")
        client = await connect(cluster.broker_address)
        assert (await client.ask(send("Fresh", b"x"))).code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    ("settings", "named"), [({"brokername": "x"}, "brokername"), ({"broker_id": "first"}, "brokerId")]
)
async def test_a_wrong_setting_is_refused_with_its_name(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        async with broker.embedded(**settings):
            pass


async def test_an_exception_of_the_block_is_not_grouped() -> None:
    with pytest.raises(ZeroDivisionError):
        async with broker.embedded():
            raise ZeroDivisionError


def test_a_cluster_in_a_thread_serves_all_clients() -> None:
    with broker.embedded_in_thread() as cluster:
        trio.run(check_send, cluster.broker_address)
    with pytest.raises(OSError, match="connect"):
        trio.run(connect, cluster.broker_address)


async def check_send(address: str) -> None:
    client = await connect(address)
    assert (await client.ask(send("T", b"x"))).code == ResponseCode.SUCCESS


def test_an_exception_of_the_thread_is_raised_in_the_caller() -> None:
    with pytest.raises(ConfigError, match="nonsense"), broker.embedded_in_thread(nonsense=1):
        pass
    with pytest.raises(ZeroDivisionError), broker.embedded_in_thread():
        raise ZeroDivisionError


def test_the_package_imports_little() -> None:
    code = (
        "import sys\nfrom rmqcli import broker\n"
        "heavy = {'trio', 'msgspec', 'numpy', 'construct', 'ssl'}\n"
        "print(sorted(one for one in sys.modules if one in heavy or one.startswith('rmqcli.codec.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "['rmqcli.codec.lazy']\n"


USER_SUITE = """
import socket
import pytest
import trio

@pytest.fixture(scope="session")
def rmq_settings():
    return {"broker_name": "from-settings"}

def address(text):
    host, port = text.split(":")
    return host, int(port)

def test_plain(rmq_cluster):
    assert rmq_cluster.broker_name == "from-settings"
    socket.create_connection(address(rmq_cluster.namesrv)).close()

@pytest.mark.trio
async def test_trio(rmq_cluster):
    await (await trio.open_tcp_stream(*address(rmq_cluster.broker_address))).aclose()

@pytest.mark.trio
async def test_grpc(rmq_cluster):
    await (await trio.open_tcp_stream(*address(rmq_cluster.grpc_endpoint))).aclose()

SEEN = []

@pytest.mark.parametrize("n", range(2))
def test_shared(rmq_cluster_session, n):
    SEEN.append(rmq_cluster_session.namesrv)
    assert len(set(SEEN)) == 1
"""


def test_the_fixtures_serve_plain_and_trio_tests(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_SUITE)
    plugin = ["-p", "rmqcli.pytest_plugin"] if WITHOUT_PLUGIN else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "5 passed" in done.stdout, done.stdout + done.stderr


def test_the_fixture_imports_no_more_than_its_test_needs(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(
        "import sys\n\ndef test_ours(rmq_cluster):\n"
        "    from rmqcli.broker.node import __spec__\n"
        "    assert type(__spec__.loader).__name__ == 'SourceFileLoader'\n"
        "    assert sorted(sys.modules.keys() & {'h2', 'google.protobuf', 'cryptography', 'typer', 'yaml'}) == []\n"
        "\ndef test_theirs(): assert 1 + 1 == 3\n"
    )
    out = run_suite(tmp_path)
    assert "1 failed, 1 passed" in out and "assert (1 + 1) == 3" in out


def test_grpc_clients_are_served_from_the_first_time_that_a_thread_asks() -> None:
    with broker.embedded_in_thread() as cluster, ThreadPoolExecutor(4) as threads:
        found = set(threads.map(lambda _: cluster.grpc_endpoint, range(8)))
        (endpoint,) = found
        trio.run(check_open, endpoint)
    assert cluster.grpc_endpoint == endpoint
    with pytest.raises(OSError, match="connect"):
        trio.run(check_open, endpoint)


def test_the_cluster_of_a_thread_without_the_extra_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqcli.broker.testing.embedded.GRPC", ("grpc", "no_such_package"))
    with broker.embedded_in_thread() as cluster:
        for _ in range(2):
            with pytest.raises(MissingPackage, match=r"no_such_package .*rmqcli\[grpc\]"):
                _ = cluster.grpc_endpoint
        trio.run(check_send, cluster.broker_address)


async def test_a_cluster_without_grpc_clients_says_so() -> None:
    async with broker.embedded() as cluster:
        with pytest.raises(ConfigError, match="grpc_port"):
            _ = cluster.grpc_endpoint
    with broker.embedded_in_thread() as running:
        pass
    with pytest.raises(ConfigError, match="has ended"):
        _ = running.grpc_endpoint


async def check_open(address: str) -> None:
    host, _, port = address.rpartition(":")
    await (await trio.open_tcp_stream(host, int(port))).aclose()


def run_suite(folder: Path) -> str:
    """Run the tests below `folder` as a project in an environment with rmqcli does. Return what pytest printed."""
    plugin = ["-p", "rmqcli.pytest_plugin"] if WITHOUT_PLUGIN else []
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout


@pytest.mark.parametrize("name", ["broker", "codec"])
def test_a_project_may_have_a_module_named_as_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("ours = False\n")
    (tmp_path / "test_own.py").write_text(
        f"import {name}\n\ndef test_own(rmq_cluster): assert rmq_cluster.namesrv and not {name}.ours\n"
    )
    assert "1 passed" in run_suite(tmp_path)
