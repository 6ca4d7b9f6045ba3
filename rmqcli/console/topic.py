"""The view of a topic: its messages, queues and groups."""

from __future__ import annotations

from rmqcli.client import ClientError
from rmqcli.client.admin.values import stored
from rmqcli.codec.bodies.stats import TopicOffset
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.console.messages import MAX_MESSAGES, Found, Wanted, blocks_of, find
from rmqcli.console.overview import TREND, trend
from rmqcli.console.shared import TooSlow
from rmqcli.console.view import MAX_ROWS, Console, Field, Form, View, address, commands, group_cell
from rmqcli.flows.errors import InvalidInput, QueueNotFound, QueueNotPermitted
from rmqcli.grammar.values import GrammarError
from rmqcli.report import cells
from rmqcli.report.page import Cell, Heading, Section, Table, Text

_WRONG = (GrammarError, InvalidInput, QueueNotFound, QueueNotPermitted)


async def topic(console: Console, wanted: Wanted) -> View:
    """Return the view. Raise ClientError if the topic is unknown or none of its brokers replies."""
    live = console.live
    await live.poll()
    failures: dict[str, ClientError] = {}
    name = wanted.topic
    ends = await console.readings.get(
        ("topic", name), lambda: console.admin.topics.stats(name, failures=failures)
    )
    found, error = Found((), ()), ""
    try:
        found = await console.readings.get(wanted, lambda: find(console, wanted))
    except (*_WRONG, ClientError, TooSlow) as problem:
        error = str(problem)
    rows = [row for row in live.boards["topics"].rows if row.name == name]
    facts = [
        ("Queues", cells.number(len(ends))),
        ("Messages", cells.number(stored(ends))),
        ("In/s", cells.rate(rows[0].rate_in if rows else None)),
        ("Last stored", cells.moment(max((one.last_update_timestamp for one in ends.values()), default=0))),
    ]
    return View(
        "Topic",
        name,
        facts,
        _form(wanted, error),
        sections=[
            _messages(wanted, found, error),
            _groups(console, name),
            _queues(name, ends),
            _commands(console, name),
        ],
        status=400 if error else 200,
    )


def _form(wanted: Wanted, error: str) -> Form:
    fields = [
        Field("key", "Key", wanted.key, "order-42"),
        Field("id", "Message ID", wanted.msg_id, "7F000001ABCD"),
        Field("range", "Offsets or times", wanted.range, "-20, @-1h, @-2h:@-1h"),
        Field("queue", "Queue", "" if wanted.queue is None else str(wanted.queue), "0", "number"),
    ]
    return Form("/topic", "Find messages", "Find", fields, {"name": wanted.topic}, error)


def _messages(wanted: Wanted, found: Found, error: str) -> Section:
    title = "Messages found" if wanted.key or wanted.msg_id or wanted.range else "Last messages"
    if error:
        return Section(title, [Text("The search was not carried out.")])
    return Section(title, blocks_of(found, empty="No message."), f"The newest first, at most {MAX_MESSAGES}.")


def _groups(console: Console, name: str) -> Section:
    rows = [row for row in console.live.boards["topics"].rows if row.name == name and row.group is not None]
    rows.sort(key=lambda row: (-(row.figure or 0), row.group or ""))
    shown, left_out = cells.first(rows, MAX_ROWS, "groups")
    headings = [
        Heading("Group"),
        *cells.numbers("Lag", "Out/s"),
        *TREND,
    ]
    table = [
        [group_cell(row.group), cells.number(row.figure), cells.rate(row.rate_out), *trend(row)]
        for row in shown
    ]
    return Section(
        "Groups", [Table(headings, table, left_out)] if table else [Text("No group reads this topic.")]
    )


def _queues(name: str, ends: dict[MessageQueue, TopicOffset]) -> Section:
    shown, left_out = cells.first(sorted(ends.items()), MAX_ROWS, "queues")
    headings = [
        Heading("Queue", "broker:queue"),
        *cells.numbers("First", "End", "Messages"),
        Heading("Last stored"),
    ]
    table = [[_queue(name, queue), *_ends(one)] for queue, one in shown]
    return Section("Queues", [Table(headings, table, left_out)] if table else [Text("None.")])


def _queue(name: str, queue: MessageQueue) -> Cell:
    href = address("/topic", name=name, queue=queue.queue_id)
    return cells.code(f"{queue.broker_name}:{queue.queue_id}")._replace(href=href)


def _ends(one: TopicOffset) -> list[Cell]:
    return [
        cells.number(one.min_offset),
        cells.number(one.max_offset),
        cells.number(max(0, one.max_offset - one.min_offset)),
        cells.moment(one.last_update_timestamp),
    ]


def _commands(console: Console, name: str) -> Section:
    return commands(
        console.command("Follow its messages", "tail", name),
        console.command("Export them", "export", options=["--topic", name, "--out", "messages.parquet"]),
        console.command("Change its queues", "topic update", name, options=["--queues", "16"]),
        console.command("Delete it", "topic delete", name),
    )
