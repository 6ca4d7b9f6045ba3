"""`rmq pull`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import (
    BrokerOption,
    CountOption,
    QueueOption,
    TagOption,
    TopicArgument,
    check_filter,
)
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks
from rmqcli.commands.common.messages import Conditions, FailEmptyOption, Form, fail_if_empty
from rmqcli.commands.common.outcome import end_partly, partial_code
from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqcli.codec.message import MessageExt
    from rmqcli.flows.sql_reading import Asked, Pulled

app = single_command()

SCREEN_MESSAGES = 20  # of a pull without a range on a terminal

RangeOption = Annotated[
    str | None,
    Option(
        "--offset",
        "-o",
        metavar="RANGE",
        help="Range: start, end, N, -N (the last N), A:B, @T or @T1:T2; see `rmq help ranges`.",
    ),
]

StatsOption = Annotated[
    bool, Option("--stats", help="Count the messages by queue, tag and key, instead of printing them.")
]


@command(
    app,
    "pull",
    example="""rmq pull orders -o -10
rmq pull orders -q 0 -o 100:200 --json
rmq pull orders --where "shop = 'berlin' AND price BETWEEN 5 AND 9"
rmq pull orders -o @-1h --tag 'paid || sent' -f '%o %k %v\\n'
rmq pull orders -o @-1d --stats""",
    rows=Rows.LIST,
    panels={"Content": "--grep --fail-empty", "Bodies": "--raw --full --meta-only --max-body"},
)
def pull(
    topic: TopicArgument,
    settings: Settings,
    *,
    queue: QueueOption = None,
    broker: BrokerOption = None,
    offset: RangeOption = None,
    count: CountOption = None,
    tag: TagOption = "*",
    conditions: Conditions,
    fail_empty: FailEmptyOption = False,
    stats: StatsOption = False,
    form: Form,
) -> None:
    """Read messages from a range of offsets or times.

    Needs no consumer group and changes no offsets. Reads up to the end that each queue had at the start.
    Without a range, a pipe gets all messages, and a terminal the last 20 (with -c or a condition: all).
    Messages of all queues are merged by store time; -N selects the last N messages of all selected queues
    together. Brokers that do not respond are reported, the messages of the others are printed, and the exit
    code is 3.
    """
    from rmqcli.flows.sql_reading import Asked
    from rmqcli.grammar.offset_range import parse_range

    check_filter(tag, conditions.where)
    if stats and form != Form():
        raise usage_error("--stats cannot be combined with forms of messages: it prints counts")
    chosen = (offset, count, tag, conditions, stats) != (None, None, "*", Conditions(), False)
    brief = settings.terminal and not settings.json and not chosen
    asked = Asked(
        topic,
        parse_range(offset or "start", now_ms()),
        broker,
        queue,
        tag,
        *(conditions.where, conditions.grep, count),
        last=SCREEN_MESSAGES if brief else None,
    )
    warn_of_clocks(settings, offset)
    done = _count(settings, asked) if stats else _print(settings, asked, form.renderer(settings))
    if settings.verbose:
        warn(f"{many(done.messages, 'message')} from {many(done.queues, 'queue')}")
    end_partly(done.missing)
    if done.unread:
        raise Ended(partial_code(done=True), summary=f"{many(len(done.unread), 'queue')} not read to the end")
    fail_if_empty(done.messages, fail=fail_empty, what=f"topic {topic}")


def _print(settings: Settings, asked: Asked, render: Callable[[MessageExt], bytes]) -> Pulled:
    from rmqcli.render import Output

    output = Output()
    try:
        return _pull(settings, asked, lambda message: output.write(render(message)), quiet=settings.tty)
    finally:
        output.flush()


def _count(settings: Settings, asked: Asked) -> Pulled:
    from rmqcli.render.message_counts import MessageCounts

    counts = MessageCounts()
    done = _pull(settings, asked, counts.add, quiet=False)
    counts.show(settings)
    return done


def _pull(settings: Settings, asked: Asked, take: Callable[[MessageExt], None], *, quiet: bool) -> Pulled:
    from rmqcli.flows.sql_reading import pull_range
    from rmqcli.render.progress import progress

    async def main() -> Pulled:
        from rmqcli.client import PullConsumer

        async with PullConsumer(**settings.client_options) as consumer:
            return await pull_range(
                consumer, asked, take, lambda total: progress(asked.topic, total, quiet=quiet)
            )

    return run_async(main)
