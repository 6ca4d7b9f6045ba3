"""The rows of store folders that `rmq export` wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.cli.exit_codes import usage_error
from rmqcli.commands.export.topics import text_of, topics_of_stores

if TYPE_CHECKING:
    from rmqcli.export import RowFilter, StoreRows, StoreSource
    from rmqcli.grammar.offset_range import OffsetRange
    from rmqcli.store import CommitLogFiles


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
    from codec.errors import SelectorError
    from codec.selector import parse_tags

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
        topics=own or frozenset(topics),
        broker_name=source.broker_name,
        begin=wanted.begin,
        end=0 if nothing else wanted.end,
        begin_time=wanted.begin_time,
        end_time=wanted.end_time,
        begin_commit_log=last or 0,
        check_crc=chosen.verify,
    )
