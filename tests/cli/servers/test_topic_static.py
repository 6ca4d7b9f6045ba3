"""`rmq topic static`."""

from __future__ import annotations

import json
from functools import partial

from rmqcli.codec.bodies.base import encode_body
from rmqcli.codec.bodies.stats import TopicOffset, TopicStatsTable
from rmqcli.codec.codes import RequestCode as R
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.plans.static_topics import Mapped, grown
from tests.cli.conftest import Run
from tests.cli.servers.scripted import Peers
from tests.client.scripted import ok, refuse

EVERY = ("broker-a", "broker-b")


def host(peers: Peers, mapped: Mapped) -> list[tuple[str, str]]:
    """Let the brokers have the mapping; return what is written, as broker and first offset of queue 0."""
    written: list[tuple[str, str]] = []

    def taken(name: str, command: RemotingCommand) -> RemotingCommand:
        ranges = json.loads(bytes(command.body))["hostedQueues"].get("0", [{}])
        written.append((name, str(ranges[-1].get("logicOffset"))))
        return command.reply(0)

    for name, server in (("broker-a", peers.a), ("broker-b", peers.b)):
        has = name in mapped
        server.replies[R.GET_TOPIC_CONFIG] = ok(None, encode_body(mapped[name])) if has else refuse(17)
        server.replies[R.UPDATE_AND_CREATE_STATIC_TOPIC] = partial(taken, name)
        table = {MessageQueue("T", name, 0): TopicOffset(max_offset=7)}
        body = encode_body(TopicStatsTable(offset_table=table))
        server.replies[R.GET_TOPIC_STATS_INFO] = ok(None, body)
    return written


def test_a_topic_is_made_and_shown(cli: Run, peers: Peers) -> None:
    written = host(peers, {})
    assert cli("topic", "static", "show", "T").code == 4
    assert cli("topic", "static", "update", "T").code == 2
    dry = cli("topic", "static", "update", "T", "--queues", "2", "--dry-run")
    assert (dry.lines, written) == ([["0", "broker-a", "0", "0"], ["1", "broker-b", "0", "0"]], [])
    assert cli("topic", "static", "update", "T", "--queues", "2").code == 2
    done = cli("topic", "static", "update", "T", "--queues", "2", "--yes", "--json")
    assert (done.code, len(done.json["queues"])) == (0, 2)
    assert written == [("broker-a", "0"), ("broker-b", "None")]
    again = cli("topic", "static", "update", "T", "--file", done.json["plan"], "--force", "--yes")
    assert (again.code, len(written)) == (0, 4)
    assert peers.last(R.UPDATE_AND_CREATE_STATIC_TOPIC)[0]["force"] == "true"


def test_queues_are_moved_in_an_order_that_loses_nothing(cli: Run, peers: Peers) -> None:
    written = host(peers, grown("T", {}, 1, ["broker-a"], EVERY, 1))
    assert cli("topic", "static", "show", "T").lines == [["0", "broker-a", "0", "0"]]
    assert cli("topic", "static", "remap", "T").code == 2
    done = cli("topic", "static", "remap", "T", "-b", "broker-b", "--yes")
    assert (done.code, done.lines) == (0, [["0", "broker-b", "0", ""]])
    assert written == [("broker-b", "-1"), ("broker-a", "-1"), ("broker-b", "10000")]
    same = cli("topic", "static", "remap", "T", "-b", "broker-a")
    assert (same.code, same.out) == (0, b"")


def test_a_broker_without_static_topics(both: Run) -> None:
    assert both("topic", "create", "static_none", "--queues", "1").code == 0
    assert "is not a static topic on broker-a" in both("topic", "static", "show", "static_none").err
    found = both("topic", "static", "update", "static_new", "--queues", "2", "--yes")
    lacking = "broker-a (V4_9_8) has no static topics: it does not serve UPDATE_AND_CREATE_STATIC_TOPIC"
    assert (found.code, lacking in found.err) == (1, True)
