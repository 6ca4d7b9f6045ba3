"""Shows store files: rows in blocks (a file can contain millions), reports, statistics, fields with bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rmqcli.codec.ids import host_text
from rmqcli.codec.message import MessageExt
from rmqcli.codec.properties import decode_properties
from rmqcli.codec.records.reading import ExplainedField
from rmqcli.counts import plural
from rmqcli.render.output import Output, OutputSettings, json_line
from rmqcli.render.table import MESSAGES, QUEUE, QUEUES, TOPIC, Column, objects, show_document, show_rows
from rmqcli.render.text import local_seconds, local_time, many, one_line, printable, size
from rmqcli.store import Finding, LogStatistics, Queue, QueueEntry, QueueStatistics, Report

BLOCK = 200  # rows of one table on a terminal; each block has its own column widths

SHORT_FIELD = 8  # bytes shown on the line of their field
SHOWN_BYTES = 64  # bytes shown of a longer field without `-v`
_DUMP_WIDTH = 16
_COLORS = (36, 33, 32, 35, 34, 31)  # cyan, yellow, green, magenta, blue, red


RECORD_COLUMNS = (
    Column("OFFSET", "commitLogOffset", number=True),
    Column("SIZE", "storeSize", number=True),
    TOPIC,
    Column("Q", "queueId", number=True),
    Column("Q.OFFSET", "queueOffset", number=True),
    Column("STORED", "storeTimestamp", local_time, whole=True),
    Column("TAG", "tags"),
    Column("KEYS", "keys"),
)
ENTRY_COLUMNS = (
    TOPIC,
    QUEUE,
    Column("OFFSET", "queueOffset", number=True),
    Column("COMMIT-LOG OFFSET", "commitLogOffset", number=True),
    Column("SIZE", "size", number=True),
    Column("TAGS CODE", "tagsCode", number=True),
)
STORED_COLUMNS = (
    Column("FIRST STORED", "firstStoreTimestamp", local_seconds, whole=True, minor=True),
    Column("LAST STORED", "lastStoreTimestamp", local_seconds, whole=True, minor=True),
)
_TOPIC_COLUMNS = (
    TOPIC,
    QUEUES,
    MESSAGES,
    Column("BYTES", "bytes", size, number=True),
    Column("BODIES", "bodyBytes", size, number=True),
    *STORED_COLUMNS,
)
_QUEUE_COLUMNS = (
    TOPIC,
    QUEUE,
    Column("ENTRIES", "entries", number=True),
    Column("FIRST", "firstQueueOffset", number=True),
    Column("LAST", "lastQueueOffset", number=True),
    Column("RECORDS", "recordBytes", size, number=True),
    Column("TAGS", "tagsCodes", number=True),
)


def record_row(message: MessageExt) -> tuple[Any, ...]:
    """Return a row of RECORD_COLUMNS."""
    place = (message.topic, message.queue_id, message.queue_offset)
    head = (message.commit_log_offset, message.store_size)
    return (*head, *place, message.store_timestamp, message.tags, message.keys)


def entry_row(queue: Queue, entry: QueueEntry) -> tuple[Any, ...]:
    """Return a row of ENTRY_COLUMNS."""
    return queue.topic, queue.queue_id, *entry[:4]


def stream_rows(
    settings: OutputSettings,
    columns: Sequence[Column],
    rows: Iterable[Sequence[Any]],
    *,
    empty: str,
    whole: bool = False,
) -> None:
    """Print JSON objects, TSV or CSV lines, or tables of BLOCK rows, which keep empty columns if `whole` is
    true. A terminal shows the text `empty` if there are no rows.

    Raise GrammarError if a sort order is requested: rows are printed as they are read.
    """
    settings.rows.refuse_sort()
    iterator, keys = iter(rows), [column.key for column in columns]
    if settings.json or not settings.table:
        _stream_lines(settings, keys, iterator)
        return
    show_rows(settings, columns, list(islice(iterator, BLOCK)), empty=empty, whole=whole)
    while block := list(islice(iterator, BLOCK)):
        show_rows(settings, columns, block, whole=whole)


def _stream_lines(settings: OutputSettings, keys: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    output, form = Output(), settings.rows
    places = form.places(keys)
    shown = [keys[place] for place in places]
    for line in [] if settings.json else form.head(shown):
        output.line(line)
    for row in rows:
        values = [row[place] for place in places]
        output.line(json_line(dict(zip(shown, values, strict=True))) if settings.json else form.line(values))


def finding_object(found: Finding) -> dict[str, Any]:
    """Return the JSON object of a finding."""
    place = {"file": str(found.path), "position": found.position}
    return place | {"problem": found.problem, "length": found.length}


def show_report(settings: OutputSettings, report: Report, items: str) -> None:
    """Show the findings, one per line, and the totals. `items` is the noun for the counted things, in the
    singular.
    """
    settings.rows.refuse("--verify")
    if settings.json:
        counts = {"files": report.files, plural(items): report.items, "bytes": report.size}
        findings = list(map(finding_object, report.findings))
        Output().json({"sound": report.sound} | counts | {"damaged": report.damaged, "findings": findings})
        return
    output = Output()
    for finding in report.findings:
        output.line(one_line(str(finding)))
    if report.damaged > len(report.findings):
        output.line(f"… and {report.damaged - len(report.findings):,} more")
    verdict = "sound" if report.sound else f"damaged in {many(report.damaged, 'place')}"
    counted = f"{many(report.items, items)} in {many(report.files, 'file')}, {size(report.size)}"
    output.line(f"{verdict}: {counted}")


def show_log_statistics(
    settings: OutputSettings, statistics: LogStatistics, more: dict[str, Any] | None = None
) -> None:
    """Show a row per topic and the total (in JSON: `topics`, `total` and `more`)."""
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
    messages, total = sum(row[2] for row in rows), sum(row[3] for row in rows)
    if settings.json:
        counts = {"topics": objects(_TOPIC_COLUMNS, rows), "total": {"messages": messages, "bytes": total}}
        show_document(settings, counts | (more or {}), "the JSON of --stats")
        return
    show_rows(settings, _TOPIC_COLUMNS, rows, empty="no records", hidden=["bodyBytes"])
    if settings.terminal and rows:
        print(f"{many(messages, 'message')}, {size(total)}")


def show_queue_statistics(settings: OutputSettings, found: Sequence[tuple[Queue, QueueStatistics]]) -> None:
    """Show a row per queue."""
    rows = [
        (queue.topic, queue.queue_id, s.entries, s.first, s.last, s.size, len(s.tags_codes))
        for queue, s in found
    ]
    show_rows(settings, _QUEUE_COLUMNS, rows, empty="no entries")


def show_fields(
    settings: OutputSettings, path: Path, position: int, fields: Sequence[ExplainedField]
) -> None:
    """Show fields with position, name, bytes and value; long fields in lines of 16 bytes, shortened unless
    `-v` is given.

    On a terminal, the bytes of adjacent fields differ in color.
    """
    settings.rows.refuse("--explain")
    output = Output()
    if settings.json:
        listed = [
            {"field": f.name, "position": f.offset, "hex": f.data.hex(), "value": field_value(f)}
            for f in fields
        ]
        output.json({"file": str(path), "position": position, "fields": listed})
        return
    output.line(f"{path}: byte {position}")
    for number, field in enumerate(fields):
        paint = _painter(number) if settings.color else str
        for line in _field_lines(field, settings.verbose, paint):
            output.line(line.rstrip())


def _painter(number: int) -> Callable[[str], str]:
    start = f"\x1b[{_COLORS[number % len(_COLORS)]}m"
    return lambda text: f"{start}{text}\x1b[0m"


def field_value(field: ExplainedField) -> str:
    """Return the value of a field as text."""
    if isinstance(field.value, int):
        return f"0x{field.value:08X}" if field.name == "magic" else str(field.value)
    if field.name in ("born_host", "store_host"):
        return host_text(field.value)
    if field.name == "properties":
        return " ".join(f"{name}={value}" for name, value in decode_properties(field.value).items())
    return field.value.decode("utf-8", "backslashreplace")


def _field_lines(field: ExplainedField, everything: bool, paint: Callable[[str], str]) -> Iterator[str]:
    head = f"{field.offset:>6}  {field.name:<27}  "
    count = len(field.data)
    if count <= SHORT_FIELD:
        yield f"{head}{paint(field.data.hex(' ').ljust(23))}  {printable(field_value(field))}"
        return
    yield f"{head}{many(count, 'byte')}" + (f": {field_value(field)}" if field.name.endswith("host") else "")
    shown = field.data if everything else field.data[:SHOWN_BYTES]
    for at in range(0, len(shown), _DUMP_WIDTH):
        piece = shown[at : at + _DUMP_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        yield f"{field.offset + at:>6}  {paint(piece.hex(' ').ljust(47))}  {paint(text)}"
    if len(shown) < count:
        yield f"{'':>6}  … {count - len(shown):,} more bytes (-v shows all)"
    if field.name == "properties":
        yield from (f"{'':>6}  {printable(f'{k}={v}')}" for k, v in decode_properties(field.data).items())
