"""The topics that `rmq export` is asked for: names, and patterns of names."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from rmqcli.cli.exit_codes import CommandError, ExitCode

if TYPE_CHECKING:
    from rmqcli.client import PullConsumer


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern: no name of a topic has these characters."""
    return not set(text).isdisjoint("*?[")


def text_of(wanted: Sequence[str]) -> str | None:
    """Return the topics as a manifest names them, so that a pattern stays one; None for all of a store."""
    return ",".join(sorted(set(wanted))) or None


async def topics_of_cluster(consumer: PullConsumer, wanted: Sequence[str]) -> list[str]:
    """Return the names; patterns stand for the topics that have readable queues now."""
    if not any(map(is_pattern, wanted)):
        return list(dict.fromkeys(wanted))
    from rmqcli.client import Admin, NoRoute

    known = await Admin(instance=consumer.instance).topics.names()
    found = []
    for name in _expanded(wanted, known, "the cluster"):
        try:
            readable = name in wanted or bool(await consumer.message_queues(name))
        except NoRoute:  # such as those that are named after clusters
            readable = False
        if readable:
            found.append(name)
    return found


def topics_of_stores(stores: Sequence[Path], wanted: Sequence[str]) -> list[str]:
    """Return the names; patterns stand for the topics of all these folders. CommandError if one has none."""
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
    from codec.names import is_system_topic

    is_meant = not name.startswith("%") or pattern.startswith("%")
    return is_meant and fnmatchcase(name, pattern) and not is_system_topic(name)
