"""Shows records of a store in the views that all inspections share: as messages, field by field, or counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode
from rmqcli.cli.options import FormatOption, OptionGroup, TagOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.messages import RawOption
from rmqcli.commands.inspect.app import (
    ExplainOption,
    KeyOption,
    QueueOption,
    StatsOption,
    TopicsOption,
    one_view,
)
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.codec.message import MessageExt
    from rmqcli.codec.records.filter import RecordFilter
    from rmqcli.store import DamagedFile
    from rmqcli.store.read.commit_log import Found, OnDamage
    from rmqcli.store.stats.counts import LogCounts

_MAX_EXPLAINED = 16 * 1024 * 1024
_MAX_REPORTED = 100  # damaged places that one command reports


@dataclass(frozen=True, slots=True)
class View(OptionGroup):
    """The view of messages: by default the rows of the inspection, or with `--json` the messages."""

    format_text: FormatOption = None
    raw: RawOption = False
    stats: StatsOption = False
    explain: ExplainOption = False

    @property
    def is_given(self) -> bool:
        return self != View()

    def require_one(self, **others: object) -> None:
        """Raise a usage error if several views were given."""
        one_view(
            **others, stats=self.stats, explain=self.explain, format=self.format_text is not None or self.raw
        )


@dataclass(frozen=True, slots=True)
class Selection(OptionGroup):
    """The conditions for showing a message."""

    topics: TopicsOption = None
    queue: QueueOption = None
    key: KeyOption = None
    tag: TagOption = "*"

    def given(self) -> dict[str, object]:
        """Return the values by the names of the options."""
        return {"topic": self.topics, "queue": self.queue, "key": self.key, "tag": self.tag}

    def filter(self, where: str | None = None) -> RecordFilter:
        """Return the filter, with a condition over columns and properties."""
        from rmqcli.codec.records.filter import record_filter

        return record_filter(self.key, self.tag, self.queue, where, self.topics)


@contextmanager
def damage_report() -> Iterator[OnDamage]:
    """Yield a function that reports damage on standard error; end with exit code 8 if it was called."""
    from rmqcli.render.output import warn

    count = 0

    def on_damage(damage: DamagedFile) -> None:
        nonlocal count
        count += 1
        if count <= _MAX_REPORTED:
            warn(str(damage))

    yield on_damage
    if count > _MAX_REPORTED:
        warn(f"… and {count - _MAX_REPORTED:,} more")
    if count:
        raise Ended(ExitCode.CORRUPT, summary=f"{many(count, 'record')} damaged")


def show_records(settings: Settings, found: Iterable[Found], view: View, count: int | None = None) -> None:
    """Show at most `count` records (--explain: by default one); exit code 8 for unreadable bodies."""
    from rmqcli.store.read.commit_log import inner_messages, plain_bodies

    limit = 1 if view.explain and count is None else count
    with damage_report() as on_damage:
        plain = plain_bodies(islice(found, limit), on_damage)
        if view.explain:
            _explain(settings, plain)
        elif view.stats:
            from rmqcli.store.stats.log_counts import count_records

            show_statistics(settings, count_records(plain))
        else:
            _show_messages(settings, inner_messages(plain, on_damage), view)


def _show_messages(settings: Settings, messages: Iterable[MessageExt], view: View) -> None:
    from rmqcli.render.message_rows import message_renderer
    from rmqcli.render.output import Output
    from rmqcli.render.text import Bodies

    render, output = message_renderer(settings, view.format_text, Bodies(raw=view.raw)), Output()
    for message in messages:
        output.write(render(message))


def _explain(settings: Settings, found: Iterable[Found]) -> None:
    from rmqcli.codec.records.reading import explain_record
    from rmqcli.render.inspection import show_fields
    from rmqcli.store import DamagedFile

    try:
        for place, _ in found:
            show_fields(settings, place.file.path, place.position, explain_record(place.bytes()).fields)
    except DamagedFile as damage:
        _explain_damage(settings, damage)
        raise


def _explain_damage(settings: Settings, damage: DamagedFile) -> None:
    """Show the fields of a damaged record as far as they can be read."""
    from rmqcli.codec.records.reading import explain_record
    from rmqcli.render.inspection import show_fields
    from rmqcli.render.output import warn

    if damage.position is None:
        return
    with damage.path.open("rb") as file:
        file.seek(damage.position)
        explanation = explain_record(file.read(_MAX_EXPLAINED))
    show_fields(settings, damage.path, damage.position, explanation.fields)
    if explanation.problem:
        warn(explanation.problem)


def show_statistics(settings: Settings, counts: LogCounts) -> None:
    """Show a row per topic; in JSON and on a terminal also sizes, rate and keys."""
    from rmqcli.render.distribution import distribution_document, show_distribution
    from rmqcli.render.inspection import show_log_statistics

    show_log_statistics(settings, counts.statistics, distribution_document(counts.distribution))
    if settings.terminal and not settings.json and counts.statistics.topics:
        show_distribution(counts.distribution)
