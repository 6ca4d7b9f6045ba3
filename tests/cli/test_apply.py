"""`topic apply` and `group apply`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run


def settings_of(rmq: Run, topic: str) -> list[str]:
    (row,) = [row for row in rmq("topic", "list", "--long").lines if row[0] == topic]
    return row[2:]


def test_topics_become_what_a_file_says(rmq: Run, topic: str, tmp_path: Path) -> None:
    path, new = tmp_path / "topics.yaml", f"{topic}_new"
    path.write_text(f"topics:\n- name: {topic}\n  perm: r\n  writeQueueNums: 4\n- name: {new}\n  queues: 2\n")
    apply = ("topic", "apply", "--file", str(path))
    plan = rmq(*apply, "--dry-run")
    assert plan.lines == [
        [topic, "broker-a", "change", "perm 6 → 4"],
        [new, "broker-a", "create", "readQueueNums 2,writeQueueNums 2"],
    ]
    assert plan.err == "1 to create, 1 to change, 0 as wanted\n"
    assert rmq(*apply).code == ExitCode.USAGE, "nobody said yes"
    assert settings_of(rmq, topic) == ["4", "4", "6", "false", ""]
    done = rmq(*apply, "--yes")
    assert (done.code, done.err.splitlines()[-1]) == (0, "applied 2 of 2")
    assert settings_of(rmq, topic) == ["4", "4", "4", "false", ""]
    assert settings_of(rmq, new) == ["2", "2", "6", "false", ""]
    again = rmq(*apply)
    assert (again.code, [row[2] for row in again.lines]) == (0, ["same", "same"])
    assert again.err == "0 to create, 0 to change, 2 as wanted\n"


def test_a_file_of_mqadmin(rmq: Run, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "topics.json"
    entry = {
        "topicName": topic,
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": {"+message.type": "FIFO"},
    }
    path.write_text(json.dumps([entry]))
    apply = ("topic", "apply", "--file", str(path), "--yes", "--json")
    first, second = rmq(*apply).json, rmq(*apply).json
    assert first["steps"] == [
        {"topic": topic, "brokerName": "broker-a", "action": "change", "changes": ["+message.type=FIFO"]}
    ]
    assert (first["applied"], second["applied"], second["steps"][0]["action"]) == (1, 0, "same")
    assert settings_of(rmq, topic)[-1] == "FIFO"


def test_messages_that_a_file_hides_are_counted(rmq: Run, topic: str, tmp_path: Path) -> None:
    rmq("send", topic, "x", "-q", "3")
    path = tmp_path / "topics.json"
    path.write_text(json.dumps([{"name": topic, "queues": 2}]))
    apply = ("topic", "apply", "--file", str(path))
    refused = rmq(*apply)
    assert (refused.code, settings_of(rmq, topic)[0]) == (ExitCode.USAGE, "4")
    assert f"rmq: {topic} on broker-a: 1 message, which consumers will not see\n" in refused.err
    assert rmq(*apply, "--yes").code == 0
    assert settings_of(rmq, topic)[0] == "2"


def test_groups_become_what_a_file_says(rmq: Run, topic: str, tmp_path: Path) -> None:
    old, new = f"G_{topic}", f"G_{topic}_new"
    rmq("group", "create", old, "--retries", "3", "--no-broadcast")
    path = tmp_path / "groups.json"
    path.write_text(
        json.dumps([{"groupName": old, "retryMaxTimes": 5}, {"name": new, "consumeEnable": False}])
    )
    done = rmq("group", "apply", "--file", str(path), "--yes")
    assert done.code == 0
    assert done.lines == [
        [old, "broker-a", "change", "retryMaxTimes 3 → 5"],
        [new, "broker-a", "create", "consumeEnable false"],
    ]
    assert rmq("group", "settings", old).lines[0][1:5] == ["true", "5", "1", "false"]
    assert rmq("group", "settings", new).lines[0][1:3] == ["false", "16"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", "a list of topics is expected"),
        ("{", "truncated"),
        ("a: [", "while parsing"),
        ("[1]", "topic 1: an object is expected"),
        ('[{"perm": 6}]', "topic 1: topicName is missing"),
        ('[{"name": "b@d"}]', "topic 1: "),
        ('[{"name": "SCHEDULE_TOPIC_XXXX"}]', "is a system topic"),
        ('[{"name": "t", "queus": 4}]', "topic 1 (t): unknown member 'queus'"),
        ('[{"name": "t", "perm": "x"}]', "topic 1 (t): perm: Expected"),
        ('[{"name": "t"}, {"name": "t"}]', "topic t is listed twice"),
    ],
)
def test_what_no_broker_is_asked(cli: Run, tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    result = cli("topic", "apply", "--file", str(path), "-n", "127.0.0.1:1")
    assert (result.code, result.out) == (ExitCode.USAGE, b"")
    assert result.err.startswith(f"rmq: {path}: ") and told in result.err
