"""The rows of store folders that `rmq export` wants."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error

if TYPE_CHECKING:
    from rmqcli.export import RowFilter, StoreRows, StoreSource
    from rmqcli.grammar.offset_range import OffsetRange
    from rmqcli.store import CommitLogFiles


class Selection(NamedTuple):
    """The choice of rows of store folders; `tag` is an expression."""

    topic: str | None
    wanted: OffsetRange
    queue: int | None
    tag: str
    verify: bool
    only_queued: bool


def rows_of_stores(stores: Sequence[Path], names: Sequence[str], chosen: Selection) -> list[StoreRows]:
    """Return the wanted rows of each store; `names` are those of their brokers, or empty.

    Raise CommandError if none has the topic.
    """
    from rmqcli.export import StoreRows, store_sources

    sources = store_sources(stores, names)
    filters = _row_filters(sources, chosen)
    tags = _tags(chosen.tag)
    return [
        StoreRows(source.path, replace(one, queue_id=chosen.queue, tags=tags, only_queued=chosen.only_queued))
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
    if chosen.topic is not None:
        _require_topic([source.path for source in sources], chosen.topic)
    return [
        _row_filter(log, source, chosen.topic, chosen.wanted, chosen.verify)
        for log, source in zip(logs, sources, strict=True)
    ]


def _row_filter(
    log: CommitLogFiles, source: StoreSource, topic: str | None, wanted: OffsetRange, verify: bool
) -> RowFilter:
    from rmqcli.export import RowFilter
    from rmqcli.export.from_store.queue_check import has_topic

    nothing = wanted.only_new or wanted.last == 0 or (topic is not None and not has_topic(source.path, topic))
    last = None if wanted.last is None else log.last(wanted.last, topic and frozenset([topic]))
    return RowFilter(
        topics=frozenset([topic] if topic else []),
        broker_name=source.broker_name,
        begin=wanted.begin,
        end=0 if nothing else wanted.end,
        begin_time=wanted.begin_time,
        end_time=wanted.end_time,
        begin_commit_log=last or 0,
        check_crc=verify,
    )


def _require_topic(stores: Sequence[Path], topic: str) -> None:
    from rmqcli.export.from_store.queue_check import has_topic
    from rmqcli.store.read.tables import topics

    if not any(has_topic(store, topic) for store in stores):
        names = ", ".join(map(str, stores))
        text = f"topic {topic} not found in {names} (see `rmq inspect store {shlex.quote(str(stores[0]))}`)"
        known = {name: config for store in stores for name, config in topics(store).items()}
        raise CommandError(text, ExitCode.NOT_FOUND, missing=("topic", topic), known=known)
