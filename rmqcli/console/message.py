"""The view of a message: its body and properties, its consumers, and its trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from rmqcli.client import Admin, ClientError, PullConsumer
from rmqcli.client.admin.messages import Track, TrackType, tracks
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import DLQ_PREFIX, RETRY_PREFIX, SystemTopic
from rmqcli.console.content import FORMS
from rmqcli.console.view import Console, View, address, commands, group_cell, topic_cell
from rmqcli.dead_letters.letter import origin_topic
from rmqcli.flows.tracing import TraceRow, trace_rows
from rmqcli.report import cells
from rmqcli.report.page import Block, Cell, Code, Heading, Section, Table, Text

_MAX_RECORDS = 64


class Place(NamedTuple):
    """The place where a message is stored."""

    topic: str
    broker: str
    queue: int
    offset: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A message with the shown part of its body, whose size was `size`. Errors are strings."""

    message: MessageExt
    size: int
    tracks: Sequence[Track]
    trace: Sequence[TraceRow]
    errors: Sequence[str]


async def read_message(admin: Admin, place: Place, limit: int) -> Reading | None:
    """Return the message of a place, None if there is none."""
    async with PullConsumer(instance=admin.instance) as reader:
        pulled = await reader.pull(MessageQueue(*place[:3]), place.offset, 1)
    message = next((one for one in pulled.messages if one.queue_offset == place.offset), None)
    if message is None:
        return None
    errors: list[str] = []
    found: list[Track] = []
    rows: list[TraceRow] = []
    try:
        found = await tracks(admin, message)
    except ClientError as error:
        errors.append(f"Who consumed it is unknown: {error}")
    with suppress(ClientError):  # most clusters have no traces
        traces = await admin.messages.query_by_key(SystemTopic.TRACE, message.msg_id, max_num=_MAX_RECORDS)
        rows = trace_rows(traces.messages, message.msg_id)
    # One byte more than is shown: a cut body must not look whole.
    return Reading(replace(message, body=message.body[: limit + 1]), len(message.body), found, rows, errors)


async def message(console: Console, place: Place, form: str | None) -> View | None:
    """Return the view, None if there is no such message."""
    limit = console.content.limit
    found = await console.readings.get(place, lambda: read_message(console.admin, place, limit))
    if found is None:
        return None
    one = found.message
    sections = [
        _body(console, place, found, form),
        _properties(console, one),
        _consumed(found),
        _trace(found.trace),
        _commands(console, one),
    ]
    return View("Message", one.msg_id, _facts(one, found.size), sections=sections, is_live=False)


def _facts(one: MessageExt, size: int) -> list[tuple[str, Cell]]:
    is_repeated = one.topic.startswith((DLQ_PREFIX, RETRY_PREFIX))
    origin = origin_topic(one) if is_repeated else None
    return [
        ("Topic", topic_cell(one.topic)),
        *([("First sent to", topic_cell(origin))] if origin else []),
        ("Queue", cells.code(f"{one.broker_name}:{one.queue_id}")),
        ("Offset", cells.number(one.queue_offset)),
        ("Tag", cells.text(one.tags or "–")),
        ("Keys", cells.text(" ".join(one.keys) or "–")),
        ("Stored", cells.moment(one.store_timestamp)),
        ("Sent", cells.moment(one.born_timestamp)),
        ("From", cells.code(one.born_host)),
        ("Body", cells.size(size)),
        ("Retries", cells.number(one.reconsume_times)),
        ("Offset ID", cells.code(one.offset_msg_id)),
    ]


def _body(console: Console, place: Place, found: Reading, form: str | None) -> Section:
    shown = console.content.body(found.message.body, form, found.size)
    blocks: list[Block] = []
    if shown.note:
        blocks.append(Text(shown.note))
    if shown.text is not None:
        blocks.append(Code(f"Body as {shown.form}", shown.text or "(empty)"))
    links = [
        Cell(
            name,
            kind="here" if name == shown.form else "",
            href=address("/message", **place._asdict(), form=name),
        )
        for name in FORMS
    ]
    return Section("Body", blocks, links=[] if console.content.is_hidden else links)


def _properties(console: Console, one: MessageExt) -> Section:
    rows = [
        [cells.name(name), cells.text(value)]
        for name, value in sorted(console.content.properties(one.properties).items())
    ]
    return Section(
        "Properties", [Table([Heading("Name"), Heading("Value")], rows)] if rows else [Text("None.")]
    )


_KINDS = {TrackType.CONSUMED: "ok", TrackType.NOT_CONSUME_YET: "warn", TrackType.UNKNOWN: "fail"}


def _consumed(found: Reading) -> Section:
    rows = [
        [
            group_cell(one.group),
            Cell(one.state.value, str(one.error or ""), _KINDS.get(one.state, "")),
            cells.number(one.consumer_offset),
        ]
        for one in found.tracks
    ]
    headings = [
        Heading("Group"),
        Heading("State"),
        Heading("Group is at", "its committed offset", number=True),
    ]
    blocks: list[Block] = [Table(headings, rows)] if rows else [Text("No group reads its topic.")]
    blocks = [Text(text) for text in found.errors] or blocks
    return Section(
        "Consumed by", blocks, "By the committed offsets: a group that skipped the message is past it, too."
    )


def _trace(rows: Sequence[TraceRow]) -> Section:
    if not rows:
        return Section("Trace", [Text("No trace: its clients write none, or it has not arrived yet.")])
    headings = [
        Heading("What"),
        Heading("Group"),
        Heading("Client"),
        Heading("When"),
        *cells.numbers("ms"),
        Heading("Result"),
    ]
    table = [
        [
            cells.text(row.what),
            group_cell(row.group),
            cells.code(row.client),
            cells.moment(row.time),
            cells.number(row.cost),
            cells.text(row.status),
        ]
        for row in rows
    ]
    return Section("Trace", [Table(headings, table)])


def _commands(console: Console, one: MessageExt) -> Section:
    found = [
        console.command("Show it", "query", one.topic, options=["--id", one.msg_id]),
        console.command("Show its trace", "trace", one.msg_id),
    ]
    if one.topic.startswith(DLQ_PREFIX):
        group = one.topic.removeprefix(DLQ_PREFIX)
        found.append(console.command("Send it back", "dlq redrive", group, options=["--id", one.msg_id]))
    elif not one.topic.startswith(RETRY_PREFIX):
        options = ["-T", one.topic, "--id", one.msg_id]
        found.append(
            console.command("Deliver it to a running consumer", "group deliver", "GROUP", options=options)
        )
    return commands(*found)
