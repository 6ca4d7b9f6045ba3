"""Records of a store in the ways that all inspections show them: as messages, field by field, counted."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from rmqcli.commands._inspecting import one_view
from rmqcli.options import Settings

if TYPE_CHECKING:
    from codec.message import MessageExt
    from rmqcli.store import DamagedFile
    from rmqcli.store.log_counts import LogCounts
    from rmqcli.store.log_filter import RecordFilter
    from rmqcli.store.log_reader import Found

_LONGEST_EXPLAINED = 16 * 1024 * 1024


class View(NamedTuple):
    """What is shown of messages; none of it: the inspection's own rows, or the messages with `--json`."""

    format_text: str | None = None
    stats: bool = False
    explain: bool = False

    @property
    def is_given(self) -> bool:
        return self != View()

    def require_one(self, **others: object) -> None:
        one_view(**others, stats=self.stats, explain=self.explain, format=self.format_text is not None)


class MessageFilter(NamedTuple):
    """Topics (none: all), and what `record_filter` knows."""

    topics: frozenset[str]
    record: RecordFilter

    @property
    def is_open(self) -> bool:
        return not self.topics and self.record.is_open

    def accepts(self, message: MessageExt) -> bool:
        return (not self.topics or message.topic in self.topics) and self.record.accepts(message)


def show_records(settings: Settings, found: Iterable[Found], view: View, count: int | None = None) -> None:
    """At most `count` of them; of --explain one when it is not given."""
    if view.explain:
        _explain(settings, islice(found, 1 if count is None else count))
    elif view.stats:
        show_statistics(settings, count_records(islice(found, count)))
    else:
        _show_messages(settings, islice(found, count), view.format_text)


def _show_messages(settings: Settings, found: Iterable[Found], format_text: str | None) -> None:
    from rmqcli.render.lines import message_renderer
    from rmqcli.render.output import Output

    render, output = message_renderer(settings, format_text), Output()
    for _, message in found:
        output.write(render(message))


def _explain(settings: Settings, found: Iterable[Found]) -> None:
    from codec.record_explain import explain_record
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import DamagedFile

    try:
        for place, _ in found:
            show_fields(settings, place.file.path, place.position, explain_record(place.bytes()).fields)
    except DamagedFile as damage:
        _explain_damage(settings, damage)
        raise


def _explain_damage(settings: Settings, damage: DamagedFile) -> None:
    """What a damaged record says as far as it makes sense."""
    from codec.record_explain import explain_record
    from rmqcli.render.inspection import show_fields
    from rmqcli.running import warn

    if damage.position is None:
        return
    with damage.path.open("rb") as file:
        file.seek(damage.position)
        explanation = explain_record(file.read(_LONGEST_EXPLAINED))
    show_fields(settings, damage.path, damage.position, explanation.fields)
    if explanation.problem:
        warn(explanation.problem)


def count_records(found: Iterable[Found]) -> LogCounts:
    """One by one."""
    from rmqcli.store.log_counts import LogCounts

    counts = LogCounts()
    for _, message in found:
        counts.add(message)
    return counts


def show_statistics(settings: Settings, counts: LogCounts) -> None:
    """Topics; in JSON and on a terminal sizes, rate and keys, too."""
    from rmqcli.render.distribution import distribution_document, show_distribution
    from rmqcli.render.inspection import show_log_statistics

    show_log_statistics(settings, counts.statistics, distribution_document(counts.distribution))
    if settings.terminal and not settings.json and counts.statistics.topics:
        show_distribution(counts.distribution)
