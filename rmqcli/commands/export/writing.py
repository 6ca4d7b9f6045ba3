"""Runs an export of files or of a table."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error

if TYPE_CHECKING:
    from rmqcli.client import PullConsumer
    from rmqcli.export import RowFilter, StoreRows, StoreSource
    from rmqcli.grammar.offset_range import OffsetRange
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.workers import Workers


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern: topic names do not contain these characters."""
    return not set(text).isdisjoint("*?[")


def text_of(wanted: Sequence[str]) -> str | None:
    """Return the topics as a manifest names them, with patterns kept as they are; None means all topics of a
    store.
    """
    return ",".join(sorted(set(wanted))) or None


async def topics_of_cluster(consumer: PullConsumer, wanted: Sequence[str]) -> list[str]:
    """Return the topic names, with patterns expanded to the topics that have readable queues now."""
    if not any(map(is_pattern, wanted)):
        return list(dict.fromkeys(wanted))
    from rmqcli.client import Admin, NoRoute

    known = await Admin(instance=consumer.instance).topics.names()
    found = []
    for name in _expanded(wanted, known, "the cluster"):
        try:
            readable = name in wanted or bool(await consumer.message_queues(name))
        except NoRoute:  # such as topics named after clusters
            readable = False
        if readable:
            found.append(name)
    return found


def topics_of_stores(stores: Sequence[Path], wanted: Sequence[str]) -> list[str]:
    """Return the topic names, with patterns expanded to the topics of all these folders. Raise CommandError
    for a name or pattern without a topic.
    """
    from rmqcli.export.from_store.queue_check import has_topic
    from rmqcli.store.read.tables import topics

    places = ", ".join(map(str, stores))
    configs = {name: config for store in stores for name, config in topics(store).items()}
    folders = [path for store in stores for path in store.glob("consumequeue/*") if path.is_dir()]
    known = {*configs, *(path.name for path in folders)}
    for topic in wanted:
        if not is_pattern(topic) and not any(has_topic(store, topic) for store in stores):
            text = (
                f"topic {topic} not found in {places} (see `rmq inspect store {shlex.quote(str(stores[0]))}`)"
            )
            raise CommandError(text, ExitCode.NOT_FOUND, missing=("topic", topic), known=configs)
    return _expanded(wanted, known, places)


def _expanded(wanted: Sequence[str], known: Collection[str], place: str) -> list[str]:
    found = []
    for text in wanted:
        names = [name for name in sorted(known) if _matches(name, text)] if is_pattern(text) else [text]
        if not names:
            raise CommandError(f"--topic {text}: no topic of {place} has such a name", ExitCode.NOT_FOUND)
        found += names
    return list(dict.fromkeys(found))


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name matches; retry and dead-letter topics only match patterns that start with %."""
    from rmqcli.codec.names import is_system_topic

    is_meant = not name.startswith("%") or pattern.startswith("%")
    return is_meant and fnmatchcase(name, pattern) and not is_system_topic(name)


class Selection(NamedTuple):
    """The choice of rows of store folders; `topics` may be patterns, `tag` is an expression."""

    topics: Sequence[str]
    wanted: OffsetRange
    queue: int | None
    tag: str
    verify: bool
    only_queued: bool


def rows_of_stores(stores: Sequence[Path], names: Sequence[str], chosen: Selection) -> list[StoreRows]:
    """Return the wanted rows of each store; `names` are those of their brokers, or empty.

    Raise CommandError if none has a topic.
    """
    from rmqcli.export import StoreRows, store_sources

    sources = store_sources(stores, names)
    filters = _row_filters(sources, chosen)
    tags = _tags(chosen.tag)
    return [
        StoreRows(
            source.path,
            replace(one, queue_id=chosen.queue, tags=tags, only_queued=chosen.only_queued),
            text_of(chosen.topics),
        )
        for source, one in zip(sources, filters, strict=True)
    ]


def _tags(expression: str) -> frozenset[str]:
    from rmqcli.codec.errors import SelectorError
    from rmqcli.codec.selector import parse_tags

    try:
        return parse_tags(expression)
    except SelectorError as error:
        raise usage_error(f"--tag: {error}") from error


def _row_filters(sources: Sequence[StoreSource], chosen: Selection) -> list[RowFilter]:
    from rmqcli.store import CommitLogFiles

    logs = [CommitLogFiles(source.path) for source in sources]
    topics = topics_of_stores([source.path for source in sources], chosen.topics)
    return [_row_filter(log, source, topics, chosen) for log, source in zip(logs, sources, strict=True)]


def _row_filter(
    log: CommitLogFiles, source: StoreSource, topics: Sequence[str], chosen: Selection
) -> RowFilter:
    from rmqcli.export import RowFilter
    from rmqcli.export.from_store.queue_check import has_topic

    wanted = chosen.wanted
    own = frozenset(topic for topic in topics if has_topic(source.path, topic))
    nothing = wanted.only_new or wanted.last == 0 or bool(topics and not own)
    last = None if wanted.last is None else log.last(wanted.last, own or None)
    return RowFilter(
        # An empty set would mean all topics; `end` excludes all if the store has none of them.
        topics=own or frozenset(topics),
        broker_name=source.broker_name,
        begin=wanted.begin,
        end=0 if nothing else wanted.end,
        begin_time=wanted.begin_time,
        end_time=wanted.end_time,
        begin_commit_log=last or 0,
        check_crc=chosen.verify,
    )


_MIN_PARALLEL_BYTES = 1 << 29  # bytes of commit log from which several processes are faster than one


@contextmanager
def working(
    stores: Sequence[StoreRows], jobs: int | None
) -> Iterator[tuple[Callable[[int], None], Workers | None]]:
    """Yield a function to call with bytes of commit log, and workers; None for one process."""
    from rmqcli.machine import processes
    from rmqcli.render.progress import progress
    from rmqcli.store import CommitLogFiles
    from rmqcli.store.workers import Workers

    size = sum(file.size for one in stores for file in CommitLogFiles(one.store).files)
    # One process keeps two cores busy: it scans while one of its threads compresses.
    jobs = jobs or (max(processes() // 2, 1) if size >= _MIN_PARALLEL_BYTES else 1)
    with Workers(jobs) as workers, progress("export", size, sizes=True) as advance:
        yield advance, workers if jobs > 1 else None
