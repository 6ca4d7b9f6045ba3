"""`rmq query`: limits are said, ids of both kinds are found."""

from __future__ import annotations

import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.client.admin.messages import TrackType, state_of
from rmqcli.codec.bodies.heartbeat import ConsumeType, MessageModel, SubscriptionData
from rmqcli.codec.bodies.running import ConsumerConnection
from tests.cli.conftest import Run
from tests.cli.messages import stored


def test_a_cut_result_says_so(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "-k", "k", "-q", "0", stdin=b"".join(b"%d\n" % n for n in range(70))).code == 0
    query = ("query", topic, "--key", "k", "-f", r"%v\n")
    full = rmq(*query)
    assert [int(body) for body in full.out.split()] == list(range(6, 70))
    assert full.err.startswith("rmq: 64 messages shown, the newest; there may be more: use --time @:")
    few = rmq(*query, "-c", "3")
    assert few.out.split() == [b"67", b"68", b"69"]
    assert "a larger --count" in few.err
    older = few.err.split("--time ")[1].split()[0]
    assert rmq(*query, "--time", older).out.split()[-1] >= b"67"
    whole = rmq("query", topic, "--key", "k", "-c", "3", "--time", "@:-1h")
    assert "may be more" not in whole.err


def test_an_offset_id_needs_no_topic(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "x", "--json").json_lines[0]
    found = rmq("query", "--id", sent["offsetMsgId"], "-f", "%t %v")
    assert (found.code, found.out.decode()) == (0, f"{topic} x")
    unknown = sent["offsetMsgId"][:16] + "0000000000FFFFFF"
    missing = rmq("query", "--id", unknown)
    assert (missing.code, missing.err) == (4, f"rmq: no message with ID {unknown} in its broker\n")
    assert rmq("query", "--id", unknown, "--fail-empty") == missing


def test_a_unique_id_needs_a_topic_or_all(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "x", "--json").json_lines[0]
    refused = rmq("query", "--id", sent["msgId"])
    assert refused.code == ExitCode.USAGE
    assert "specify TOPIC, or --all-topics" in refused.err
    found = rmq("query", "--id", sent["msgId"], "--all-topics", "-f", "%t %v")
    assert (found.code, found.out.decode()) == (0, f"{topic} x")
    missing = rmq("query", "--id", "7F" * 16, "--all-topics")
    assert (missing.code, missing.err) == (4, f"rmq: no message with ID {'7F' * 16} in any topic\n")


@pytest.mark.parametrize(
    "arguments",
    [("--key", "k"), ("t", "--id", "x", "--all-topics"), ("t", "--key", "k", "--all-topics"), ("t",)],
)
def test_questions_that_make_no_sense(rmq: Run, arguments: tuple[str, ...]) -> None:
    assert rmq("query", *arguments).code == ExitCode.USAGE


def test_groups_that_consumed_a_message(rmq: Run, topic: str) -> None:
    assert rmq("send", topic, "a", "-q", "0", "-k", "a").code == 0
    assert rmq("send", topic, "b", "-q", "0", "-k", "b").code == 0
    group = f"g_{topic}"
    assert rmq("consume", topic, "-g", group, "--from", "start", "-c", "1").code == 0
    (first,) = rmq("query", topic, "--key", "a", "--track").lines
    assert first[:6] == [group, "CONSUMED", "broker-a", "0", "0", "1"]
    (second,) = rmq("query", topic, "--key", "b", "--track", "--json").json_lines[0]
    assert (second["group"], second["state"], second["consumerOffset"]) == (group, "NOT_ONLINE", 1)
    assert rmq("query", topic, "--key", "b", "--track", "-f", "%v").code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("offset", "kind", "model", "tags", "state"),
    [
        (18, ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, [], TrackType.CONSUMED),
        (18, ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, ["paid"], TrackType.CONSUMED),
        (
            18,
            ConsumeType.CONSUME_PASSIVELY,
            MessageModel.CLUSTERING,
            ["sent"],
            TrackType.CONSUMED_BUT_FILTERED,
        ),
        (17, ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, [], TrackType.NOT_CONSUME_YET),
        (None, ConsumeType.CONSUME_PASSIVELY, MessageModel.CLUSTERING, [], TrackType.NOT_CONSUME_YET),
        (17, ConsumeType.CONSUME_ACTIVELY, MessageModel.CLUSTERING, [], TrackType.PULL),
        (18, ConsumeType.CONSUME_PASSIVELY, MessageModel.BROADCASTING, [], TrackType.CONSUME_BROADCASTING),
    ],
)
def test_states(
    offset: int | None, kind: ConsumeType, model: MessageModel, tags: list[str], state: TrackType
) -> None:
    subscription = SubscriptionData(topic="orders", sub_string="x", tags_set=tags)
    connection = ConsumerConnection(
        subscription_table={"orders": subscription}, consume_type=kind, message_model=model
    )
    assert state_of(stored(), connection, offset) is state


def test_ids_decoded(rmq: Run, topic: str) -> None:
    sent = rmq("send", topic, "x", "-q", "0", "--json").json_lines[0]
    (stored_as,) = rmq("pull", topic, "--json").json_lines
    unique, offset = rmq("id", sent["msgId"], sent["offsetMsgId"], "--json").json_lines[0]
    assert (offset["kind"], offset["address"]) == ("offset", stored_as["storeHost"])
    assert offset["commitLogOffset"] == stored_as["commitLogOffset"]
    assert unique["kind"] == "unique"
    assert abs(unique["bornTimestamp"] - stored_as["bornTimestamp"]) < 60_000
    assert unique["commitLogOffset"] is None
    wrong = rmq("id", "nonsense")
    assert wrong.code == ExitCode.USAGE
    assert "32 or 56 hexadecimal digits" in wrong.err


def test_an_id_of_ipv6(rmq: Run) -> None:
    text = "20010DB8000000000000000000000001" + "00002A9F" + "0000000000001C0D"
    assert rmq("id", text).lines == [[text, "offset", "[2001:db8::1]:10911", "7181", "", "", "", ""]]
