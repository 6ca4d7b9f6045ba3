"""Shows a whole store folder: the overview, the index, and the reports of verify, rebuild and salvage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rmqcli.render.inspection import STORED_COLUMNS, finding_object
from rmqcli.render.output import Output, OutputSettings
from rmqcli.render.table import (
    GROUP,
    LAG,
    MAX,
    MESSAGES,
    QUEUE,
    QUEUES,
    TOPIC,
    Column,
    objects,
    show_rows,
    show_table,
)
from rmqcli.render.text import duration, local_seconds, local_time, many, one_line, size
from rmqcli.store.read.index import ChainLink, IndexGeometry
from rmqcli.store.repair.rebuild import Difference, Rebuilt
from rmqcli.store.repair.salvage import Salvaged
from rmqcli.store.stats.index_load import IndexLoad
from rmqcli.store.stats.overview import Overview, QueueRange
from rmqcli.store.verify.store import StoreReport

_SHOWN_RUNS = 200
_MIN_MEASURED = 64 * 1024 * 1024  # bytes from which the speed is shown

_FOLDER_COLUMNS = (
    Column("FOLDER", "name"),
    Column("FILES", "files", number=True),
    Column("LENGTH", "bytes", size, number=True),
    Column("ON DISK", "bytesOnDisk", size, number=True),
)
_TOPIC_COLUMNS = (TOPIC, QUEUES, MESSAGES, *STORED_COLUMNS)
_QUEUE_COLUMNS = (TOPIC, QUEUE, MESSAGES, Column("MIN", "minOffset", number=True), MAX, *STORED_COLUMNS)
QUEUE_KEYS = tuple(column.key for column in _QUEUE_COLUMNS)
_GROUP_COLUMNS = (GROUP, TOPIC, QUEUES, LAG)
INDEX_COLUMNS = (
    Column("FILE", "file", whole=True),
    Column("ITEMS", "items", number=True),
    Column("ROOM", "capacity", number=True),
    Column("SLOTS", "slots", number=True),
    Column("USED", "usedSlots", number=True),
    Column("MEAN", "meanChain", lambda value: f"{value:.2f}", number=True),
    Column("LONGEST", "longestChain", number=True),
    Column("FIRST STORED", "beginTimestamp", local_seconds, whole=True),
    Column("LAST STORED", "endTimestamp", local_seconds, whole=True),
    Column("FROM", "beginPhyOffset", number=True),
    Column("TO", "endPhyOffset", number=True),
)


_INDEX_NUMBERS = {"items", "capacity", "slots", "usedSlots", "meanChain", "longestChain"}
_INDEX_RANGES = {"beginTimestamp", "endTimestamp", "beginPhyOffset", "endPhyOffset"}


def show_facts(settings: OutputSettings, facts: dict[str, tuple[str, Any]]) -> None:
    """Show names and values in two columns; `facts` maps JSON names to (text, value)."""
    settings.rows.refuse("this view")
    if settings.json:
        Output().json({name: value for name, (_, value) in facts.items()})
        return
    output = Output()
    width = max(map(len, facts), default=0)
    for name, (text, value) in facts.items():
        output.line(
            f"{name:<{width}}  {text}" if settings.terminal else f"{name}\t{'' if value is None else value}"
        )


def show_overview(
    settings: OutputSettings, found: Overview, *, by_queue: bool, sources: Mapping[str, str]
) -> None:
    """Show the overview. JSON: a document; TSV: a row per queue. A terminal shows topics and, on request, the
    queues below them.

    `sources`: the tables whose `.bak` was read, with the name of that file.
    """
    topics = _topics(found.queues)
    if settings.json:
        Output().json(_document(found, topics) | ({"sources": dict(sources)} if sources else {}))
        return
    if not settings.terminal:
        show_rows(settings, _QUEUE_COLUMNS, [queue_row(one) for one in found.queues])
        return
    show_table(settings, _FOLDER_COLUMNS, found.folders)
    print()
    show_rows(settings, _TOPIC_COLUMNS, topics, empty="no queues")
    if by_queue and found.queues:
        print()
        rows = [queue_row(one) for one in found.queues]
        show_rows(settings, _QUEUE_COLUMNS, rows, hidden=["firstStoreTimestamp"])
    if found.groups:
        print()
        show_table(settings, _GROUP_COLUMNS, found.groups)
    print()
    for line in _remarks(found):
        print(line)


def queue_row(one: QueueRange) -> tuple[Any, ...]:
    """Return the values of QUEUE_KEYS."""
    return (*one[:2], one.messages, *one[2:])


def camel(name: str) -> str:
    """Return the JSON name of a field."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _topics(queues: Sequence[QueueRange]) -> list[tuple[str, int, int, int, int]]:
    by_topic: dict[str, list[QueueRange]] = {}
    for one in queues:
        by_topic.setdefault(one.topic, []).append(one)
    return [
        (
            topic,
            len(several),
            sum(one.messages for one in several),
            min((one.first_stored for one in several if one.first_stored), default=0),
            max(one.last_stored for one in several),
        )
        for topic, several in by_topic.items()
    ]


