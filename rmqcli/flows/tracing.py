"""Turns trace messages into rows: one per client that sent, consumed, or ended its transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rmqcli.client.trace.records import (
    ConsumeEnd,
    ConsumeStart,
    Published,
    TraceRecord,
    TransactionEnd,
    decode_trace,
)
from rmqcli.codec.message import MessageExt


class TraceRow(NamedTuple):
    """`time` is in epoch ms, the start if that is known; `cost` is in ms. None: not in the trace."""

    what: str
    group: str
    client: str
    time: int
    cost: int | None
    status: str
    retries: int | None
    topic: str | None = None
    broker: str | None = None


class _Written(NamedTuple):
    """A record and the address of the client that wrote it."""

    client: str
    record: TraceRecord


def trace_rows(messages: Iterable[MessageExt], msg_id: str) -> list[TraceRow]:
    """Return the rows of one message, oldest first; a consumption without a recorded end is `unfinished`."""
    records = [
        _Written(message.born_host.rpartition(":")[0], record)
        for message in messages
        for record in decode_trace(message.body.decode("utf-8", "replace"))
        if record.msg_id == msg_id
    ]
    return sorted({*_sends(records), *_ends(records), *_consumptions(records)}, key=lambda row: row.time)


def _sends(records: list[_Written]) -> Iterator[TraceRow]:
    for client, record in records:
        if isinstance(record, Published):
            kind = record.message_type.name.lower()
            what = "sent" if kind == "normal" else f"sent {kind}"
            status, place = "success" if record.success else "failed", (record.topic, record.store_host)
            yield TraceRow(what, record.group, client, record.timestamp, record.cost, status, None, *place)


def _ends(records: list[_Written]) -> Iterator[TraceRow]:
    for client, record in records:
        if isinstance(record, TransactionEnd):
            what = "transaction check" if record.from_check else "transaction"
            status, place = record.state.removesuffix("_MESSAGE").lower(), (record.topic, record.store_host)
            yield TraceRow(what, record.group, client, record.timestamp, None, status, None, *place)


def _consumptions(records: list[_Written]) -> Iterator[TraceRow]:
    starts = {one.record.request_id: one for one in records if isinstance(one.record, ConsumeStart)}
    for client, record in records:
        if not isinstance(record, ConsumeEnd):
            continue
        begun = starts.pop(record.request_id, None)
        start = begun.record if begun is not None and isinstance(begun.record, ConsumeStart) else None
        group = record.group or (start.group if start is not None else "")
        time = start.timestamp if start is not None else (record.timestamp or 0)
        status = "success" if record.success else record.context_code.name.lower()
        retries = None if start is None else start.retry_times
        yield TraceRow("consumed", group, client, time, record.cost, status, retries)
    for client, record in starts.values():
        if isinstance(record, ConsumeStart):
            begin, retries = record.timestamp, record.retry_times
            yield TraceRow("consumed", record.group, client, begin, None, "unfinished", retries)
