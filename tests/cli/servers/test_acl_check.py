"""`rmq acl check` and `rmq acl list`."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.broker.testing.embedded import embedded_in_thread
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.codec.codes import RequestCode as R
from tests.cli.conftest import Run
from tests.cli.servers.scripted import Peers
from tests.client.scripted import refuse

ACL = "org.apache.rocketmq.acl.common.AclException: "
TEXT = """
accounts:
- accessKey: billing-app
  secretKey: secret-of-billing
  topicPerms: ['orders=PUB|SUB', audit=PUB]
  groupPerms: [billing=SUB]
  whiteRemoteAddress: 10.0.*.*
- {accessKey: operator, secretKey: secret-of-operator, admin: true}
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    folder = tmp_path / "conf"
    (folder / "acl" / "deep").mkdir(parents=True)
    (folder / "plain_acl.yml").write_text(TEXT)
    (folder / "acl" / "deep" / "b.yaml").write_text(
        "accounts: [{accessKey: operator, secretKey: another-secret}]"
    )
    return folder


@pytest.mark.parametrize(
    ("words", "allowed", "line"),
    [
        (["billing-app", "pub", "Topic:audit"], True, "billing-app: topicPerms: audit=PUB"),
        (["billing-app", "sub", "Topic:audit"], False, "billing-app: topicPerms: audit=PUB"),
        (["billing-app", "sub", "group:billing"], True, "billing-app: groupPerms: billing=SUB"),
        (["billing-app", "sub", "Group:other"], False, "billing-app: defaultGroupPerm: DENY"),
        (["billing-app", "admin"], False, "billing-app: admin: false"),
        (["billing-app", "admin", "--address", "10.0.0.7"], True, "whiteRemoteAddress: 10.0.*.*"),
        (["nobody-here", "pub", "Topic:orders"], False, "no file has this access key"),
        (["operator", "admin"], False, "b.yaml: operator: admin: false"),
    ],
)
def test_the_decision_of_files(cli: Run, conf: Path, words: list[str], allowed: bool, line: str) -> None:
    found = cli("acl", "check", *words, "--acl-file", str(conf))
    assert found.code == (ExitCode.DONE if allowed else ExitCode.NOT_PERMITTED)
    (row,) = found.lines
    assert row[-2] == ("true" if allowed else "false")
    assert row[-1].endswith(line)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["k", "read", "Topic:a"], "'read': expected pub, sub, admin"),
        (["k", "pub", "orders"], "'orders': expected Topic:NAME"),
        (["k", "pub", "Group:g"], "'Group:g': expected Topic:NAME"),
        (["k", "sub"], "'': expected Topic:NAME"),
        (["k", "admin", "Topic:a"], "admin has no resource"),
        (["k", "pub", "Topic:a", "--address", "here"], "'here' is not an address"),
    ],
)
def test_what_is_not_asked(cli: Run, conf: Path, words: list[str], reason: str) -> None:
    found = cli("acl", "check", *words, "--acl-file", str(conf))
    assert (found.code, reason in found.err) == (ExitCode.USAGE, True), found.err


def test_files_that_a_broker_refuses(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "plain_acl.yml"
    path.write_text("accounts: [{accessKey: x, secretKey: hidden}]")
    found = cli("acl", "list", str(path))
    assert (found.code, "hidden" in found.err) == (ExitCode.USAGE, False)
    assert f"{path}: account 1: accessKey has fewer than 7 characters" in found.err
    assert cli("acl", "list", str(tmp_path / "none.yml")).code == ExitCode.NOT_FOUND
    (tmp_path / "empty").mkdir()
    assert "no file of accounts" in cli("acl", "list", str(tmp_path / "empty")).err


def test_accounts_are_listed_without_secrets(cli: Run, conf: Path) -> None:
    found = cli("acl", "list", str(conf), "--json")
    assert b"secret" not in found.out
    assert [(one["accessKey"], one["admin"], one["topicPerms"]) for one in found.json] == [
        ("operator", False, []),
        ("billing-app", False, ["orders=PUB|SUB", "audit=PUB"]),
    ]


def test_a_broker_that_is_busy_has_not_allowed_it(cli: Run, peers: Peers, tmp_path: Path) -> None:
    """It refuses before it looks at the account."""
    keys = tmp_path / "keys"
    keys.write_text("secret-of-billing\n")
    keys.chmod(0o600)
    words = ["--access-key", "billing-app", "--secret-key-file", str(keys), "acl", "check", "billing-app"]
    peers.a.replies[R.QUERY_MESSAGE] = refuse(2, "too busy")
    peers.b.replies[R.QUERY_MESSAGE] = refuse(22, "nothing found")
    found = cli(*words, "sub", "Topic:orders")
    assert (found.code, [row[0] for row in found.lines]) == (ExitCode.PARTLY, ["broker-b"])
    assert "broker-a: " in found.err and "SYSTEM_BUSY" in found.err
    peers.b.replies[R.QUERY_MESSAGE] = refuse(1, f"{ACL}No default permission for topic:orders")
    found = cli(*words, "sub", "Topic:orders")
    assert (found.code, [row[0] for row in found.lines]) == (ExitCode.NOT_PERMITTED, ["broker-b"])
    assert "SYSTEM_BUSY" in found.err
    peers.b.replies[R.QUERY_MESSAGE] = refuse(2, "too busy")
    assert cli(*words, "sub", "Topic:orders").code == ExitCode.FAILED


def test_brokers_are_asked_and_nothing_is_stored(cli: Run, tmp_path: Path) -> None:
    plain = tmp_path / "plain_acl.yml"
    plain.write_text(TEXT)
    keys = tmp_path / "keys"
    keys.write_text("secret-of-billing\n")
    keys.chmod(0o600)
    with embedded_in_thread(acl_enable=True, plain_acl_file=str(plain)) as cluster:
        words = ["-n", cluster.namesrv, "--access-key", "billing-app", "--secret-key-file", str(keys)]
        for asked, allowed in (
            (["pub", "Topic:audit"], True),
            (["pub", "Topic:closed"], False),
            (["sub", "Topic:orders"], True),
            (["sub", "Topic:audit"], False),
            (["sub", "Group:billing"], True),
            (["sub", "Group:other"], False),
        ):
            found = cli(*words, "acl", "check", "billing-app", *asked)
            assert found.code == (ExitCode.DONE if allowed else ExitCode.NOT_PERMITTED), found.err
            assert found.lines[0][-2:] == ["true" if allowed else "false", "the broker"]
        assert b"audit" not in cli(*words, "topic", "list").out
        assert "name it with --access-key" in cli(*words, "acl", "check", "operator", "pub", "Topic:a").err
        assert "is for --acl-file" in cli(*words, "acl", "check", "billing-app", "admin").err
