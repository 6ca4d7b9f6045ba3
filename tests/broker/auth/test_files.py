"""Files of accounts: at the start, and when they change while the broker runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmqcli.broker.auth.files import default_file
from rmqcli.broker.auth.following import AccountFiles
from rmqcli.broker.config import BrokerConfig, update_config
from rmqcli.broker.errors import ConfigError, Refusal
from rmqcli.broker.testing.embedded import embedded
from rmqcli.client import Credentials
from rmqcli.codec.acl.account_file import AccountFile, parse_file
from rmqcli.codec.codes import RequestCode as R
from tests.broker.auth.support import (
    ACCOUNTS,
    FOLDER,
    FROM,
    HOME,
    OPERATOR,
    ORDINARY,
    PLAIN,
    Asker,
    asking,
    disk_with,
    files_are_followed,
    guarded,
)

ANOTHER = Credentials("another-key", "secret-of-another")
OF_ANOTHER = b"accounts: [{accessKey: another-key, secretKey: secret-of-another, topicPerms: [news=PUB]}]"
UNKNOWN = f"{FROM}No acl config for another-key"


async def remark_of(ask: Asker, account: Credentials) -> str:
    """The remark to a request that only asks who it is from."""
    code, remark = await ask(R.GET_BROKER_RUNTIME_INFO, account=account)
    return remark if code else ""


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({PLAIN: b"globalWhiteRemoteAddresses: [10.0.0.5-3]"}, "plain_acl.yml: '10.0.0.5-3' is not an address"),
        ({PLAIN: b"accounts: ["}, "plain_acl.yml: not a YAML file at line 1"),
        ({PLAIN: ACCOUNTS, FOLDER / "deep" / "b.yaml": b"accounts: x"}, "acl/deep/b.yaml: accounts: a list"),
        ({PLAIN: b" " * (5 << 20)}, "is the limit"),
    ],
)  # fmt: skip
async def test_a_broken_file_prevents_the_start(
    autojump_clock: MockClock, files: dict[Path, bytes], reason: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        async with guarded(disk_with(files)):
            pass
    assert reason in str(caught.value)


async def test_without_files_nobody_gets_in(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk = disk_with({})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        assert f"{PLAIN} is missing or empty: no account may use this broker" in caplog.text
        assert await remark_of(ask, OPERATOR) == f"{FROM}No acl config for operator"
        disk.make_folder(PLAIN.parent)
        disk.write(PLAIN, ACCOUNTS)
        await files_are_followed()
        assert await remark_of(ask, OPERATOR) == ""


async def test_all_files_of_the_folder_count(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    same = b"accounts: [{accessKey: ordinary, secretKey: another-secret}]"
    files = {
        PLAIN: ACCOUNTS,
        FOLDER / "a.yml": OF_ANOTHER,
        FOLDER / "deep" / "b.yaml": same,
        FOLDER / "tools.yml": b"accessKey: x",
        FOLDER / "notes.txt": b"[",
    }
    async with guarded(disk_with(files)) as cluster, asking(cluster) as ask:
        for account in (OPERATOR, ANOTHER, Credentials("ordinary", "another-secret")):
            assert await remark_of(ask, account) == ""
        assert "Check signature failed" in await remark_of(ask, ORDINARY)
    assert f"{PLAIN}: account ordinary is ignored: an earlier file has it" in caplog.text


async def test_changes_are_followed_within_a_second(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        assert await remark_of(ask, ANOTHER) == UNKNOWN
        disk.make_folder(FOLDER)
        disk.write(FOLDER / "a.yml", OF_ANOTHER)
        await files_are_followed()
        assert await remark_of(ask, ANOTHER) == ""
        disk.write(FOLDER / "a.yml", OF_ANOTHER.replace(b"secret-of", b"secret-to"))
        await files_are_followed()
        assert "Check signature failed" in await remark_of(ask, ANOTHER)
        disk.unlink(FOLDER / "a.yml")
        await files_are_followed()
        assert await remark_of(ask, ANOTHER) == UNKNOWN
        assert await remark_of(ask, OPERATOR) == ""


@pytest.mark.parametrize(
    "broken", [b"accounts: [", b"", b"\n", b"globalWhiteRemoteAddresses: [x]", b" " * (5 << 20)]
)
async def test_a_broken_change_is_not_followed(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture, broken: bytes
) -> None:
    disk = disk_with({PLAIN: ACCOUNTS})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        disk.write(PLAIN, broken)
        await trio.sleep(10)
        assert await remark_of(ask, ORDINARY) == ""
        assert await remark_of(ask, ANOTHER) == UNKNOWN
        assert (await ask(R.GET_BROKER_RUNTIME_INFO))[0] == 1
        errors = [one.message for one in caplog.records if one.levelno == logging.ERROR]
        if broken.strip():
            assert len(errors) == 1 and "its accounts stay as they were" in errors[0]
        disk.write(PLAIN, OF_ANOTHER)
        await files_are_followed()
        assert await remark_of(ask, ANOTHER) == ""


async def test_a_disk_that_refuses_does_not_open_the_broker(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        disk.unlink(PLAIN)
        await files_are_followed()
        assert await remark_of(ask, OPERATOR) == f"{FROM}No acl config for operator"


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    assert default_file(BrokerConfig(rocketmq_home="/home/rocketmq")) == PLAIN
    assert default_file(BrokerConfig(rocketmq_home="/h", plain_acl_file="x/a.yml")) == Path("/h/x/a.yml")
    assert default_file(BrokerConfig(plain_acl_file="/etc/a.yml")) == Path("/etc/a.yml")
    with pytest.raises(ConfigError, match="no file of accounts is named: set plainAclFile"):
        default_file(BrokerConfig())
    monkeypatch.setenv("ROCKETMQ_HOME", str(HOME))
    assert default_file(BrokerConfig()) == PLAIN


async def test_a_broker_without_a_named_file_does_not_start(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(ConfigError, match="no file of accounts is named"):
        async with embedded(acl_enable=True):
            pass


REMOTE = [
    *(
        "aclEnable=false",
        "plainAclFile=/tmp/x",
        "rocketmqHome=/tmp",
        "brokerConfigPath=/tmp/x",
        "listenPort=1",
        "advertisedPort=1",
    ),
    *("storePathRootDir=/tmp", "storePathCommitLog=/tmp", "bindAddress=10.0.0.1", "brokerIP1=1.2.3.4"),
    *("brokerIP2=1.2.3.4", "haListenPort=5", "vipChannelEnabled=false", "configBlackList=x", "brokerName=x"),
]


@pytest.mark.parametrize("change", REMOTE)
def test_what_no_request_changes(change: str) -> None:
    name, _, value = change.partition("=")
    config = BrokerConfig(acl_enable=True)
    with pytest.raises(Refusal):
        update_config(config, {name: value})


async def test_a_file_that_takes_long_does_not_hold_up_the_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of 4 MiB that only PyYAML reads takes half a minute."""
    disk = disk_with({PLAIN: ACCOUNTS, FOLDER / "a.yml": OF_ANOTHER})
    created: list[AccountFiles] = []

    class Files(AccountFiles):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            created.append(self)

    monkeypatch.setattr("rmqcli.broker.auth.opening.AccountFiles", Files)
    async with guarded(disk) as cluster, asking(cluster) as ask:
        taken: list[str] = []

        def parse(path: str, content: bytes, now_ms: int = 0) -> AccountFile:
            taken.append(path)
            return parse_file(path, content, now_ms)

        async def in_thread(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
            if function is parse and b"slow" in arguments[1]:
                await trio.sleep(30)
            return function(*arguments)

        monkeypatch.setattr("rmqcli.broker.auth.following.parse_file", parse)
        monkeypatch.setattr(created[0], "in_thread", in_thread)
        disk.write(PLAIN, ACCOUNTS.replace(b"secret-of-ordinary", b"secret-changed") + b"# slow")
        await files_are_followed()
        assert await remark_of(ask, ORDINARY) == "", "it is being read"
        for text, remark in ((b"accounts: []", UNKNOWN), (OF_ANOTHER, "")):
            disk.write(FOLDER / "a.yml", text)
            await files_are_followed()
            assert await remark_of(ask, ANOTHER) == remark
        await trio.sleep(30)
        assert await remark_of(ask, ORDINARY) == f"{FROM}Check signature failed for accessKey=ordinary"
        assert taken.count(str(PLAIN)) == 1


async def test_files_that_change_together_are_in_force_together(autojump_clock: MockClock) -> None:
    """An account that moves from one file to another is never unknown."""
    disk = disk_with({PLAIN: ACCOUNTS, FOLDER / "a.yml": OF_ANOTHER, FOLDER / "b.yml": b"accounts: []"})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        disk.write(FOLDER / "a.yml", b"accounts: []")
        disk.write(FOLDER / "b.yml", OF_ANOTHER.replace(b"news=PUB", b"news=SUB"))
        for _ in range(40):
            await trio.sleep(0.05)
            assert await remark_of(ask, ANOTHER) == ""
        own = {"topic": "news", "queueId": "0"}
        assert (await ask(R.GET_MAX_OFFSET, own, account=ANOTHER))[0] == 0
