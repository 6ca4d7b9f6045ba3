"""`rmq offsets reset` and `clone`: what they say, what they refuse, and the undo file."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import QueueResetResult, ResetPlan, ResetResult
from rmqcli.client.admin.offsets import OffsetAdmin
from rmqcli.codec.message_queue import MessageQueue
from tests.cli.conftest import Result, Run

FIVE = 479  # V5_3_3


class Desk:
    """Resets of one group on a topic with two messages in each of four queues."""

    def __init__(self, rmq: Run, topic: str) -> None:
        self.rmq, self.topic, self.group = rmq, topic, f"G_{topic[-60:]}"  # topics may be longer
        for number in range(4):
            rmq("send", topic, "-q", str(number), stdin=b"a\nb\n")

    def reset(self, target: str, *options: str) -> Result:
        return self.rmq("offsets", "reset", self.group, self.topic, "--to", target, "--yes", *options)

    def offsets(self) -> list[int | None]:
        shown = self.rmq("offsets", "show", self.group, "--json")
        return [queue["consumerOffset"] for queue in shown.json]


@pytest.fixture
def desk(rmq: Run, topic: str) -> Desk:
    return Desk(rmq, topic)


def test_a_reset_to_the_same_offsets_changes_nothing(desk: Desk, tmp_path: Path) -> None:
    desk.reset("1")
    files = list((tmp_path / "state").rglob("*.json"))
    again = desk.reset("1")
    assert (again.code, [row[2:4] for row in again.lines]) == (0, [["1", "1"]] * 4)
    assert again.err == f"rmq: group {desk.group} has these offsets already: nothing to change\n"
    as_json = desk.reset("1", "--json").json
    assert (as_json["moved"], as_json["changed"], as_json["undo"]) == (0, 0, None)
    assert list((tmp_path / "state").rglob("*.json")) == files


def test_an_undo_file_that_cannot_be_written_stops_a_reset(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.reset("1")
    taken = tmp_path / "taken"
    taken.touch()
    monkeypatch.setenv("RMQ_STATE_DIR", str(taken))
    refused = desk.reset("2")
    assert refused.code == ExitCode.FAILED
    line = refused.err.splitlines()[-1]
    assert f"nothing was changed: the undo file {taken / 'undo'}" in line
    assert "RMQ_STATE_DIR" in line
    assert "internal error" not in refused.err
    assert desk.offsets() == [1] * 4


@pytest.mark.parametrize("target", ["-10m", "-1h", "2026-01-01T10:00:00"])
def test_a_time_without_its_sign_is_suggested(desk: Desk, target: str) -> None:
    refused = desk.reset(target)
    assert (refused.code, refused.out) == (ExitCode.USAGE, b"")
    assert f"; did you mean '@{target}'?" in refused.err
    assert "did you mean" not in desk.reset("words").err


def test_only_queues_that_change_count(desk: Desk) -> None:
    desk.reset("1")
    desk.reset("2", "-q", "3")
    assert "moved 1 of 1 queue of group" in desk.reset("1").err
    desk.reset("2", "-q", "3")
    desk.reset("2", "-q", "2")
    assert f"moved 2 of 2 queues of group {desk.group}; no change: 2 queues\n" in desk.reset("1").err
    desk.reset("2", "-q", "3")
    moved = desk.reset("1", "--json").json
    assert (moved["moved"], moved["changed"], moved["replayed"]) == (1, 1, 1)
    written = json.loads(Path(moved["undo"]).read_text())
    assert written["queues"] == [{"brokerName": "broker-a", "queueId": 3, "old": 2, "new": 1}]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("999999", "broker-a:0-3 end before 999999: using the nearest offset"),
        ("+2", "broker-a:0-3 end before +2: using the nearest offset"),
        ("-2", "broker-a:0-3 begin after -2: using the nearest offset"),
    ],
)
def test_a_target_that_no_queue_has_is_told_first(desk: Desk, target: str, told: str) -> None:
    desk.reset("1")
    plan = desk.reset(target, "--dry-run")
    assert plan.err.splitlines()[0] == f"rmq: {desk.topic}@{told}"
    assert desk.reset(target, "--dry-run", "--json").json["limited"] == 4
    assert "nearest" not in desk.reset("+1", "--dry-run").err


def test_an_undo_names_its_cluster_and_refuses_another(desk: Desk, cli: Run, cluster: Cluster) -> None:
    desk.reset("1")
    path = Path(desk.reset("2", "--json").json["undo"])
    content = json.loads(path.read_text())
    assert (content["namesrv"], content["clusters"]) == (cluster.namesrv, ["DefaultCluster"])
    assert content["command"] == f"rmq offsets reset --undo {path} -n {cluster.namesrv}"
    undo = ("offsets", "reset", "--undo", str(path), "--yes")
    elsewhere = cli(*undo, "-n", "127.0.0.1:1")
    assert (elsewhere.code, elsewhere.out) == (ExitCode.USAGE, b"")
    assert f"the offsets are those of DefaultCluster at {cluster.namesrv}, not of" in elsewhere.err
    path.write_text(json.dumps(content | {"clusters": ["OtherCluster"]}))
    renamed = desk.rmq(*undo)
    assert (renamed.code, "those of OtherCluster at" in renamed.err) == (ExitCode.FAILED, True)
    assert desk.offsets() == [2] * 4
    path.write_text(json.dumps(content | {"namesrv": f"127.0.0.1:1;{cluster.namesrv}"}))
    assert desk.rmq(*undo).code == 0
    assert desk.offsets() == [1] * 4


def test_a_printed_undo_names_the_profile_that_was_given(desk: Desk, cluster: Cluster) -> None:
    desk.rmq("profile", "set", "prod", cluster.namesrv)
    desk.reset("1", "--profile", "prod")
    last = desk.reset("2", "--profile", "prod").err.splitlines()[-1]
    assert last.startswith("undo with: rmq offsets reset --undo ") and last.endswith(" --profile prod")


def test_there_is_no_undo_without_offsets_before(desk: Desk, tmp_path: Path) -> None:
    first = desk.reset("1", "-q", "0")
    assert [row[2] for row in first.lines] == [""]
    assert first.err.splitlines()[-1] == f"no undo: group {desk.group} had no offsets on topic {desk.topic}"
    assert not (tmp_path / "state").exists()
    mixed = desk.reset("2", "--json").json
    assert [step["old"] for step in mixed["queues"]] == [1, None, None, None]
    back = desk.rmq("offsets", "reset", "--undo", mixed["undo"], "--yes")
    assert "3 queues had no offset before the reset: the undo leaves the offset there" in back.err
    assert desk.offsets() == [1, 2, 2, 2]


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits as brokers of 5.x take them: only of groups that exist."""
    monkeypatch.setattr("rmqcli.broker.handlers.admin_broker.CURRENT_VERSION", FIVE)
    commit = OffsetAdmin.commit

    async def refusing(self: OffsetAdmin, queue: MessageQueue, offset: int, group: Any = None) -> None:
        await self._admin.groups.settings(group)
        await commit(self, queue, offset, group)

    monkeypatch.setattr(OffsetAdmin, "commit", refusing)


