"""`rmq acl`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqcli.codec.codes import RequestCode as R
from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair
from tests.cli.servers.scripted import Peers
from tests.client.scripted import ok, refuse

SECRET = "top-secret-1"
USERS = json.dumps(
    [{"username": "billing", "password": SECRET, "userType": "Normal", "userStatus": "enable"}]
).encode()
ENTRY = {
    "resource": "Topic:orders",
    "actions": ["Pub", "Sub"],
    "sourceIps": ["10.0.0.1"],
    "decision": "Allow",
}
ACL = {"subject": "User:billing", "policies": [{"policyType": "Custom", "entries": [ENTRY]}]}
ROW = ["billing", "Custom", "Topic:orders", "Pub,Sub", "10.0.0.1", "Allow"]


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\nsecond line\n")
    return str(path)


def test_versions_of_brokers_with_access_control(cli: Run, peers: Peers) -> None:
    """One without is not asked, as it would never answer."""
    peers.a.replies[R.GET_BROKER_CONFIG] = ok({"version": "{}"}, b"aclEnable=true\n")
    peers.b.replies[R.GET_BROKER_CONFIG] = ok({"version": "{}"}, b"aclEnable=false\n")
    version = '{"counter":3,"timestamp":1700000000000}'
    more = {"brokerName": "broker-a", "brokerAddr": "x", "clusterName": "C"}
    files = f'{{"/conf/plain_acl.yml":{version}}}'
    header = {"version": version, "allAclFileVersion": files, **more}
    peers.a.replies[R.GET_BROKER_CLUSTER_ACL_INFO] = ok(header)
    found = cli("acl", "version")
    assert (found.code, found.lines) == (3, [["broker-a", "/conf/plain_acl.yml", "3", "1700000000000"]])
    assert found.err == "rmq: broker-b: access control is off (aclEnable=false)\n"
    assert R.GET_BROKER_CLUSTER_ACL_INFO not in peers.b.codes()


def test_an_account_is_set(cli: Run, peers: Peers, secret: str) -> None:
    peers.both(R.UPDATE_AND_CREATE_ACL_CONFIG, ok())
    words = ["acl", "set", "billing-app", "--topic-perm", "orders=PUB|SUB", "--topic-perm", "x=DENY", "--yes"]
    done = cli(*words, "--secret-file", secret, "--white-address", "10.0.*.*")
    assert (done.code, done.err) == (0, "set the account billing-app on broker-a, broker-b\n")
    assert peers.last(R.UPDATE_AND_CREATE_ACL_CONFIG)[0] == {
        "accessKey": "billing-app",
        "secretKey": SECRET,
        "admin": "false",
        "topicPerms": "orders=PUB|SUB,x=DENY",
        "whiteRemoteAddress": "10.0.*.*",
    }
    piped = cli(*words, "--secret-file", "-", "--admin", stdin=b"another-secret\n")
    assert piped.code == 0
    sent = peers.last(R.UPDATE_AND_CREATE_ACL_CONFIG)[0]
    assert (sent["secretKey"], sent["admin"]) == ("another-secret", "true")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["set", "short"], "the access key is too short"),
        (["set", "billing-app", "--group-perm", "g"], "expected DENY or PUB"),
        (["set", "billing-app", "--topic-perm", "a,b=SUB"], "expected DENY or PUB"),
        (["set", "billing-app", "--group-default", "sub"], "expected DENY or PUB"),
        (["whitelist", "10.0.0.{1,2}"], "expected one address"),
        (["user", "update", "billing"], "nothing to change"),
        (["user", "update", "billing", "--status", "off"], "expected enable or disable"),
        (["user", "create", "billing", "--type", "root"], "expected super or normal"),
        (["policy", "set", "billing", "orders", "--action", "Pub"], "expected * or Topic:NAME"),
        (["policy", "set", "billing", "Topic:orders", "--action", "Any"], "expected All, Pub"),
        (["policy", "set", "billing", "Topic:orders"], "no action"),
    ],
)
def test_refusals(cli: Run, peers: Peers, secret: str, words: list[str], text: str) -> None:
    more = ["--secret-file", secret] if words[0] == "set" else []
    found = cli("acl", *words, *more, "--yes")
    assert (found.code, found.out) == (2, b"")
    assert text in found.err
    assert peers.a.asked == []


def test_a_secret_needs_a_terminal_or_a_file(cli: Run, peers: Peers, tmp_path: Path) -> None:
    found = cli("acl", "user", "create", "billing", "--yes")
    assert (found.code, "use --password-file FILE, or -" in found.err) == (2, True)
    (tmp_path / "empty").write_text("\n")
    assert cli("acl", "user", "create", "b", "--password-file", str(tmp_path / "empty"), "--yes").code == 2
    assert cli("acl", "user", "create", "b", "--password-file", str(tmp_path / "none"), "--yes").code == 4


def test_access_control_that_is_off_is_said_plainly(cli: Run, peers: Peers) -> None:
    null = 'Cannot invoke "…AccessValidator.deleteAccessConfig(…)" because "accessValidator" is null'
    peers.a.replies[R.DELETE_ACL_CONFIG] = refuse(210, null)
    peers.b.replies[R.DELETE_ACL_CONFIG] = refuse(210, "The accesskey[billing-app] … failed.")
    found = cli("acl", "delete", "billing-app", "--yes")
    assert (found.code, found.err) == (
        1,
        f"rmq: access control is off (aclEnable=false) at {peers.addresses['broker-a']}\n",
    )
    peers.b.replies[R.DELETE_ACL_CONFIG] = ok()
    assert cli("acl", "delete", "billing-app", "--yes").code == 3


def test_users_without_and_with_passwords(cli: Run, peers: Peers) -> None:
    peers.a.replies[R.AUTH_LIST_USER] = ok(None, USERS)
    peers.b.replies[R.AUTH_LIST_USER] = ok()
    found = cli("acl", "user", "list", "--contains", "bill")
    assert (found.code, found.lines) == (0, [["broker-a", "billing", "Normal", "enable"]])
    assert peers.last(R.AUTH_LIST_USER)[0] == {"filter": "bill"}
    assert SECRET not in cli("acl", "user", "list", "--json", "-v").out.decode()
    assert cli("acl", "user", "list", "--passwords").lines[0][-1] == SECRET


def test_a_user_of_one_broker(cli: Run, peers: Peers) -> None:
    peers.both(R.AUTH_GET_USER, ok())
    assert cli("acl", "user", "show", "billing").code == 4
    peers.a.replies[R.AUTH_GET_USER] = ok(None, USERS[1:-1])
    found = cli("acl", "user", "show", "billing")
    assert (found.code, found.lines[0][:2]) == (3, ["broker-a", "billing"])
    assert found.err == "rmq: broker-b: no user billing\n"


def test_changes_of_users(cli: Run, peers: Peers, secret: str) -> None:
    for code in (R.AUTH_CREATE_USER, R.AUTH_UPDATE_USER, R.AUTH_DELETE_USER):
        peers.both(code, ok())
    words = ["--password-file", secret, "--yes"]
    assert cli("acl", "user", "create", "billing", "--type", "SUPER", *words).code == 0
    ext, body = peers.last(R.AUTH_CREATE_USER)
    assert (ext, json.loads(body)) == (
        {"username": "billing"},
        {"username": "billing", "password": SECRET, "userType": "Super"},
    )
    assert cli("acl", "user", "update", "billing", "--status", "disable", "--yes").code == 0
    assert json.loads(peers.last(R.AUTH_UPDATE_USER)[1]) == {"username": "billing", "userStatus": "disable"}
    assert cli("acl", "user", "delete", "billing").code == 2
    assert cli("acl", "user", "delete", "billing", "--yes", "-b", "broker-a").code == 0
    assert R.AUTH_DELETE_USER not in peers.b.codes()


def test_policies(cli: Run, peers: Peers) -> None:
    peers.both(R.AUTH_LIST_ACL, ok(None, json.dumps([ACL]).encode()))
    peers.both(R.AUTH_GET_ACL, ok())
    for code in (R.AUTH_UPDATE_ACL, R.AUTH_DELETE_ACL):
        peers.both(code, ok())
    assert cli("acl", "policy", "list", "-b", "broker-b").lines == [["broker-b", *ROW]]
    assert cli("acl", "policy", "show", "billing").code == 4
    peers.a.replies[R.AUTH_GET_ACL] = ok(None, json.dumps(ACL).encode())
    assert cli("acl", "policy", "show", "billing").lines == [["broker-a", *ROW]]
    words = ["topic:orders", "--action", "pub", "--action", "SUB", "--source", "10.0.0.1", "--yes"]
    assert cli("acl", "policy", "set", "billing", *words).code == 0
    ext, body = peers.last(R.AUTH_UPDATE_ACL)
    assert (ext, json.loads(body)) == ({"subject": "User:billing"}, ACL)
    assert cli("acl", "policy", "delete", "billing", "--resource", "Topic:orders", "--yes").code == 0
    assert peers.last(R.AUTH_DELETE_ACL)[0] == {
        "subject": "User:billing",
        "policyType": "Custom",
        "resource": "Topic:orders",
    }


def test_copies(cli: Run, peers: Peers) -> None:
    """A user is created, one that is there is updated."""
    peers.b.replies[R.AUTH_LIST_USER] = ok(None, USERS)
    peers.a.replies[R.AUTH_LIST_USER] = ok()
    peers.both(R.AUTH_CREATE_USER, ok())
    peers.both(R.AUTH_UPDATE_ACL, ok())
    peers.both(R.AUTH_LIST_ACL, ok(None, json.dumps([ACL]).encode()))
    words = ["--from", "broker-b", "--to", "broker-a", "--yes"]
    done = cli("acl", "user", "copy", *words)
    assert done.err == "copied users from broker-b to broker-a: billing\n"
    assert json.loads(peers.last(R.AUTH_CREATE_USER)[1])["password"] == SECRET
    assert cli("acl", "user", "copy", "nobody", *words).code == 4
    assert cli("acl", "policy", "copy", "billing", *words).code == 0
    assert json.loads(peers.last(R.AUTH_UPDATE_ACL)[1]) == ACL
    peers.a.replies[R.AUTH_LIST_USER] = ok(None, USERS)
    refused = cli("acl", "user", "copy", *words, "--json")
    assert (refused.code, refused.json["brokers"]) == (1, [])


def test_a_broker_without_users(cli: Run, peers: Peers) -> None:
    peers.both(R.AUTH_LIST_USER, refuse(3, "request type 3003 not supported"))
    found = cli("acl", "user", "list", "--json")
    assert (found.code, found.error["message"]) == (
        1,
        "broker-a (V5_3_3) has no users of 5.x: it does not serve AUTH_LIST_USER",
    )


def test_brokers_of_which_a_policy_would_be_deleted(both: Run, pair: Pair) -> None:
    dry = both("acl", "policy", "delete", "billing", "--dry-run")
    assert dry.lines == [[name, address] for name, address in pair.brokers.items()]
