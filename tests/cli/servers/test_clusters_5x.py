"""`rmq broker ha`, `cold`, `rocksdb`, `container`, `rmq controller` and `rmq group mode`."""

from __future__ import annotations

import json

import pytest

from rmqcli.codec.codes import RequestCode as R
from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair
from tests.cli.servers.scripted import Peers
from tests.client.scripted import ok, refuse

SLAVE = {"addr": "s:1", "slaveAckOffset": 90, "diff": 10, "inSync": True, "transferredByteInSecond": 5}
MASTER = {"master": True, "masterCommitLogMaxOffset": 100, "haConnectionInfo": [SLAVE]}
CLIENT = {"masterAddr": "m:1", "maxOffset": 80, "masterFlushOffset": 100, "lastReadTimestamp": 7}
FOLLOWER = {"master": False, "haClientRuntimeInfo": CLIENT}


def body(value: object) -> bytes:
    return json.dumps(value).encode()


def test_slaves_and_masters(cli: Run, peers: Peers) -> None:
    peers.a.replies[R.GET_BROKER_HA_STATUS] = ok(None, body(MASTER))
    peers.b.replies[R.GET_BROKER_HA_STATUS] = ok(None, body(FOLLOWER))
    assert cli("broker", "ha", "show").lines == [
        ["broker-a", "master", "100", "s:1", "90", "10", "5", "true", ""],
        ["broker-b", "slave", "80", "m:1", "", "20", "0", "", "7"],
    ]


def test_a_master_without_slaves(both: Run, pair: Pair) -> None:
    found = both("broker", "ha", "show", "-b", "broker-a").lines[0]
    assert (found[:2], found[3:]) == (["broker-a", "master"], [""] * 6)


def test_epochs(cli: Run, peers: Peers) -> None:
    epoch = {"epoch": 2, "startOffset": 0, "endOffset": 50}
    peers.a.replies[R.GET_BROKER_EPOCH_CACHE] = ok(None, body({"epochList": [epoch], "maxOffset": 60}))
    peers.b.replies[R.GET_BROKER_EPOCH_CACHE] = refuse(1, "this request only for controllerMode ")
    found = cli("broker", "ha", "epochs")
    assert (found.code, found.lines) == (3, [["broker-a", "2", "0", "50", "60"]])
    peers.both(R.RESET_MASTER_FLUSH_OFFSET, ok())
    assert cli("broker", "ha", "reset", "7", "--yes").code == 0
    assert peers.last(R.RESET_MASTER_FLUSH_OFFSET)[0] == {"masterFlushOffset": "7"}
    assert cli("broker", "ha", "reset", "--yes", "--", "-7").code == 2


def test_cold_data(cli: Run, peers: Peers) -> None:
    table = {
        "runtimeTable": {"G": {"coldAcc": 9, "lastColdReadTimeMills": 5}},
        "configTable": {"H": 100},
        "cgColdReadThreshold": 30,
        "globalColdReadThreshold": 40,
        "globalAcc": 9,
    }
    peers.a.replies[R.GET_COLD_DATA_FLOW_CTR_INFO] = ok(None, body(table))
    peers.b.replies[R.GET_COLD_DATA_FLOW_CTR_INFO] = ok()
    assert [row[1:] for row in cli("broker", "cold", "show").lines] == [
        ["G", "9", "", "5"],
        ["H", "", "100", ""],
        ["(others)", "", "30", ""],
        ["(all)", "9", "40", ""],
    ]
    peers.a.replies[R.GET_COLD_DATA_FLOW_CTR_INFO] = ok(None, b"[]")
    assert "answered GET_COLD_DATA_FLOW_CTR_INFO" in cli("broker", "cold", "show").err