def _remarks(found: Overview) -> Iterable[str]:
    messages = sum(one.messages for one in found.queues)
    counted = f"{many(messages, 'message')} in {many(len(found.queues), 'queue')}"
    yield f"{counted}, commit log from {found.log_begin} to {found.log_end}"
    yield f"pending: {many(found.delayed, 'delayed message')}, {many(found.half, 'half message')}"
    yield "a broker is running on this folder" if found.locked else "no broker is running on this folder"
    if found.abort and not found.locked:
        yield "abort file present: the broker was killed; its next start recovers the store"
    if found.checkpoint is None:
        yield "no checkpoint"
    else:
        log, queues = map(local_time, found.checkpoint[:2])
        yield f"flushed: log to {log}, queues to {queues}"
    yield disk_line(*found.disk)


def disk_line(total: int, used: int, free: int) -> str:
    """Return the use of a disk as `df` counts it: bytes that are neither used nor free are reserved."""
    usable, reserved = used + free, total - used - free
    text = f"disk: {size(used)} of {size(usable)} used ({used * 100 // max(usable, 1)}%), {size(free)} free"
    return f"{text}; {size(reserved)} reserved" if reserved > 0 else text


def _document(found: Overview, topics: Sequence[tuple[str, int, int, int, int]]) -> dict[str, Any]:
    return {
        "folders": objects(_FOLDER_COLUMNS, found.folders),
        "commitLog": {"minOffset": found.log_begin, "maxOffset": found.log_end},
        "topics": objects(_TOPIC_COLUMNS, topics),
        "queues": [dict(zip(QUEUE_KEYS, queue_row(one), strict=True)) for one in found.queues],
        "groups": objects(_GROUP_COLUMNS, found.groups),
        "pendingDelayed": found.delayed,
        "pendingHalf": found.half,
        "abort": found.abort,
        "locked": found.locked,
        "checkpoint": None
        if found.checkpoint is None
        else {camel(name): value for name, value in found.checkpoint._asdict().items()},
        "disk": dict(zip(("total", "used", "free"), found.disk, strict=True)),
    }


def index_row(index: IndexGeometry, load: IndexLoad) -> tuple[Any, ...]:
    """Return a row of INDEX_COLUMNS."""
    return (index.file.path.name, index.items, index.capacity - 1, index.slots, *load, *index.header[:4])


def show_index(settings: OutputSettings, rows: Sequence[Sequence[Any]]) -> None:
    """Show a row per index file; on a terminal, in two tables."""
    if settings.json or not settings.terminal or not rows:
        show_rows(settings, INDEX_COLUMNS, rows, empty="no such file")
        return
    show_rows(settings, INDEX_COLUMNS, rows, hidden=_INDEX_RANGES)
    print()
    show_rows(settings, INDEX_COLUMNS, rows, hidden=_INDEX_NUMBERS)


def show_chains(settings: OutputSettings, rows: Sequence[Sequence[Any]]) -> None:
    """Show rows of CHAIN_COLUMNS; on a terminal, a table per slot."""
    if settings.json or not settings.terminal or not rows:
        show_rows(settings, CHAIN_COLUMNS, rows, empty="no such item")
        return
    for (file, slot), chain in groupby(rows, key=lambda row: row[:2]):
        print(f"{file}: slot {slot}")
        show_rows(settings, CHAIN_COLUMNS, list(chain), hidden=("file", "slot"))


CHAIN_COLUMNS = (
    Column("FILE", "file"),
    Column("SLOT", "slot", number=True),
    Column("ITEM", "item", number=True),
    Column("HASH", "keyHash", number=True),
    Column("OFFSET", "commitLogOffset", number=True),
    Column("STORED", "time", local_time, whole=True),
    Column("BEFORE", "previous", number=True),
    Column("KEY", "matches", lambda value: "yes" if value else "other"),
)


