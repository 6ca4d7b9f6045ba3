"""Changes of accounts by requests: in force at once, in files that a start reads again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from trio.testing import MockClock

from rmqcli.broker.testing.embedded import embedded
from rmqcli.client import Admin, BrokerRefused, Credentials
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.headers.acl import CreateAccessConfigRequestHeader
from tests.broker.auth.support import ACCOUNTS, FOLDER, FROM, OPERATOR, PLAIN, asking, disk_with, guarded

NEW = Credentials("new-account", "secret-of-new")
HEADER = {"accessKey": "new-account", "secretKey": "secret-of-new", "topicPerms": "news=PUB, x=SUB"}
OTHER = b"# kept\nglobalWhiteRemoteAddresses: [10.9.9.9]\naccounts: [{accessKey: of-folder, secretKey: secret-of-folder}]"


def documents(disk: Any) -> tuple[Any, Any]:
    return yaml.safe_load(disk.read(PLAIN)), yaml.safe_load(disk.read(FOLDER / "a.yml"))


async def test_an_account_is_created_changed_and_deleted(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS, FOLDER / "a.yml": OTHER})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        assert await ask(50, HEADER, account=OPERATOR) == (0, "")
        assert (await ask(R.GET_BROKER_RUNTIME_INFO, account=NEW))[0] == 0
        assert documents(disk)[0]["accounts"][-1] == {
            "accessKey": "new-account",
            "secretKey": "secret-of-new",
            "topicPerms": ["news=PUB", "x=SUB"],
            "admin": False,
        }
        given = {"accessKey": "of-folder", "secretKey": "another-secret", "admin": "true"}
        assert await ask(50, given, account=OPERATOR) == (0, "")
        assert (await ask(17, account=Credentials("of-folder", "another-secret")))[1][: len(FROM)] != FROM
        plain, other = documents(disk)
        assert other["accounts"] == [given | {"admin": True}]
        assert other["globalWhiteRemoteAddresses"] == ["10.9.9.9"]
        assert (plain["dataVersion"][0]["counter"], other["dataVersion"][0]["counter"]) == (1, 1)
        assert await ask(51, {"accessKey": "new-account"}, account=OPERATOR) == (0, "")
        assert (await ask(28, account=NEW))[1] == f"{FROM}No acl config for new-account"
        assert await ask(51, {"accessKey": "new-account"}, account=OPERATOR) == (
            210,
            "The accesskey[new-account] corresponding to accessConfig has been deleted failed.",
        )
    async with guarded(disk) as cluster, asking(cluster) as ask:
        assert (await ask(28, account=Credentials("of-folder", "another-secret")))[0] == 0
        assert (await ask(28, account=NEW))[0] == 1


async def test_white_addresses_are_replaced(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS, FOLDER / "a.yml": OTHER})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        for path in ("", str(FOLDER / "a.yml")):
            header = {"globalWhiteAddrs": "127.0.0.1, 10.0.*.*", "aclFileFullPath": path}
            assert (await ask(28))[0] == 1
            assert await ask(53, header, account=OPERATOR) == (0, "")
            assert (await ask(28))[0] == 0
            assert await ask(53, header | {"globalWhiteAddrs": ""}) == (0, "")
        # mqadmin 4.9.8 leaves the path out
        assert await ask(53, {"globalWhiteAddrs": "10.9.9.9"}, account=OPERATOR) == (0, "")
        for one, reason in (
            ({"globalWhiteAddrs": "x", "aclFileFullPath": ""}, "'x' is not an address"),
            (
                {"globalWhiteAddrs": "10.0.0.1", "aclFileFullPath": "/etc/passwd"},
                "/etc/passwd is none of the files",
            ),
        ):
            code, remark = await ask(53, one, account=OPERATOR)
            assert code == 211
            assert remark.startswith(
                f"The globalWhiteAddresses[{one['globalWhiteAddrs']}] has been updated failed."
            )
            assert reason in remark


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"accessKey": "short"},
            "The accessKey=short and secretKey=*** cannot be null and length should longer than 6",
        ),
        (
            {"accessKey": "new-account", "secretKey": "hidden"},
            "cannot be null and length should longer than 6",
        ),
        (
            HEADER | {"topicPerms": "a=XX"},
            "Parse resource permission error for a=XX.\nThe expected permissions are",
        ),
        (HEADER | {"whiteRemoteAddress": "x"}, "'x' is not an address"),
    ],
)
async def test_accounts_that_are_refused(
    autojump_clock: MockClock, given: dict[str, str], reason: str
) -> None:
    disk = disk_with({PLAIN: ACCOUNTS})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        code, remark = await ask(50, given, account=OPERATOR)
        assert (code, reason in remark, "hidden" in remark) == (209, True, False)
        assert disk.read(PLAIN) == ACCOUNTS


async def test_a_file_that_is_broken_meanwhile_is_not_rewritten(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS})
    async with guarded(disk) as cluster, asking(cluster) as ask:
        disk.write(PLAIN, b"accounts: [")
        code, remark = await ask(50, HEADER, account=OPERATOR)
        assert (code, "not a YAML file" in remark) == (209, True)
        assert disk.read(PLAIN) == b"accounts: ["


async def test_the_versions_of_files(autojump_clock: MockClock) -> None:
    disk = disk_with({PLAIN: ACCOUNTS, FOLDER / "a.yml": OTHER})
    async with guarded(disk) as cluster, Admin(**cluster.client(), credentials=OPERATOR) as admin:
        seats = {"broker-a": cluster.broker_address}
        await admin.access.put_account(
            seats, CreateAccessConfigRequestHeader(access_key="new-account", secret_key="secret-of-new")
        )
        found = (await admin.access.versions(seats))["broker-a"]
        assert json.loads(found.version)["counter"] == 1
        files = json.loads(found.all_acl_file_version or "")
        assert {path: one["counter"] for path, one in files.items()} == {
            str(PLAIN): 1,
            str(FOLDER / "a.yml"): 0,
        }
        assert (found.broker_name, found.broker_addr) == (cluster.broker_name, cluster.broker_address)


async def test_without_access_control_there_are_no_accounts(autojump_clock: MockClock) -> None:
    async with guarded(acl_enable=False) as cluster, asking(cluster) as ask:
        off = "access control is off (aclEnable=false)"
        assert await ask(50, HEADER) == (209, off)
        assert await ask(51, {"accessKey": "x"}) == (210, off)
        assert await ask(53, {"globalWhiteAddrs": "", "aclFileFullPath": ""}) == (211, off)
        assert await ask(52) == (1, off)


async def test_files_with_secrets_are_for_their_owner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = tmp_path / "conf" / "plain_acl.yml"
    plain.parent.mkdir()
    plain.write_bytes(ACCOUNTS)
    plain.chmod(0o640)
    async with embedded(acl_enable=True, rocketmq_home=str(tmp_path)) as cluster:
        async with Admin(namesrv=cluster.namesrv, credentials=OPERATOR) as admin:
            seats = {"broker-a": cluster.broker_address}
            account = CreateAccessConfigRequestHeader(access_key="new-account", secret_key="secret-of-new")
            await admin.access.put_account(seats, account)
        async with Admin(namesrv=cluster.namesrv, credentials=NEW) as ordinary:
            with pytest.raises(BrokerRefused, match="Need admin permission for request code=50"):
                await ordinary.access.put_account(seats, account)
    assert plain.stat().st_mode & 0o777 == 0o600
    assert b"secret-of-new" in plain.read_bytes()
    warning = f"others may read {plain}, which has secret keys: chmod 600"
    assert caplog.text.count(warning) == 1
    async with embedded(acl_enable=True, rocketmq_home=str(tmp_path)):
        assert caplog.text.count(warning) == 1
