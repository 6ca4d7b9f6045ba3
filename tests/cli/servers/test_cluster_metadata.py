"""`rmq cluster dump`, `diff` and `apply`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.servers.clusters import Pair, in_thread, open_pair
from tests.json_schema import definition, faults

ORDER = "ORDER_TOPIC_CONFIG"


@pytest.fixture
def fresh(cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs a command line with the name servers of a pair that nothing was done to."""
    with in_thread(lambda: open_pair(tmp_path, {})) as pair:
        yield lambda *arguments, stdin=b"": cli("-n", pair.namesrv, *arguments, stdin=stdin)


@pytest.fixture
def source(both: Run, tmp_path: Path) -> Iterator[Run]:
    """The pair of the session, with topics, groups, entries and offsets."""
    both("topic", "create", "meta_orders", "--queues", "3", "--order")
    both("topic", "create", "meta_bills", "-b", "broker-b", "--queues", "2", "--perm", "r")
    both("group", "create", "meta_billing", "--retries", "3", "--no-broadcast", "-b", "broker-a")
    both("send", "meta_orders", "-q", "1", "-b", "broker-a", stdin=b"a\nb\nc\n")
    path = tmp_path / "offsets.json"
    offsets = {"broker-a": {"meta_orders@meta_billing": {"0": 0, "1": 3, "2": 0}}}
    path.write_text(json.dumps({"kind": "clusterMetadata", "version": 1, "offsets": offsets}))
    assert both("cluster", "apply", str(path), "--only", "offsets", "--yes").code == 0
    yield both
    both("topic", "delete", "meta_orders", "--yes")
    both("topic", "delete", "meta_bills", "--yes")
    both("group", "delete", "meta_billing", "--yes")


def dumped(rmq: Run, path: Path, *words: str) -> Any:
    result = rmq("cluster", "dump", *words)
    assert result.code == 0, result.err
    path.write_bytes(result.out)
    found = json.loads(result.out)
    assert list(faults(found, definition("clusterMetadata"))) == []
    return found


