"""`rmq topic entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import BrokerOption, CountOption, QueueOption, TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.topic.app import app
from rmqcli.render.output import warn
from rmqcli.render.table import BROKER, QUEUE, Column

if TYPE_CHECKING:
    from rmqcli.flows.queue_entries import Entry

OffsetOption = Annotated[
    str,
    Option(
        "--offset",
        "-o",
        metavar="RANGE",
        help="Range: start, end, N, -N (the last N of each queue), A:B, @T or @T1:T2; see `rmq help ranges`.",
    ),
]
FilterGroupOption = Annotated[
    str | None,
    Option(
        "--group", "-g", metavar="GROUP", help="Show whether the filter of this running group accepts it."
    ),
]

_COLUMNS = (
    BROKER,
    QUEUE,
    Column("OFFSET", "offset", number=True),
    Column("POSITION", "commitLogOffset", number=True),
    Column("SIZE", "size", number=True),
    Column("TAGS CODE", "tagsCode", number=True),
    Column("EXTENSION", "extension"),
    Column("ACCEPTED", "accepted"),
    Column("TEXT", "message"),
)


@command(
    app,
    "entries",
    example="""rmq topic entries orders
rmq topic entries orders -q 0 -o 100:120
rmq topic entries orders -o -5 -g billing --json""",
    rows=Rows.LIST,
)
def entries(
    topic: TopicArgument,
    settings: Settings,
    queue: QueueOption = None,
    broker: BrokerOption = None,
    offset: OffsetOption = "-10",
    count: CountOption = None,
    group: FilterGroupOption = None,
) -> None:
    """Show the entries of consume queues: where each message is in the commit log.

    Queries the brokers; `rmq inspect consumequeue` reads the files. Piped output: broker, queue, offset,
    position in the commit log, size, tags code, extension (JSON, with enableConsumeQueueExt), true if the
    filter of --group accepts (empty if that is not known), text of the broker. Brokers that do not respond
    are reported, and the exit code is 3.
    """
    from rmqcli.flows.reading import choose_queues, reachable_spans
    from rmqcli.grammar.offset_range import parse_range
    from rmqcli.render import show_rows

    wanted = parse_range(offset, now_ms())
    warn_of_clocks(settings, offset)
    failures: Failures = {}

    async def main() -> list[Entry]:
        from rmqcli.client import Admin, PullConsumer
        from rmqcli.flows.queue_entries import read_entries

        async with (
            PullConsumer(**settings.client_options) as consumer,
            Admin(instance=consumer.instance) as admin,
        ):
            queues = await choose_queues(consumer, topic, broker, queue)
            spans, lost = await reachable_spans(consumer, queues, wanted)
            failures.update((queue.broker_name, error) for queue, error in lost.items())
            return await read_entries(admin, spans, group, count, failures)

    found = run_async(main)
    if group is not None and found and all(entry.accepted is None for entry in found):
        warn(f"what {group} accepts is not known: it is not running, or filters by SQL92 without extensions")
    show_rows(settings, _COLUMNS, list(map(_row, found)), empty="no entries")
    end_partly(failures)


def _row(entry: Entry) -> list[Any]:
    data, queue = entry.data, entry.queue
    place = [queue.broker_name, queue.queue_id, entry.offset, data.physic_offset, data.physic_size]
    return [*place, data.tags_code, data.extend_data_json, entry.accepted, data.msg]
