"""How store files look: rows streamed in blocks (a file can have millions), reports, statistics, fields with their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from codec.message import MessageExt
from rmqcli.options import Settings
from rmqcli.render.output import Output
from rmqcli.render.table import Column, show_rows, show_table
from rmqcli.render.text import local_time, size, tsv_cell, tsv_line
from rmqcli.store import FieldBytes, LogStatistics, Queue, QueueEntry, QueueStatistics, Report

__all__ = [
    "ENTRY_COLUMNS",
    "RECORD_COLUMNS",
    "entry_row",
    "record_row",
    "show_fields",
    "show_log_statistics",
    "show_queue_statistics",
    "show_report",
    "stream_rows",
]

BLOCK = 200
"""Rows of one table on a terminal; its column widths are those of the block."""

RECORD_COLUMNS = (
    Column("OFFSET", "commitLogOffset", number=True),
    Column("SIZE", "storeSize", number=True),
    Column("TOPIC", "topic"),
    Column("QUEUE", "queueId", number=True),
    Column("Q.OFFSET", "queueOffset", number=True),
    Column("STORED", "storeTimestamp", local_time),
    Column("TAG", "tags"),
    Column("KEYS", "keys"),
)
ENTRY_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("QUEUE", "queueId", number=True),
    Column("OFFSET", "queueOffset", number=True),
    Column("COMMIT-LOG OFFSET", "commitLogOffset", number=True),
    Column("SIZE", "size", number=True),
    Column("TAGS CODE", "tagsCode", number=True),
)
_TOPIC_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("QUEUES", "queues", number=True),
    Column("MESSAGES", "messages", number=True),
    Column("BYTES", "bytes", size, number=True),
    Column("BODIES", "bodyBytes", size, number=True),
    Column("FIRST STORED", "firstStoreTimestamp", local_time),
    Column("LAST STORED", "lastStoreTimestamp", local_time),
)
_QUEUE_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("QUEUE", "queueId", number=True),
    Column("ENTRIES", "entries", number=True),
    Column("FIRST", "firstQueueOffset", number=True),
    Column("LAST", "lastQueueOffset", number=True),
    Column("RECORDS", "recordBytes", size, number=True),
    Column("TAGS", "tagsCodes", number=True),
)


def record_row(message: MessageExt) -> tuple[Any, ...]:
    """A row of RECORD_COLUMNS."""
    place = (
        message.commit_log_offset,
        message.store_size,
        message.topic,
        message.queue_id,
        message.queue_offset,
    )
    return (*place, message.store_timestamp, message.tags, message.keys)


def entry_row(queue: Queue, entry: QueueEntry) -> tuple[Any, ...]:
    """A row of ENTRY_COLUMNS."""
    return queue.topic, queue.queue_id, *entry[:4]


def stream_rows(settings: Settings, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> None:
    """JSON objects, one a line; TSV lines; or tables of BLOCK rows."""
    iterator, output = iter(rows), Output()
    if settings.json or not settings.terminal:
        keys = [column.key for column in columns]
        for row in iterator:
            if settings.json:
                output.json(dict(zip(keys, row, strict=True)))
            else:
                output.line(tsv_line(list(row)))
        return
    while block := list(islice(iterator, BLOCK)):
        show_table(settings, columns, block)


def show_report(settings: Settings, report: Report, items: str) -> None:
    """The findings, then what was looked at."""
    if settings.json:
        findings = [
            {"file": str(f.path), "position": f.position, "problem": f.problem, "length": f.length}
            for f in report.findings
        ]
        facts = {"sound": report.sound, "files": report.files, items: report.items, "bytes": report.size}
        Output().json(facts | {"damaged": report.damaged, "findings": findings})
        return
    output = Output()
    for finding in report.findings:
        output.line(str(finding))
    verdict = "sound" if report.sound else f"{report.damaged} damaged"
    output.line(f"{verdict}: {report.items} {items} in {report.files} files, {report.size} bytes")


def show_log_statistics(settings: Settings, statistics: LogStatistics) -> None:
    """A row a topic, the total below (in JSON: `topics` and `total`)."""
    rows = [
        (
            t.topic,
            len(t.queues),
            t.messages,
            t.size,
            t.body_size,
            t.first_store_timestamp,
            t.last_store_timestamp,
        )
        for t in statistics.topics
    ]
    if settings.json:
        keys = [column.key for column in _TOPIC_COLUMNS]
        topics = [dict(zip(keys, row, strict=True)) for row in rows]
        total = {"messages": sum(row[2] for row in rows), "bytes": sum(row[3] for row in rows)}
        Output().json({"topics": topics, "total": total})
        return
    show_rows(settings, _TOPIC_COLUMNS, rows, empty="no records")
    if settings.terminal and rows:
        print(f"{sum(row[2] for row in rows)} messages, {size(sum(row[3] for row in rows))}")


def show_queue_statistics(settings: Settings, found: Sequence[tuple[Queue, QueueStatistics]]) -> None:
    """A row a queue."""
    rows = [
        (queue.topic, queue.queue_id, s.entries, s.first, s.last, s.size, len(s.tags_codes))
        for queue, s in found
    ]
    show_rows(settings, _QUEUE_COLUMNS, rows, empty="no entries")


def show_fields(settings: Settings, path: Path, position: int, fields: Sequence[FieldBytes]) -> None:
    """Field by field: place, name, value, bytes in hex (16 a line)."""
    output = Output()
    if settings.json:
        listed = [
            {"field": f.name, "position": f.position, "hex": f.raw.hex(), "value": f.value} for f in fields
        ]
        output.json({"file": str(path), "position": position, "fields": listed})
        return
    output.line(f"{path}: byte {position}")
    for field in fields:
        chunks = [field.raw[at : at + 8].hex(" ") for at in range(0, len(field.raw), 8)] or [""]
        output.line(
            f"{field.position:>6}  {field.name:<27} {chunks[0]:<24} {tsv_cell(_short(field.value))}".rstrip()
        )
        for number, chunk in enumerate(chunks[1:], 1):
            output.line(f"{field.position + 8 * number:>6}  {'':<27} {chunk}")


def _short(value: str) -> str:
    return value if len(value) <= 200 else f"{value[:200]}… ({len(value)} characters)"