def test_a_dump_applied_to_an_empty_cluster_is_dumped_again(source: Run, fresh: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    first = dumped(source, path)
    assert first["topics"]["broker-a"]["meta_orders"]["writeQueueNums"] == 3
    assert first["offsets"]["broker-a"]["meta_orders@meta_billing"]["1"] == 3
    assert "meta_bills" not in first["topics"]["broker-a"]
    assert not {"TBW102", "broker-a", "DefaultCluster"} & set(first["topics"]["broker-a"])
    assert not {"brokerName", "namesrvAddr", "listenPort"} & set(first["config"]["broker-a"])
    everything = ("--only", "topics,groups,kv,config,offsets")
    done = fresh("cluster", "apply", str(path), *everything, "--yes")
    assert done.code == 0, done.err
    dumped(fresh, tmp_path / "b.json")
    assert path.read_bytes() == (tmp_path / "b.json").read_bytes()
    assert fresh("cluster", "diff", str(path), *everything).code == 0
    again = fresh("cluster", "apply", str(path), *everything)
    assert (again.code, again.out) == (0, b"")


def rows(rmq: Run, *words: str) -> list[list[str]]:
    return rmq("cluster", *words).lines


def test_differences_are_shown_by_setting(source: Run, tmp_path: Path) -> None:
    path, other = tmp_path / "a.json", tmp_path / "b.json"
    document = dumped(source, path)
    same = source("cluster", "diff", str(path))
    assert (same.code, same.out) == (0, b"")
    orders = document["topics"]["broker-a"]["meta_orders"]
    document["topics"]["broker-a"]["meta_orders"] = orders | {"perm": 4}
    document["topics"]["broker-b"]["meta_new"] = document["topics"]["broker-b"].pop("meta_bills")
    document["kv"][ORDER]["meta_orders"] = "broker-a:1"
    document["config"]["broker-b"]["deleteWhen"] = "05"
    document["offsets"]["broker-a"]["meta_orders@meta_billing"]["1"] = 2
    other.write_text(json.dumps(document))
    expected = [
        ["topics", "broker-a", "meta_orders", "changed", "perm 4 → 6"],
        ["topics", "broker-b", "meta_bills", "added", ""],
        ["topics", "broker-b", "meta_new", "removed", ""],
        ["kv", ORDER, "meta_orders", "changed", "broker-a:1 → broker-a:3;broker-b:3"],
        ["config", "broker-b", "deleteWhen", "changed", "05 → 04"],
    ]
    for words in ((), (str(path),)):
        result = source("cluster", "diff", str(other), *words)
        assert (result.code, result.lines) == (1, expected)
    offsets = source("cluster", "diff", str(other), "--only", "offsets", "--json")
    assert offsets.code == 1
    assert offsets.json["differences"] == [
        {
            "area": "offsets",
            "place": "broker-a",
            "name": "meta_orders@meta_billing",
            "difference": "changed",
            "changes": ["1 2 → 3"],
        }
    ]
    for words in ((), (str(path),)):
        one = source("cluster", "diff", str(other), *words, "-b", "broker-a", "--only", "topics,config")
        assert [row[1:3] for row in one.lines] == [["broker-a", "meta_orders"]]
    assert source("cluster", "diff", str(other), str(path), "--cluster", "DefaultCluster").code == 2


def test_nothing_is_deleted_without_prune(fresh: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    fresh("topic", "create", "kept", "--queues", "2")
    document = dumped(fresh, path, "--only", "topics,groups,kv")
    document["topics"]["broker-b"].pop("kept")
    path.write_text(json.dumps(document))
    fresh("topic", "create", "extra", "--order")
    fresh("group", "create", "extra_group", "-b", "broker-a")
    apply = ("cluster", "apply", str(path))
    plan = fresh(*apply, "--dry-run")
    assert [row[:4] for row in plan.lines] == [
        ["topics", "broker-a", "extra", "extra"],
        ["topics", "broker-b", "extra", "extra"],
        ["topics", "broker-b", "kept", "extra"],
        ["groups", "broker-a", "extra_group", "extra"],
        ["kv", ORDER, "extra", "extra"],
    ]
    assert plan.err == "0 to create, 0 to change, 1 as wanted, 5 only in the cluster\n"
    assert fresh(*apply).code == 0
    fresh("send", "extra", "x")
    refused = fresh(*apply, "--prune")
    assert "rmq: topic extra: 1 message; it is written to, last " in refused.err
    assert refused.code == 2 and "use --yes" in refused.err
    assert {"kept", "extra"} <= {row[0] for row in fresh("topic", "list").lines}
    done = fresh(*apply, "--prune", "--yes")
    assert (done.code, done.err.splitlines()[-1]) == (0, "applied 4 of 4")
    assert [row[3] for row in done.lines] == ["delete", "delete", "extra", "delete", "delete"]
    assert rows(fresh, "apply", str(path)) == [["topics", "broker-b", "kept", "extra", ""]]
    assert fresh(*apply, "--prune", "-b", "broker-a").code == 2


def test_a_change_is_applied_where_it_is_said(source: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    document = dumped(source, path)
    document["topics"]["broker-a"]["meta_orders"] = {"perm": 4}
    document["config"]["broker-a"] = {"deleteWhen": "05", "listenPort": "1"}
    document["offsets"] = {"broker-a": {"meta_orders@meta_billing": {"0": 9}}}
    path.write_text(json.dumps(document))
    done = source("cluster", "apply", str(path), "--yes", "--json").json
    assert done == {
        "steps": [
            {
                "area": "topics",
                "place": "broker-a",
                "name": "meta_orders",
                "action": "change",
                "changes": ["perm 6 → 4"],
            }
        ],
        "applied": 1,
        "failures": {},
    }
    rest = source("cluster", "apply", str(path), "--only", "config,offsets", "--yes")
    assert [row[2:] for row in rest.lines] == [
        ["deleteWhen", "change", "04 → 05"],
        ["meta_orders@meta_billing", "change", "0 0 → 9"],
    ]
    assert "1 group with offsets beyond the end of their queues" in rest.err
    back = dumped(source, tmp_path / "b.json")
    assert back["topics"]["broker-a"]["meta_orders"]["writeQueueNums"] == 3
    assert back["offsets"]["broker-a"]["meta_orders@meta_billing"] == {"0": 9, "1": 3, "2": 0}
    assert source("broker", "config", "set", "deleteWhen=04", "--yes").code == 0


def test_a_property_that_a_broker_does_not_take(both: Run, tmp_path: Path) -> None:
    path = tmp_path / "configs.json"
    path.write_text(json.dumps({"brokerConfigs": {"broker-b": {"noSuchThing": 7, "brokerId": 3}}}))
    done = both("cluster", "apply", str(path), "--only", "config", "--yes")
    assert (done.code, done.lines) == (1, [["config", "broker-b", "noSuchThing", "create", "7"]])
    assert "noSuchThing on broker-b: noSuchThing is not known" in done.err


def test_an_export_of_mqadmin_is_for_every_broker(fresh: Run, tmp_path: Path) -> None:
    topic = {"topicName": "orders", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "order": False}
    group = {"groupName": "billing", "retryMaxTimes": 5, "newerMember": 1, "brokerId": 0}
    topics, groups, both = (
        tmp_path / name for name in ("topic.json", "subscriptionGroup.json", "metadata.json")
    )
    version = {"counter": 1, "timestamp": 2}
    topics.write_text(json.dumps({"dataVersion": version, "topicConfigTable": {"orders": topic}}))
    groups.write_text(json.dumps({"dataVersion": version, "subscriptionGroupTable": {"billing": group}}))
    both.write_text(
        json.dumps(
            {
                "exportTime": 1,
                "topicConfigTable": {"orders": topic},
                "subscriptionGroupTable": {"billing": group},
            }
        )
    )
    for path, name in ((topics, "orders"), (groups, "billing")):
        done = fresh("cluster", "apply", str(path), "--yes")
        assert (done.code, [row[1:4] for row in done.lines]) == (
            0,
            [["broker-a", name, "create"], ["broker-b", name, "create"]],
        )
    for verb in ("apply", "diff"):
        refused = fresh("cluster", verb, str(both))
        assert refused.code == 2 and "adds up the queues of all masters" in refused.err
    assert (
        fresh("cluster", "apply", str(both), "-b", "broker-a").err
        == "0 to create, 0 to change, 2 as wanted\n"
    )
    assert [row[2] for row in fresh("group", "settings", "billing").lines] == ["5", "5"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "no object"),
        ("{", "truncated"),
        ("{}", "neither a dump of rmq nor an export"),
        ('{"kind": "clusterMetadata", "version": 2}', "version 2 of the document; 1 is known"),
        ('{"kind": "clusterMetadata", "version": 1, "topic": {}}', "unknown field `topic`"),
        ('{"kind": "clusterMetadata", "version": 1, "kv": {"a": {"b": 1}}}', "Expected `str`, got `int`"),
        (
            '{"kind": "clusterMetadata", "version": 1, "topics": {"a": {"t": {"prm": 1}}}}',
            "unknown member 'prm'",
        ),
        ('{"kind": "clusterMetadata", "version": 1, "topics": {"a": {"t@": {}}}}', "illegal characters"),
        ('{"kind": "clusterMetadata", "version": 1, "offsets": {"a": {"t": {}}}}', "matching regex"),
        ('{"topicConfigTable": {"t": {"perm": "x"}}}', "perm: Expected `int`"),
    ],
)
def test_a_file_that_is_none(cli: Run, tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    for verb in ("apply", "diff"):
        result = cli("cluster", verb, str(path), "-n", "127.0.0.1:1")
        assert (result.code, result.out) == (2, b"")
        assert result.err.startswith(f"rmq: {path}: ") and told in result.err


def test_what_does_not_fit_the_cluster(both: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    empty: dict[str, Any] = {"kind": "clusterMetadata", "version": 1}
    path.write_text(json.dumps(empty | {"topics": {"broker-z": {"t": {}}}}))
    unknown = both("cluster", "apply", str(path), "--yes")
    assert unknown.code == 2 and "the file has broker-z, the cluster only broker-a, broker-b" in unknown.err
    path.write_text(json.dumps(empty | {"missing": ["broker-b"], "topics": {"broker-a": {}}}))
    assert "did not answer when the file was dumped" in both("cluster", "apply", str(path), "--prune").err
    assert {row[1] for row in rows(both, "diff", str(path))} <= {"broker-a"}
    for words, told in ((("--only", "offsets"), "has no offsets"), (("--only", "x"), "--only x: expected")):
        result = both("cluster", "apply", str(path), *words)
        assert result.code == 2 and told in result.err
    assert both("cluster", "diff", str(tmp_path / "none")).code == 4


def test_name_servers_that_do_not_agree(both: Run, pair: Pair, tmp_path: Path) -> None:
    kv = ("namesrv", "kv")
    assert both(*kv, "set", "meta", "limit", "1", "--yes").code == 0
    assert both(*kv, "set", "meta", "limit", "2", "--yes", "-n", pair.names[1]).code == 0
    path = tmp_path / "a.json"
    result = both("cluster", "dump", "--only", "kv", "--namespace", "meta")
    assert result.code == 3 and "meta limit: the name servers do not agree" in result.err
    path.write_bytes(result.out)
    assert json.loads(result.out)["kv"]["meta"] == {"limit": "1"}
    done = both("cluster", "apply", str(path), "--yes")
    assert (done.code, [row[3] for row in done.lines]) == (0, ["change"])
    assert both("cluster", "diff", str(path)).code == 0
    assert both(*kv, "delete", "meta", "limit", "--yes").code == 0


def test_a_broker_that_does_not_answer_is_named(half: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    result = half("cluster", "dump", "--only", "topics")
    found = json.loads(result.out)
    assert (result.code, found["missing"], list(found["topics"])) == (3, ["broker-b"], ["broker-a"])
    found["topics"]["broker-b"] = {"meta_lame": {}}
    path.write_text(json.dumps(found | {"missing": []}))
    for words in (("diff",), ("apply", "--dry-run"), ("apply", "--yes")):
        result = half("cluster", words[0], str(path), *words[1:])
        assert (result.code, result.out) == (3, b"")
        assert "rmq: broker-b: cannot" in result.err


def test_an_inclusive_dump_leaves_what_is_of_a_cluster_alone(both: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    document = dumped(both, path, "--all")
    assert {"TBW102", "broker-a", "DefaultCluster"} <= set(document["topics"]["broker-a"])
    assert {"brokerName", "namesrvAddr"} <= set(document["config"]["broker-a"])
    assert both("cluster", "diff", str(path), "--all").code == 0
    document["topics"]["broker-a"]["TBW102"]["perm"] = 4
    document["config"]["broker-a"]["namesrvAddr"] = "127.0.0.1:1"
    path.write_text(json.dumps(document))
    assert both("cluster", "diff", str(path)).code == 0
    assert [row[2] for row in rows(both, "diff", str(path), "--all")] == ["TBW102", "namesrvAddr"]
    done = both("cluster", "apply", str(path), "--only", "topics,config", "--yes")
    assert (done.code, done.out) == (0, b"")


OLD: dict[str, Any] = {
    "kind": "clusterMetadata",
    "version": 1,
    "topics": {
        "old-1": {"orders": {"readQueueNums": 2, "writeQueueNums": 2, "order": True}, "old-1": {}},
        "old-2": {"orders": {"readQueueNums": 2, "writeQueueNums": 2, "order": True}},
    },
    "groups": {"old-1": {"billing": {"retryMaxTimes": 3}}, "old-2": {}},
    "kv": {ORDER: {"orders": "old-1:2;old-2:2"}},
}
LAYOUT = "broker-a:2;broker-b:2"


@pytest.mark.parametrize(
    ("words", "billing", "layout"),
    [
        (("old-1=broker-a", "old-2=broker-b"), ["broker-a"], LAYOUT),
        (("old-2=broker-a", "*=broker-b"), ["broker-b"], "broker-b:2;broker-a:2"),
        (("*=broker-a",), ["broker-a"], "broker-a:2"),
        (("*=*",), ["broker-a", "broker-b"], LAYOUT),
        (("old-1=*", "old-2=broker-a"), ["broker-a", "broker-b"], LAYOUT),
    ],
)
def test_brokers_of_other_names_are_mapped(
    fresh: Run, tmp_path: Path, words: tuple[str, ...], billing: list[str], layout: str
) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(OLD))
    mapped = [word for text in words for word in ("--map-broker", text)]
    done = fresh("cluster", "apply", str(path), *mapped, "--yes")
    assert done.code == 0, done.err
    assert [row[1] for row in done.lines if row[2] == "billing"] == billing
    assert [row[4] for row in done.lines if row[0] == "kv"] == [layout]
    assert "old-1" not in {row[2] for row in done.lines}, "the topic of a broker itself"
    now = tmp_path / "now.json"
    dumped(fresh, now, "--only", "topics,groups,kv")
    for other in ((), (str(now),)):
        assert fresh("cluster", "diff", str(path), *other, *mapped, "--only", "kv").code == 0
        unlike = fresh("cluster", "diff", str(path), *other, *mapped, "--only", "groups").lines
        assert [row[1:4] for row in unlike] == [[name, "billing", "changed"] for name in billing]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "the file has old-1, old-2, the cluster only broker-a, broker-b: take one for another with "),
        (
            ("-b", "broker-a"),
            "nothing for broker-a, only for old-1, old-2: take one for another with --map-broker",
        ),
        (
            ("-b", "broker-b", "--map-broker", "*=broker-a"),
            "the file has nothing for broker-b, only for broker-a: ",
        ),
        (
            ("--map-broker", "old-1=broker-a"),
            "the file has old-2, the cluster only broker-a, broker-b: choose with",
        ),
        (("--map-broker", "other=broker-a"), "--map-broker other=broker-a: the file has only old-1, old-2"),
        (("--map-broker", "old-1"), "--map-broker old-1: expected OLD=NEW"),
        (("--map-broker", "old-1=a", "--map-broker", "old-1=b"), "old-1 has a new name already, a"),
    ],
)
def test_a_choice_that_selects_nothing_is_an_error(
    both: Run, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(OLD))
    verbs = ("apply", "diff") if "nothing for" in text else ("apply",)
    for verb in verbs:
        refused = both("cluster", verb, str(path), *words)
        assert (refused.code, refused.out, text in refused.err) == (2, b"", True), refused.err


def test_a_difference_of_all_brokers_names_the_remedy(both: Run, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(OLD))
    unlike = both("cluster", "diff", str(path), "--only", "groups")
    text = "no broker is on both sides: take one for another with --map-broker old-1=broker-a"
    assert (unlike.code, text in unlike.err) == (1, True)


def test_brokers_that_become_one_are_alike(both: Run, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps({**OLD, "groups": {"old-1": {"g": {"retryMaxTimes": 3}}, "old-2": {"g": {}}}}))
    refused = both("cluster", "apply", str(path), "--map-broker", "*=broker-a", "--yes")
    text = "--map-broker: groups g is not the same on old-1 and old-2, which become one"
    assert (refused.code, text in refused.err) == (2, True)