def test_a_refusal_of_all_queues_is_said_once(desk: Desk, strict: None) -> None:
    refused = desk.reset("1")
    assert (refused.code, refused.err.count("no broker knows group")) == (ExitCode.FAILED, 1)
    _, absent, reason, *_ = refused.err.splitlines()
    assert absent.startswith(f"rmq: group {desk.group} does not exist yet on broker-a: ")
    assert reason.startswith(f"rmq: {desk.topic}@broker-a:0-3: ")
    assert reason.endswith("--create-group creates it first")


def test_brokers_of_4_take_offsets_of_any_group(desk: Desk) -> None:
    first = desk.reset("1")
    assert (first.code, "does not exist" in first.err) == (0, False)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_terminal_is_asked_whether_to_create_the_group(
    desk: Desk, strict: None, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    typed = io.StringIO(f"{answer}\ny\n")
    monkeypatch.setattr(typed, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", typed)
    result = desk.rmq("offsets", "reset", desk.group, desk.topic, "--to", "1")
    assert f"create group {desk.group} on broker-a first? [y/N] " in result.err
    assert (result.code == 0, f"group {desk.group} created on broker-a" in result.err) == (answer == "y",) * 2


def test_the_group_is_created_first(desk: Desk, strict: None) -> None:
    assert desk.reset("1", "--create-group").code == 0
    target = f"{desk.group}_2"
    cloned = desk.rmq("offsets", "clone", desk.group, target, desk.topic, "--create-group", "--yes")
    assert (cloned.code, f"group {target} created on broker-a" in cloned.err) == (0, True)
    assert desk.rmq("group", "settings", target).code == 0


def test_a_group_that_lost_its_settings_is_created_first(desk: Desk, strict: None) -> None:
    desk.reset("1", "--create-group")
    desk.rmq("group", "delete", desk.group, "--yes")
    refused = desk.reset("2")
    assert (refused.code, "--create-group creates it first" in refused.err) == (ExitCode.FAILED, True)
    assert desk.reset("2", "--create-group").code == 0
    assert desk.offsets() == [2] * 4


def test_what_has_not_moved_can_be_looked_at_later(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.reset("1")

    async def stuck(self: OffsetAdmin, plan: ResetPlan, *, settle: float) -> ResetResult:
        results = [QueueResetResult(one.queue, one.new, 1, False, client="c1") for one in plan.changed]
        return ResetResult(plan.group, plan.topic, True, tuple(results))

    monkeypatch.setattr(OffsetAdmin, "reset", stuck)
    result = desk.reset("2")
    reason, _, _, hint = result.err.splitlines()[-4:]
    assert (result.code, reason) == (
        ExitCode.FAILED,
        f"rmq: {desk.topic}@broker-a:0-3: client c1 is at offset 1, not yet at 2",
    )
    words = hint.removeprefix("rmq: check later with: rmq ").split()
    assert len(desk.rmq(*words).lines) == 4
