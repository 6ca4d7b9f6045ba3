"""`rmq group`, `rmq cluster producers` and `rmq offsets clone`, with a running cluster and members."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from rmqcli.broker.testing.embedded import Cluster
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client import ConsumeResult
from tests.cli.conftest import Run
from tests.cli.members import Member, member
from tests.cli.waiting import until
from tests.support import RMQ


@pytest.fixture
def group(topic: str) -> str:
    return f"g_{topic}"[:120]


@pytest.fixture
def running(rmq: Run, cluster: Cluster, topic: str, group: str) -> Iterator[Member]:
    """A member that has consumed three messages of queue 1."""
    rmq("send", topic, "-q", "1", "-t", "paid", stdin=b"a\nb\nc\n")
    with member(cluster, group, topic) as found:
        found.wait_for(3)
        wait_until_consumed(rmq, group, topic)
        yield found


def wait_until_consumed(rmq: Run, group: str, topic: str) -> None:
    """Waits until the member has all queues, and the offset behind the three messages of queue 1."""
    status = ("group", "status", group, "-T", topic)
    until(rmq, lambda result: [row[4] for row in result.lines] == ["0", "3", "0", "0"], *status)


def settings_of(rmq: Run, group: str) -> str:
    (row,) = rmq("group", "settings", group).lines
    return " ".join(row).rstrip()  # of 4.x: the last two are of 5.x


def test_a_group_is_created_changed_and_deleted(rmq: Run, group: str) -> None:
    made = rmq("group", "create", group, "--retries", "3", "--no-broadcast", "--read-from", "2")
    told, created = made.err.splitlines()
    assert (made.code, made.out, created) == (0, b"", f"group {group} created on broker-a")
    assert "push consumers of Java, Python and others send a number of their own" in told
    assert settings_of(rmq, group) == "broker-a true 3 1 false true true 2 1"
    options = ("--no-consume", "--retry-queues", "4", "--broadcast", "--no-from-min", "--no-notify")
    changed = rmq("group", "update", group, *options, "--slow-read-from", "5", "--json")
    assert changed.json == {"brokers": ["broker-a"], "failures": {}}
    assert settings_of(rmq, group) == "broker-a false 3 4 true false false 2 5"
    assert rmq("group", "update", group, "--consume", "-b", "broker-a").code == 0
    assert settings_of(rmq, group) == "broker-a true 3 4 true false false 2 5"
    assert rmq("group", "delete", group).code == ExitCode.USAGE
    assert rmq("group", "settings", group).code == 0
    gone = rmq("group", "delete", group, "--yes")
    assert (gone.code, gone.out, gone.err) == (0, b"", f"group {group} deleted from broker-a\n")
    assert rmq("group", "settings", group).code == ExitCode.NOT_FOUND


def test_a_group_without_consumption_gets_nothing(rmq: Run, topic: str, group: str) -> None:
    rmq("send", topic, "x", "-q", "0")
    rmq("group", "create", group, "--no-consume")
    consume = ("consume", topic, "-g", group, "--from", "start", "-f", r"%v\n")
    assert rmq(*consume, "--idle", "1").out == b""
    rmq("group", "update", group, "--consume")
    assert rmq(*consume, "-c", "1").out == b"x\n"


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            ("update", "no_such_group", "--retries", "1"),
            ExitCode.NOT_FOUND,
            "no broker knows group no_such_group",
        ),
        (("update", "g"), ExitCode.USAGE, "nothing to update"),
        (("delete", "no_such_group", "--yes"), ExitCode.NOT_FOUND, "no broker knows group no_such_group"),
        (("delete", "TOOLS_CONSUMER", "--yes"), ExitCode.FAILED, "is a system group"),
        (
            ("delete", "g", "--all", "-b", "broker-a", "--yes"),
            ExitCode.USAGE,
            "--all and --broker cannot be combined",
        ),
        (("create", "b@d"), ExitCode.USAGE, "b@d"),
        (("create", "g", "-b", "broker-z"), ExitCode.NOT_FOUND, "no broker broker-z"),
        (("clients", "no_such_group"), ExitCode.NOT_FOUND, "no broker knows group no_such_group"),
        (("status", "no_such_group"), ExitCode.NOT_FOUND, "no broker knows group no_such_group"),
    ],
)
def test_what_is_refused(rmq: Run, arguments: tuple[str, ...], code: ExitCode, text: str) -> None:
    result = rmq("group", *arguments)
    assert (result.code, text in result.err, result.err.count("\n")) == (code, True, 1), result.err


def test_a_group_without_clients(rmq: Run, topic: str, group: str) -> None:
    rmq("group", "create", group)
    rmq("send", topic, "x", "-q", "0")
    for command in (
        ("group", "clients", group),
        ("group", "status", group),
        ("group", "deliver", group, "-T", topic, "--id", "0" * 32),
        ("offsets", "show", group, "-T", topic, "--clients"),
    ):
        result = rmq(*command)
        assert (result.code, result.err) == (4, f"rmq: no client of group {group} is running\n")


def test_a_group_is_deleted_with_all_there_is_of_it(
    rmq: Run, cluster: Cluster, topic: str, group: str
) -> None:
    rmq("send", topic, "bad")
    again = ("consume", topic, "-g", group, "--from", "start", "--idle", "1")
    until(rmq, lambda result: "dead letter" in result.err, *again, "--exec", "false", "--retries", "0")
    assert f"%DLQ%{group}" in rmq("topic", "list", "--all").out.decode()
    rmq("group", "delete", group, "--yes")
    assert group in rmq("group", "list").out.decode()
    assert rmq("group", "delete", group, "--all", "--yes").code == 0
    assert group not in rmq("topic", "list", "--all").out.decode()
    assert group not in rmq("group", "list").out.decode()


def test_running_clients_are_told_of_before_a_group_is_deleted(rmq: Run, running: Member, group: str) -> None:
    assert (
        f"group {group} has 1 running client: brokers may create it again"
        in rmq("group", "delete", group, "--yes").err
    )


def test_clients(rmq: Run, cluster: Cluster, running: Member, topic: str, group: str) -> None:
    (row,) = rmq("group", "clients", group).lines
    assert row[1].startswith("127.0.0.1:")
    assert row[2:6] == ["PYTHON", "V4_9_8", "CONSUME_PASSIVELY", "CLUSTERING"]
    assert row[6] == f"%RETRY%{group}: *,{topic}: paid || sent"
    found = rmq("group", "clients", group, "--json").json
    assert [client["clientId"] for client in found["connectionSet"]] == [row[0]]
    assert found["subscriptionTable"][topic]["subString"] == "paid || sent"


def test_status(rmq: Run, running: Member, topic: str, group: str) -> None:
    (client_id, *_) = rmq("group", "clients", group).lines[0]
    rows = rmq("group", "status", group, "-T", topic).lines
    assert [row[:4] for row in rows] == [[client_id, topic, "broker-a", str(number)] for number in range(4)]
    assert [(row[4], row[5], row[7]) for row in rows] == [
        ("0", "0", "false"),
        ("3", "0", "false"),
        ("0", "0", "false"),
        ("0", "0", "false"),
    ]
    times = [int(row[9]) for row in rows]  # of the last message, or else of the assignment
    assert times.index(max(times)) == 1
    rates = rmq("group", "status", group, "--rates", "--client", client_id).lines
    assert sorted(row[1] for row in rates) == sorted([topic, f"%RETRY%{group}"])
    (document,) = rmq("group", "status", group, "--json").json
    assert document["properties"]["consumerGroup"] == group
    assert [held["commitOffset"] for held in document["mqTable"] if held["topic"] == topic] == [0, 3, 0, 0]
    missing = rmq("group", "status", group, "--client", "nobody")
    assert (missing.code, missing.err) == (
        ExitCode.NOT_FOUND,
        f"rmq: no client nobody of group {group} is running; running clients: {client_id}\n",
    )


def test_offsets_that_clients_have_in_mind(rmq: Run, running: Member, topic: str, group: str) -> None:
    (client_id, *_) = rmq("group", "clients", group).lines[0]
    rows = rmq("offsets", "show", group, "-T", topic, "--clients").lines
    assert [client_id, "broker-a", "1", "3"] in [row[:4] for row in rows]
    assert rmq("offsets", "show", group, "--clients").code == ExitCode.USAGE


def test_a_message_is_delivered_to_a_client(rmq: Run, running: Member, topic: str, group: str) -> None:
    sent = rmq("send", topic, "again", "-t", "other", "--json").json_line
    deliver = ("group", "deliver", group, "-T", topic, "--id")
    (row,) = rmq(*deliver, sent["msgId"]).lines
    assert (row[1], row[3], running.bodies[3:]) == ("CR_SUCCESS", "", [b"again"])
    assert rmq(*deliver, sent["offsetMsgId"], "--client", row[0]).code == 0
    running.result = ConsumeResult.RECONSUME_LATER
    later = rmq(*deliver, sent["msgId"], "--json")
    assert (later.code, later.json[0]["consumeResult"]) == (ExitCode.FAILED, "CR_LATER")
    running.fails = True
    failed = rmq(*deliver, sent["msgId"])
    assert (failed.code, failed.lines[0][1]) == (ExitCode.FAILED, "CR_THROW_EXCEPTION")
    assert "the till is closed" in failed.lines[0][3]
    missing = rmq(*deliver, "0" * 32)
    assert (missing.code, missing.err) == (
        ExitCode.NOT_FOUND,
        f"rmq: no message with ID {'0' * 32} in topic {topic}\n",
    )
    assert rmq(*deliver, sent["msgId"], "--client", "nobody").code == ExitCode.NOT_FOUND
    assert len(running.bodies) == 7


def test_producers(rmq: Run, cluster: Cluster, topic: str) -> None:
    command = [*RMQ, "send", topic, "-n", cluster.namesrv, "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sender:
        assert sender.stdin is not None and sender.stdout is not None
        sender.stdin.write(b"a\n")
        sender.stdin.flush()
        found = until(rmq, lambda result: result.code == 0, "cluster", "producers", "-g", "rmq")
        everybody = rmq("cluster", "producers", "--json").json
        sender.stdin.close()
    (row,) = found.lines
    assert (row[0], row[2], row[4:]) == ("rmq", "broker-a", ["PYTHON", "V4_9_8"])
    assert row[3].startswith("127.0.0.1:")
    assert {"rmq": row[1]}.items() <= {each["producerGroup"]: each["clientId"] for each in everybody}.items()
    missing = rmq("cluster", "producers", "-g", "nobody")
    assert (missing.code, missing.err) == (
        ExitCode.NOT_FOUND,
        "rmq: no producer of group nobody is connected\n",
    )


def committed(rmq: Run, group: str, topic: str) -> list[str]:
    return [row[3] for row in rmq("offsets", "show", group, "-T", topic).lines]


def test_offsets_are_cloned_and_taken_back(rmq: Run, topic: str, group: str) -> None:
    for queue in range(4):
        rmq("send", topic, "-q", str(queue), stdin=b"a\nb\nc\n")
    rmq("offsets", "reset", group, topic, "--to", "1", "--yes")
    rmq("offsets", "reset", group, topic, "--to", "end", "-q", "2", "--yes")
    clone = ("offsets", "clone", group, f"{group}_2", topic)
    plan = rmq(*clone, "--dry-run")
    assert [row[3] for row in plan.lines] == ["1", "1", "3", "1"]
    assert rmq("offsets", "show", f"{group}_2").code == ExitCode.NOT_FOUND
    assert rmq(*clone).code == ExitCode.USAGE
    rmq("offsets", "reset", f"{group}_2", topic, "--to", "2", "--yes")
    done = rmq(*clone, "--yes", "--json").json
    assert done["moved"] == 4
    assert committed(rmq, f"{group}_2", topic) == ["1", "1", "3", "1"]
    assert rmq("offsets", "reset", "--undo", done["undo"], "--yes").code == 0
    assert committed(rmq, f"{group}_2", topic) == ["2"] * 4
    assert committed(rmq, group, topic) == ["1", "1", "3", "1"]


def test_a_running_source_is_cloned_where_its_clients_are(
    rmq: Run, running: Member, topic: str, group: str
) -> None:
    assert rmq("offsets", "clone", group, f"{group}_2", topic, "--yes").code == 0
    assert committed(rmq, f"{group}_2", topic)[1] == "3"
    rmq("offsets", "reset", f"{group}_2", topic, "--to", "1", "-q", "1", "--yes")
    back = rmq("offsets", "clone", f"{group}_2", group, topic, "--yes")
    assert back.code == 0, back.err
    running.wait_for(5)
    assert running.bodies == [b"a", b"b", b"c", b"b", b"c"]


def test_one_queue_of_running_clients_is_reset_to_an_offset(
    rmq: Run, running: Member, topic: str, group: str
) -> None:
    reset = ("offsets", "reset", group, topic, "-q", "1", "--yes", "--to")
    for target, after in (("2", b"abcc"), ("-2", b"abccbc"), ("start", b"abccbcabc")):
        done = rmq(*reset, target)
        assert done.code == 0, done.err
        running.wait_for(len(after))
        wait_until_consumed(rmq, group, topic)
        assert b"".join(running.bodies) == after


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("g", "g", "T"), ExitCode.USAGE),
        (("no_such_group", "g", "T"), ExitCode.NOT_FOUND),
        (("g", "h"), ExitCode.USAGE),
    ],
)
def test_clones_that_cannot_be(rmq: Run, arguments: tuple[str, ...], code: ExitCode) -> None:
    assert rmq("offsets", "clone", *arguments).code == code


@pytest.mark.parametrize(
    "command",
    [
        ("offsets", "show", "{group}", "-T", "{topic}"),
        ("group", "describe", "{group}", "-T", "{topic}"),
        ("offsets", "clone", "{group}", "other", "{topic}", "--yes"),
    ],
)
def test_a_group_has_no_place_where_it_never_was(
    rmq: Run, topic: str, group: str, command: tuple[str, ...]
) -> None:
    """A broker returns 0 for any queue: a mistyped name would have a lag, or would move a group there."""
    rmq("send", topic, "x")
    words = [word.format(group=group, topic=topic) for word in command]
    unknown = rmq(*words)
    assert (unknown.code, unknown.out) == (ExitCode.NOT_FOUND, b"")
    assert f"no broker knows group {group}" in unknown.err
    rmq("group", "create", group)
    elsewhere = rmq(*words)
    assert (elsewhere.code, elsewhere.out) == (ExitCode.NOT_FOUND, b"")
    assert elsewhere.err == f"rmq: group {group} has no offsets on topic {topic}\n"


def test_a_group_that_consumes_has_a_place_before_it_commits(
    rmq: Run, cluster: Cluster, topic: str, group: str
) -> None:
    with member(cluster, group, topic):
        found = until(rmq, lambda result: result.code == 0, "offsets", "show", group, "-T", topic)
        assert [row[3] for row in found.lines] == ["0"] * 4


@pytest.mark.parametrize("name", ["", "a b", "g" * 300])
@pytest.mark.parametrize(
    "command",
    [
        ("offsets", "clone", "{other}", "{group}", "{topic}", "--yes"),
        ("offsets", "reset", "{group}", "{topic}", "--to", "start", "--yes"),
    ],
)
def test_offsets_go_to_no_group_that_cannot_be(
    rmq: Run, topic: str, group: str, command: tuple[str, ...], name: str
) -> None:
    rmq("send", topic, "x")
    assert rmq("consume", topic, "-g", group, "--from", "start", "-c", "1").code == 0
    result = rmq(*[word.format(group=name, other=group, topic=topic) for word in command])
    assert (result.code, result.out) == (ExitCode.USAGE, b"")


def test_a_reset_of_an_unknown_group_is_told_of(rmq: Run, topic: str, group: str) -> None:
    rmq("send", topic, "x")
    reset = ("offsets", "reset", group, topic, "--to", "end", "--yes")
    first = rmq(*reset)
    assert first.code == 0
    assert f"no undo: group {group} had no offsets on topic {topic}" in first.err
    rmq("group", "create", group)
    assert "no broker knows" not in rmq(*reset).err


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("group", "create", "g", "--retries", "2147483648"), ExitCode.USAGE),
        (("group", "update", "g", "--read-from", "99999999999999999999"), ExitCode.USAGE),
        (("group", "create", "CID_RMQ_SYS_own"), ExitCode.FAILED),
        (("group", "delete", "CID_RMQ_SYS_own", "--yes"), ExitCode.FAILED),
        (("trace", ""), ExitCode.USAGE),
        (("trace", "x", "--trace-topic", " "), ExitCode.USAGE),
    ],
)
def test_what_no_broker_is_asked(cli: Run, command: tuple[str, ...], code: ExitCode) -> None:
    """There is none."""
    result = cli("-n", "127.0.0.1:1", *command)
    assert (result.code, result.err.count("\n")) == (code, 1)
