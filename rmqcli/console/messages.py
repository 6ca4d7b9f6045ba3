"""Rows of messages, and how they are found: the last ones, a range, by key or by ID."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from rmqcli.client import Admin, ClientError, PullConsumer
from rmqcli.codec.message import MessageExt
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.console.view import Console, address
from rmqcli.flows.reading import open_range, reachable_spans, select_queues
from rmqcli.grammar.offset_range import OffsetRange, parse_range
from rmqcli.render.text import one_line
from rmqcli.report import cells
from rmqcli.report.page import Block, Cell, Heading, Table, Text

MAX_MESSAGES = 50
LAST = OffsetRange(last=20)


class Found(NamedTuple):
    """Messages without their bodies, which are in `previews`. `is_cut`: there may be more."""

    rows: Sequence[MessageExt]
    previews: Sequence[str]
    failures: Mapping[str, ClientError] = {}
    is_cut: bool = False


class Wanted(NamedTuple):
    """A search in a topic. `range` is a string of the grammar, parsed as of now."""

    topic: str
    key: str = ""
    msg_id: str = ""
    range: str = ""
    queue: int | None = None


async def find(console: Console, wanted: Wanted) -> Found:
    """Return at most MAX_MESSAGES messages. Raise ClientError, GrammarError or InvalidInput."""
    admin = console.admin
    span = parse_range(wanted.range, admin.instance.now_ms()) if wanted.range else LAST
    if wanted.msg_id:
        result = await admin.messages.query_by_id(wanted.topic, wanted.msg_id)
    elif wanted.key:
        begin, end = span.begin_time or 0, span.end_time
        result = await admin.messages.query_by_key(
            wanted.topic, wanted.key, max_num=MAX_MESSAGES, begin=begin, end=None if end is None else end - 1
        )
    else:
        messages, failures, is_cut = await _read(admin, wanted, span)
        return _found(console, messages, failures, is_cut)
    return _found(console, result.messages[-MAX_MESSAGES:], result.failures, result.may_be_more)


async def _read(
    admin: Admin, wanted: Wanted, span: OffsetRange
) -> tuple[list[MessageExt], Mapping[str, ClientError], bool]:
    if span.last is not None:
        span = OffsetRange(last=min(span.last, MAX_MESSAGES))
    async with PullConsumer(instance=admin.instance) as reader:
        readable = await reader.message_queues(wanted.topic)
        queues = select_queues(readable, wanted.topic, None, wanted.queue)
        spans, lost = await reachable_spans(reader, queues, span)
        found: list[MessageExt] = []
        async with open_range(reader, spans, span) as messages:
            async for message in messages:
                if len(found) == MAX_MESSAGES:
                    return found, _by_broker(lost), True
                found.append(message)
    return found, _by_broker(lost), False


def _by_broker(lost: Mapping[MessageQueue, ClientError]) -> dict[str, ClientError]:
    return {queue.broker_name: error for queue, error in lost.items()}


def _found(
    console: Console, messages: Sequence[MessageExt], failures: Mapping[str, ClientError], is_cut: bool
) -> Found:
    previews = [console.content.preview(one.body) for one in messages]
    # The sizes of bodies are kept as that of the record: whole bodies of many readings would take much memory.
    return Found([replace(one, body=b"") for one in messages], previews, failures, is_cut)


def message_address(message: MessageExt) -> str:
    return address(
        "/message",
        topic=message.topic,
        broker=message.broker_name,
        queue=message.queue_id,
        offset=message.queue_offset,
    )


_HEADINGS = (
    Heading("Stored"),
    Heading("Queue", "broker:queue"),
    Heading("Offset", number=True),
    Heading("Tag"),
    Heading("Keys"),
    Heading("Size", "of the stored record", number=True),
    Heading("Body", "its beginning"),
)


def blocks_of(found: Found, *, empty: str) -> list[Block]:
    """Return the table of messages, the newest first, and a note on what is missing."""
    blocks: list[Block] = []
    if found.rows:
        left_out = f"There may be more: at most {MAX_MESSAGES} are shown." if found.is_cut else ""
        rows = list(zip(found.rows, found.previews, strict=True))[::-1]
        blocks.append(Table(_HEADINGS, [_row(message, preview) for message, preview in rows], left_out))
    else:
        blocks.append(Text(empty))
    blocks += [Text(f"Without {name}: {error}") for name, error in sorted(found.failures.items())]
    return blocks


def _row(message: MessageExt, preview: str) -> list[Cell]:
    return [
        cells.moment(message.store_timestamp)._replace(href=message_address(message)),
        cells.code(f"{message.broker_name}:{message.queue_id}"),
        cells.number(message.queue_offset),
        cells.text(message.tags or ""),
        cells.text(" ".join(message.keys)),
        cells.size(message.store_size),
        Cell(one_line(preview), kind="name"),
    ]