def chain_row(index: IndexGeometry, slot: int, link: ChainLink) -> tuple[Any, ...]:
    """Return a row of CHAIN_COLUMNS."""
    item = link.item
    place = index.file.path.name, slot, link.number
    return (*place, item.key_hash, item.phy_offset, link.time, item.previous, link.matches)


def show_store_report(settings: OutputSettings, report: StoreReport, seconds: float) -> None:
    """Show findings and notes, one per line, and the verdict."""
    looked = sum(part.used for part in report.parts.values())
    if settings.json:
        parts = {
            name: {
                "sound": p.sound,
                "files": p.files,
                "items": p.items,
                "bytes": p.size,
                "damaged": p.damaged,
            }
            for name, p in report.parts.items()
        }
        findings = list(map(finding_object, report.findings))
        Output().json(
            {"sound": report.sound, "damaged": report.damaged, "seconds": round(seconds, 3)}
            | {"parts": parts, "findings": findings, "remarks": report.remarks}
        )
        return
    output = Output()
    for finding in report.findings:
        output.line(one_line(str(finding)))
    for remark in report.remarks:
        output.line(one_line(f"note: {remark}"))
    for name, part in report.parts.items():
        verdict = "sound" if part.sound else f"damaged in {many(part.damaged, 'place')}"
        output.line(f"{name}: {verdict}, {part.items:,} checked in {many(part.files, 'file')}")
    verdict = "sound" if report.sound else f"damaged in {many(report.damaged, 'place')}"
    measurable = settings.terminal and looked >= _MIN_MEASURED
    speed = "" if not measurable else f", {looked / seconds / 1e9:.2f} GB/s"
    output.line(f"{verdict}: {size(looked)}{speed}")


def show_rebuilt(
    settings: OutputSettings, built: Rebuilt, changes: Sequence[Difference], kept: Sequence[str], done: bool
) -> None:
    """Show the built files, their differences from the old ones, and the new location of the old ones."""
    if settings.json:
        listed = [{"file": one.path, "change": one.kind, "position": one.position} for one in changes]
        counts = {camel(name): value for name, value in built._asdict().items()}
        Output().json({**counts, "written": done, "changes": listed, "kept": list(kept)})
        return
    output = Output()
    for one in changes:
        output.line(
            f"{one.kind}: {one.path}" + ("" if one.position is None else f" from byte {one.position} on")
        )
    for name in kept:
        output.line(f"kept: {name}")
    if built.missing:
        output.line(
            f"note: {many(built.missing, 'queue offset')} without a record: their entries are fillers"
        )
    did = "built" if done else "dry run, would build"
    entries = f"{many(built.entries, 'entry')} of {many(built.queues, 'queue')}"
    output.line(
        f"{did}: {entries}, {many(built.index_items, 'item')} in {many(built.index_files, 'index file')}"
    )


def show_salvaged(settings: OutputSettings, found: Salvaged, seconds: float) -> None:
    """Show the lost byte ranges and queue offsets, and the kept records."""
    if settings.json:
        lost = [{"begin": one.begin, "end": one.end, "reason": one.reason} for one in found.lost]
        keys = ("topic", "queueId", "firstQueueOffset", "lastQueueOffset")
        gone = [dict(zip(keys, run, strict=True)) for run in found.gone]
        ends = {"placed": found.placed, "mended": found.mended, "notes": found.notes}
        Output().json({"records": found.records, "lost": lost, "gone": gone} | ends)
        return
    output = Output()
    for one in found.lost:
        output.line(
            f"lost: bytes {one.begin} to {one.end} ({many(one.end - one.begin, 'byte')}): {one.reason}"
        )
    for topic, queue_id, first, last in found.gone[:_SHOWN_RUNS]:
        output.line(
            f"gone: {topic} queue {queue_id} offset {first}" + (f" to {last}" if last > first else "")
        )
    if len(found.gone) > _SHOWN_RUNS:
        output.line(f"… and {len(found.gone) - _SHOWN_RUNS:,} more (--json lists all)")
    for offset in found.mended[:_SHOWN_RUNS]:
        output.line(f"mended: the record at {offset} lost its unparsable properties")
    for note in found.notes:
        output.line(f"note: {note}")
    lost_bytes = sum(one.end - one.begin for one in found.lost)
    count = sum(last - first + 1 for _, _, first, last in found.gone)
    kept = f"kept {many(found.records, 'record')}; lost {many(lost_bytes, 'byte')}, {many(count, 'queue offset')}"
    output.line(f"{kept} ({duration(seconds)})")