@pytest.mark.parametrize(
    ("words", "code", "ext", "sent"),
    [
        ("broker cold set G 100", R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, {}, b"G=100\n"),
        ("broker cold remove G", R.REMOVE_COLD_DATA_FLOW_CTR_CONFIG, {}, b"G"),
        ("broker cold read-ahead random", R.SET_COMMITLOG_READ_MODE, {"READ_AHEAD_MODE": "1"}, b""),
        (
            "broker rocksdb export topics groups",
            R.EXPORT_ROCKSDB_CONFIG_TO_JSON,
            {"configType": "topics;subscriptionGroups;"},
            b"",
        ),
        ("broker rocksdb pop", R.POP_ROLLBACK, {}, b""),
        (
            "group mode G T pop --share 2",
            R.SET_MESSAGE_REQUEST_MODE,
            {},
            b'{"consumerGroup":"G","mode":"POP","popShareQueueNum":2,"topic":"T"}',
        ),
    ],
)
def test_changes(cli: Run, peers: Peers, words: str, code: R, ext: dict[str, str], sent: bytes) -> None:
    dry = cli(*words.split(), "--dry-run")
    assert (dry.code, dry.lines, peers.a.codes()) == (0, [list(one) for one in peers.addresses.items()], [])
    lacking = cli(*words.split(), "--yes")
    assert (lacking.code, f"does not serve {code.name}" in lacking.err) == (1, True)
    assert lacking.err.startswith("rmq: broker-a (V5_3_3) has no ")
    peers.both(code, ok())
    peers.both(R.GET_COLD_DATA_FLOW_CTR_INFO, ok(None, body({"configTable": {"G": 100}})))
    assert cli(*words.split(), "--yes").code == 0
    assert peers.last(code) == (ext, sent)


def test_a_group_is_set_to_pop(both: Run, pair: Pair) -> None:
    assert both("topic", "create", "T", "--if-missing").code == 0
    refused = both("group", "mode", "New", "%RETRY%G", "pop", "-b", "broker-a", "--yes")
    assert refused.err.endswith("retry topic is not allowed to set mode\n")
    assert both("group", "mode", "New", "T", "pop", "--yes").code == 0


def test_a_limit_that_is_not_kept_is_no_success(cli: Run, peers: Peers) -> None:
    peers.both(R.UPDATE_COLD_DATA_FLOW_CTR_CONFIG, ok())
    peers.a.replies[R.GET_COLD_DATA_FLOW_CTR_INFO] = ok(None, body({"configTable": {"G": 100}}))
    peers.b.replies[R.GET_COLD_DATA_FLOW_CTR_INFO] = ok(None, body({"configTable": {}}))
    partly = cli("broker", "cold", "set", "G", "100", "--yes")
    kept_none = "this broker keeps no limits of cold reads: nothing is limited"
    assert (partly.code, kept_none in partly.err) == (3, True)
    nowhere = cli("broker", "cold", "set", "H", "100", "--yes")
    assert (nowhere.code, nowhere.err) == (1, f"rmq: broker-a (V5_3_3): {kept_none}\n")


@pytest.mark.parametrize(
    "words",
    [
        "broker cold read-ahead some",
        "broker cold set G -- -1",
        "broker rocksdb export all",
        "group mode G T push",
    ],
)
def test_wrong_words(cli: Run, peers: Peers, words: str) -> None:
    first, *rest = words.split(" -- ")
    assert cli(*first.split(), "--yes", *(["--", *rest] if rest else [])).code == 2
    assert peers.a.asked == []


def test_queues_are_compared(cli: Run, peers: Peers) -> None:
    peers.both(R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, ok(None, body({"checkStatus": 2})))
    peers.b.replies[R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS] = ok(
        None, body({"checkStatus": 9, "checkResult": "x"})
    )
    found = cli("broker", "rocksdb", "compare", "--topic", "T")
    assert found.lines == [["broker-a", "in progress", ""], ["broker-b", "9", "x"]]
    assert peers.last(R.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)[0]["topic"] == "T"


