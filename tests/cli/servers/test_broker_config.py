"""`rmq broker config show`, `set` and `diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqcli.client import RequestTimeout
from rmqcli.client.admin.brokers import BrokerAdmin
from rmqcli.commands.broker.config import _defaults
from tests.cli.conftest import Run

QUEUES = [["broker-a", "defaultTopicQueueNums", "8"], ["broker-b", "defaultTopicQueueNums", "8"]]


def values(rmq: Run, name: str) -> list[str]:
    return [row[2] for row in rmq("broker", "config", "show", name).lines]


def test_properties_are_shown_by_broker(both: Run) -> None:
    assert both("broker", "config", "show", "DEFAULTtopic*").lines == QUEUES
    assert both("broker", "config", "show", "brokerName", "-b", "broker-b").lines == [
        ["broker-b", "brokerName", "broker-b"]
    ]
    whole = both("broker", "config", "show", "--json").json
    assert {one["brokerName"] for one in whole} == {"broker-a", "broker-b"}
    assert len(whole) > 300


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("noSuch*",), "no property matches noSuch*"),
        (("-b", "broker-z"), "no broker broker-z; known: broker-a, broker-b"),
        (("--cluster", "Other"), "no cluster Other; known: DefaultCluster"),
    ],
)
def test_what_is_not_there(both: Run, words: tuple[str, ...], text: str) -> None:
    result = both("broker", "config", "show", *words)
    assert (result.code, result.out) == (4, b"")
    assert text in result.err


def test_a_change_is_planned_made_and_read_again(both: Run) -> None:
    wanted = ("broker", "config", "set", "maxTransferCountOnMessageInMemory=40")
    rows = [[name, "maxTransferCountOnMessageInMemory", "32", "40"] for name in ("broker-a", "broker-b")]
    assert both(*wanted, "--dry-run").lines == rows
    assert both(*wanted, "--dry-run", "--json").json["dryRun"] is True
    refused = both(*wanted)
    assert refused.code == 2 and "use --yes" in refused.err
    assert values(both, "maxTransferCountOnMessageInMemory") == ["32", "32"]
    done = both(*wanted, "--yes")
    assert (done.code, done.lines, done.err) == (0, rows, "changed on broker-a, broker-b\n")
    assert values(both, "maxTransferCountOnMessageInMemory") == ["40", "40"]
    again = both(*wanted, "--yes", "--json")
    assert (again.code, again.json) == (0, {"changes": [], "changed": [], "failures": {}})
    one = both("broker", "config", "set", "maxTransferCountOnMessageInMemory=32", "-b", "broker-b", "--yes")
    assert one.lines == [["broker-b", "maxTransferCountOnMessageInMemory", "40", "32"]]
    back = both("broker", "config", "set", "maxTransferCountOnMessageInMemory=32", "--yes", "--json").json
    assert (back["changed"], [one["brokerName"] for one in back["changes"]]) == (["broker-a"], ["broker-a"])


def test_a_change_that_cannot_be_read_again(both: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    read = BrokerAdmin.configs
    answers = [read, None]

    async def configs(self: BrokerAdmin, *arguments: Any, **options: Any) -> Any:
        if answers.pop(0) is None:
            raise RequestTimeout("b:1", "GET_BROKER_CONFIG", 3.0)
        return await read(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(BrokerAdmin, "configs", configs)
        done = both("broker", "config", "set", "deleteWhen=05", "-b", "broker-a", "--yes")
    both("broker", "config", "set", "deleteWhen=04", "-b", "broker-a", "--yes")
    assert done.code == 0
    assert done.err.splitlines() == [
        "rmq: the values could not be read again: b:1 did not answer GET_BROKER_CONFIG within 3 s",
        "changed on broker-a",
    ]


def test_a_change_that_is_refused_or_ignored(both: Run) -> None:
    refused = both("broker", "config", "set", "listenPort=1", "-b", "broker-a", "--yes")
    assert refused.code == 6
    assert "listenPort cannot change while the server runs" in refused.err
    ignored = both("broker", "config", "set", "noSuchThing=1", "--yes")
    assert ignored.code == 1
    assert ignored.err.splitlines() == [
        "rmq: no server lists a property noSuchThing: it has no value, or the servers do not know it",
        "rmq: broker-a: noSuchThing is not known",
        "rmq: broker-b: noSuchThing is not known",
    ]
    assert both("broker", "config", "set", "noSuchThing", "--yes").code == 2
    wrong = both("broker", "config", "set", "defaultTopicQueueNums=many", "-b", "broker-a", "--yes")
    assert wrong.code == 1 and "a number is expected" in wrong.err


@pytest.mark.parametrize("text", ["a b=1", "deleteWhen=05\nlistenPort=1", "#x=1"])
def test_a_property_that_is_no_line(both: Run, text: str) -> None:
    for group in ("broker", "namesrv"):
        result = both(group, "config", "set", text, "--yes")
        assert (result.code, result.out.count(b"\n")) == (2, 2)
        assert "cannot be written as a line of text" in result.err
    assert values(both, "deleteWhen") == ["04", "04"]


def test_differences_between_brokers(both: Run) -> None:
    same = both("broker", "config", "diff")
    assert (same.code, same.out) == (0, b"")
    both("broker", "config", "set", "fileReservedTime=48", "-b", "broker-b", "--yes")
    assert both("broker", "config", "diff").lines == [["fileReservedTime", "72", "48", "true"]]
    assert both("broker", "config", "diff", "--json").json == [
        {"property": "fileReservedTime", "values": {"broker-a": "72", "broker-b": "48"}, "differs": True}
    ]
    everything = both("broker", "config", "diff", "--all").lines
    assert {"brokerName", "storePathRootDir", "fileReservedTime"} <= {row[0] for row in everything}
    default = both("broker", "config", "diff", "--defaults", "-b", "broker-b").lines
    assert ["fileReservedTime", "72", "48", "true"] in default
    both("broker", "config", "set", "fileReservedTime=72", "-b", "broker-b", "--yes")


def test_defaults_that_no_broker_lists_are_no_differences() -> None:
    """Java's broker does not know properties of ours, one of 5.x not all of 4.9."""
    tables: list[dict[str, str]] = [{"fileReservedTime": "48", "rocksdbCQDoubleWriteEnable": "false"}, {}]
    assert _defaults(tables) == {"fileReservedTime": "72"}
    assert _defaults([]) == {}


def test_differences_from_a_file(both: Run, tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("deleteWhen=05\nbrokerName=x\nflushDiskType=ASYNC_FLUSH\n")
    found = both("broker", "config", "diff", "--file", str(tmp_path / "broker.conf"))
    assert found.lines == [["deleteWhen", "05", "04", "04", "true"]]
    missing = both("broker", "config", "diff", "--file", str(tmp_path / "none.conf"))
    assert missing.code == 4
    for words in (("-b", "broker-a"), ("--defaults", "--file", str(tmp_path / "broker.conf"))):
        assert both("broker", "config", "diff", *words).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ("show", "deleteWhen"),
        ("diff", "--defaults"),
        ("diff",),
        ("set", "deleteWhen=05", "--dry-run"),
        ("set", "deleteWhen=05", "--yes"),
        ("set", "deleteWhen=05", "--yes", "--json"),
        ("set", "deleteWhen=05", "--yes"),
    ],
)
def test_a_broker_that_does_not_answer_is_named(half: Run, words: tuple[str, ...]) -> None:
    result = half("broker", "config", *words)
    told = list(result.error["failures"]) if "--json" in words else result.err.count("rmq: broker-b: cannot")
    assert (result.code, told) == (3, ["broker-b"] if "--json" in words else 1)
