"""Every command against a name server with which no broker is registered: as after the kill of all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rmqcli.broker.config import NamesrvConfig
from rmqcli.broker.namesrv.node import open_name_server
from rmqcli.broker.system import system_now_ms
from rmqcli.codec.recall_handle import RecallHandle
from tests.cli.conftest import Run
from tests.cli.servers.clusters import in_thread
from tests.json_schema import COMMANDS

HANDLE = RecallHandle("t", "b", 1, "k").encode()
TOLD = "no broker is registered with name server "
LINES = """\
acl delete key -y|acl set operator1 --topic-default PUB --secret-file PASSWORD|acl version|acl whitelist 10.0.0.1
acl policy copy --from a --to b|acl policy delete u -y|acl policy list|acl policy show u
acl policy set u Topic:t --action Pub -y
acl user copy --from a --to b|acl user create u --password-file PASSWORD|acl user delete u -y
acl user list|acl user show u|acl user update u --type Normal
bench consume -c 1|bench e2e -c 1|bench send -c 1
broker advance 1h|broker clean log -y|broker clean queues -y|broker clean topics -y|broker cold read-ahead normal
broker cold remove g|broker cold set g 1|broker cold show|broker config diff --defaults
broker config set flushDiskType=SYNC_FLUSH -y|broker config show|broker drain a -y|broker undrain a
broker lag|broker ping|broker status|broker rocksdb compare|broker rocksdb pop
broker ha epochs|broker ha reset 0 -y|broker ha show
cluster dump|cluster list|cluster producers|consume t -g g -c 1|copy t u
dlq drop g --all -y|dlq list|dlq list g|dlq redrive g --all -y|dlq show g
export --topic t --out OUT|report --out OUT|sql select#1#from#t|top --once
group check|group check g|group clients g|group create g|group delete g -y|group deliver g -T t --id ID
group describe g|group list|group mode g t PULL|group settings g|group status g|group update g --consume
metrics show|offsets clone g h t|offsets reset g t --to start -y|offsets show g
pull t|query t -k K|recall HANDLE|request t x|send t x|tail t -c 1|trace ID
topic allocate t client|topic create t|topic delete t -y|topic describe t|topic entries t -q 0|topic list
topic route t|topic static remap t -b a -y|topic static show t|topic static update t -b a --queues 1 -y
topic stats t|topic top|topic top t|topic update t --perm r"""
ASKED = tuple(
    line.replace("ID", "7F00000100002A9F0000000000000000").replace("HANDLE", HANDLE)
    for part in LINES.splitlines()
    for line in part.split("|")
)
OF_FILES: tuple[str, ...] = (
    "acl check",
    "acl list",
    "inspect",
    "profile",
    "cheat",
    "id",
    "spark package",
    "cluster apply",
    "cluster diff",
)
OF_FILES += ("group apply", "topic apply", "import", "compact")
OF_OTHERS: tuple[str, ...] = (
    "namesrv",
    "controller",
    "topic order",
    "broker container",
    "broker rocksdb export",
    "mirror",
    "proxy",
    "up",
)
OF_OTHERS += ("broker run", "console", "metrics serve", "doctor", "check")


@asynccontextmanager
async def _empty() -> AsyncIterator[str]:
    names = NamesrvConfig(kv_config_path=None, config_store_path=None)
    async with open_name_server(names, host="127.0.0.1", port=0, now_ms=system_now_ms) as server:
        yield server.address


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with in_thread(_empty) as found:
        yield found


@pytest.fixture
def empty(cli: Run, namesrv: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("RMQ_NAMESRV", namesrv)
    return lambda *arguments, stdin=b"": cli("--timeout", "30", *arguments, stdin=stdin)


def test_it_is_told(empty: Run, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret-of-tests")
    for line in ASKED:
        text = line.replace("OUT", str(tmp_path / "out")).replace("PASSWORD", str(password))
        result = empty(*(word.replace("#", " ") for word in text.split(" ")))
        assert (result.code, result.err.count("\n")) == (5, 1), (line, result)
        assert TOLD in result.err and "create it" not in result.err, (line, result)
        assert result.out == b"" or line.startswith("metrics"), (line, result)


def test_no_command_is_left_out() -> None:
    told = {name for name in COMMANDS if any(f"{line} ".startswith(f"{name} ") for line in ASKED)}
    others = {name for name in COMMANDS if name.startswith((*OF_FILES, *OF_OTHERS))}
    assert set(COMMANDS) == told | others


@pytest.mark.parametrize(
    ("check", "state"),
    [
        ("brokers", "CRITICAL"),
        ("send", "CRITICAL"),
        ("disk", "UNKNOWN"),
        ("dlq", "UNKNOWN"),
        ("lag", "UNKNOWN"),
    ],
)
def test_no_check_is_ok(empty: Run, check: str, state: str) -> None:
    result = empty("check", check)
    assert result.out.decode().startswith(f"RMQ {check.upper()} {state} - {TOLD}")
    assert result.code == {"CRITICAL": 2, "UNKNOWN": 3}[state]


def test_metrics_have_a_zero(empty: Run) -> None:
    shown = empty("metrics", "show")
    assert (
        b'rmq_up{broker="",brokerIP="",cluster=""} 0.0' in shown.out
        and b"rmq_name_server_up 1.0" in shown.out
    )


def test_doctor_does_not_advise_to_create_the_topic(empty: Run) -> None:
    found = empty("doctor", "orders", "-g", "billing")
    assert found.code == 1
    assert [line[3] for line in found.lines if line[0] == "fail"] == [
        "no broker is registered"
    ] or found.lines
    assert "create" not in found.out.decode()