def test_containers(cli: Run, peers: Peers) -> None:
    address = peers.addresses["broker-a"]
    peers.a.replies.update({R.ADD_BROKER: ok(), R.REMOVE_BROKER: ok()})
    assert cli("broker", "container", "add", address, "/b.conf", "--yes").code == 0
    assert peers.last(R.ADD_BROKER)[0] == {"configPath": "/b.conf"}
    assert cli("broker", "container", "remove", address, "C", "b", "2", "--yes", "--json").json
    wanted = {"brokerName": "b", "brokerClusterName": "C", "brokerId": "2"}
    assert peers.last(R.REMOVE_BROKER)[0] == wanted


def led_by_a(peers: Peers) -> str:
    """Makes broker-b a controller that names broker-a as the leader; returns its address."""
    leader = {
        "group": "g",
        "controllerLeaderId": "n0",
        "controllerLeaderAddress": peers.addresses["broker-a"],
    }
    peers.b.replies[R.CONTROLLER_GET_METADATA_INFO] = ok({**leader, "isLeader": "false", "peers": "n0:x"})
    return peers.addresses["broker-b"]


def test_the_leader_is_asked(cli: Run, peers: Peers) -> None:
    controller = led_by_a(peers)
    status = cli("controller", "status", controller).lines
    assert status == [[controller, "g", "n0", peers.addresses["broker-a"], "false", "n0:x"]]
    replica = {"brokerName": "broker-a", "brokerId": 1, "brokerAddress": "x:1", "alive": True}
    lost = {**replica, "brokerId": 2, "alive": False}
    info = {"masterBrokerId": 1, "masterEpoch": 3, "inSyncReplicas": [replica], "notInSyncReplicas": [lost]}
    table = {"replicasInfoTable": {"broker-a": info}}
    peers.a.replies[R.CONTROLLER_GET_SYNC_STATE_DATA] = ok(None, body(table))
    assert [row[1:6] for row in cli("controller", "replicas", controller).lines] == [
        ["1", "x:1", "master", "true", "true"],
        ["2", "x:1", "slave", "false", "false"],
    ]
    assert json.loads(peers.last(R.CONTROLLER_GET_SYNC_STATE_DATA)[1]) == ["broker-a", "broker-b"]


def test_elections(cli: Run, peers: Peers) -> None:
    controller = led_by_a(peers)
    peers.a.replies[R.CONTROLLER_ELECT_MASTER] = ok({"masterBrokerId": "2", "masterAddress": "x:2"})
    peers.a.replies[R.CLEAN_BROKER_DATA] = ok()
    assert cli("controller", "elect", controller, "broker-a", "2").code == 2
    done = cli("controller", "elect", controller, "broker-a", "2", "--yes")
    assert done.err == "broker-a: the master is x:2 (ID 2)\n"
    sent = {"clusterName": "C", "brokerName": "broker-a", "brokerId": "2", "designateElect": "true"}
    assert peers.last(R.CONTROLLER_ELECT_MASTER)[0] == sent
    assert cli("controller", "clean", controller, "broker-a", "2", "3", "--yes").code == 0
    assert peers.last(R.CLEAN_BROKER_DATA)[0]["brokerControllerIdsToClean"] == "2;3"
    peers.a.replies[R.CLEAN_BROKER_DATA] = refuse(2009, "it is alive")
    assert cli("controller", "clean", controller, "broker-a", "--yes").code == 1


def test_configuration_of_controllers(cli: Run, peers: Peers) -> None:
    both = ";".join(peers.addresses.values())
    peers.both(R.GET_CONTROLLER_CONFIG, ok(None, b"a=1\nb=2\n"))
    assert len(cli("controller", "config", "show", both).lines) == 4
    peers.both(R.UPDATE_CONTROLLER_CONFIG, ok())
    left = cli("controller", "config", "set", peers.addresses["broker-a"], "a=2", "--yes")
    assert (left.code, peers.last(R.UPDATE_CONTROLLER_CONFIG)[1]) == (1, b"a=2\n")
    del peers.a.replies[R.GET_CONTROLLER_CONFIG]
    lacking = cli("controller", "config", "show", peers.addresses["broker-a"])
    assert "has no controller: it does not serve GET_CONTROLLER_CONFIG" in lacking.err
