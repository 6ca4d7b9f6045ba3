"""The tables of a salvaged store: each from its file, otherwise from its `.bak`, otherwise derived from the
records.

Every table of the new store can be read, and each change or loss is reported in a line for the user. Files
that are not known tables are copied.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from rmqcli.codec.bodies.base import Body, encode_body
from rmqcli.codec.bodies.config import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rmqcli.codec.fastjson import FASTJSON
from rmqcli.codec.names import LMQ_PREFIX, RETRY_PREFIX
from rmqcli.codec.store.consume_queue import BATCH, QUEUE_TYPE
from rmqcli.counts import many
from rmqcli.store.read.consume_queue import batch_queues, queues_of
from rmqcli.store.read.files import DamagedFile, NamedFile, data_extents
from rmqcli.store.read.tables import TABLES, GroupOffset, TableFile, group_offsets, table_files

_OTHERS = ("compaction", "timerlog", "timerwheel")
_PIECE = 1 << 20
_LOSSES = {
    "topics.json": "the settings of topics without records are lost",
    "subscriptionGroup.json": "the settings of groups are lost",
    "consumerOffset.json": "groups consume from where new ones begin",
    "delayOffset.json": "delayed messages that were delivered are delivered again",
    "consumerFilter.json": "SQL filters are lost until their consumers connect",
}


def salvage_tables(store: Path, out: Path) -> list[str]:
    """Repair the copied tables of a new store, whose queues exist already.

    Return lines that report repairs and losses.
    """
    return [line for name in TABLES for line in _table(store, out, name)]


def copy_config(store: Path, out: Path) -> None:
    if (store / "config").is_dir():
        copy_folder(store / "config", out / "config")


def copy_others(store: Path, out: Path) -> list[str]:
    """Copy everything that is neither derived from the log nor a table. Return a line that names it."""
    others = [path for path in sorted(store.iterdir()) if path.name in _OTHERS]
    for path in others:
        _copy(path, out / path.name)
    names = ", ".join(path.name for path in others)
    return [f"copied unchecked, as 5.x brokers keep them: {names}"] if others else []


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder.

    Unlike `shutil.copytree`, which collects errors into one without errno, raises the first one.
    """
    target.mkdir()
    for path in sorted(source.iterdir()):
        _copy(path, target / path.name)


def _copy(path: Path, target: Path) -> None:
    """Copy a folder, or a file without its holes, because preallocated files are mostly unused."""
    if path.is_dir():
        copy_folder(path, target)
        return
    size = path.stat().st_size
    with path.open("rb") as source, target.open("xb") as copy:
        copy.truncate(size)
        for begin, end in data_extents(NamedFile(path, None, size), 0, size):
            for at in range(begin, end, _PIECE):
                source.seek(at)
                copy.seek(at)
                copy.write(source.read(min(_PIECE, end - at)))
    shutil.copystat(path, target)


def _table(store: Path, out: Path, name: str) -> Iterator[str]:
    file, backup = table_files(store, name)
    new, new_backup = (out / "config" / one.path.name for one in (file, backup))
    if file.is_sound:
        if not (backup.is_sound or backup.is_missing):
            shutil.copy2(new, new_backup)
            yield f"{_state(backup)}: written again from {name}"
    elif backup.is_sound:
        shutil.copy2(new_backup, new)
        yield f"{_state(file)}: its .bak is used"
    else:
        yield from _without_either(out, name, file, backup)


def _without_either(out: Path, name: str, file: TableFile, backup: TableFile) -> Iterator[str]:
    for one in (file, backup):
        (out / "config" / one.path.name).unlink(missing_ok=True)
    rebuilt = _REBUILT[name](out) if name in _REBUILT else None
    if rebuilt is not None:
        path, (table, what) = out / "config" / name, rebuilt
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encode_body(table, dialect=FASTJSON, pretty=True))
        yield f"{_state(file)} and has no sound .bak: {what}; {_LOSSES[name]}"
    elif not (file.is_missing and backup.is_missing):
        lost = _LOSSES.get(name, "its content is lost")
        yield f"{_state(file)} and has no sound .bak: left out; {lost}"


def _state(file: TableFile) -> str:
    return f"config/{file.path.name} is {'damaged' if file.is_damaged else file.problem}"


def _topics(out: Path) -> tuple[Body, str] | None:
    """Return the topics that have queues; None if there are none."""
    counts: dict[str, int] = {}
    for queue in queues_of(out):
        if queue.topic and not queue.topic.startswith(LMQ_PREFIX):
            counts[queue.topic] = max(counts.get(queue.topic, 0), (queue.queue_id or 0) + 1)
    batches = {queue.topic: {QUEUE_TYPE: BATCH} for queue in batch_queues(out)}
    for one in batch_queues(out):
        counts[one.topic] = max(counts.get(one.topic, 0), one.queue_id + 1)
    if not counts:
        return None
    table = {
        name: TopicConfig(name, count, count, attributes=batches.get(name))
        for name, count in sorted(counts.items())
    }
    what = f"rebuilt with {many(len(table), 'topic')} of the records, with default settings"
    return TopicConfigSerializeWrapper(table), what


def _groups(out: Path) -> tuple[Body, str] | None:
    """Return the groups that have committed offsets or retried messages; None if there are none."""
    names = {one.group for one in _offsets(out)}
    topics = (queue.topic or "" for queue in queues_of(out))
    names |= {topic.removeprefix(RETRY_PREFIX) for topic in topics if topic.startswith(RETRY_PREFIX)}
    if not names:
        return None
    table = {name: SubscriptionGroupConfig(name) for name in sorted(names)}
    what = f"rebuilt with {many(len(table), 'group')} of offsets and retries, with default settings"
    return SubscriptionGroupWrapper(table), what


def _offsets(out: Path) -> list[GroupOffset]:
    try:
        return group_offsets(out)
    except DamagedFile:
        return []


_REBUILT: dict[str, Callable[[Path], tuple[Body, str] | None]] = {
    "topics.json": _topics,
    "subscriptionGroup.json": _groups,
}
