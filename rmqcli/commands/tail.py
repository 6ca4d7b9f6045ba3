"""`rmq tail`."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import (
    BrokerOption,
    CountOption,
    IdleOption,
    QueueOption,
    TagOption,
    check_filter,
)
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks
from rmqcli.commands.common.messages import (
    Conditions,
    FailEmptyOption,
    Form,
    fail_if_empty,
    note_to_person,
)
from rmqcli.commands.common.outcome import report_failures

if TYPE_CHECKING:
    from rmqcli.grammar.offset_range import OffsetRange

app = single_command()

_LAST = 10
_LATE_S = 1.0  # seconds for which messages stored before --until may still arrive
_SKEW_MS = 60_000  # how far the clock of a broker may lag behind the local clock

TopicsArgument = Annotated[
    list[str], Argument(metavar="TOPIC...", help="Names of the topics.", show_default=False)
]
LastOption = Annotated[
    int | None,
    Option(
        "--last",
        metavar="N",
        min=0,
        show_default=False,
        help="Start with the last N messages of all queues.  [default: 10]",
    ),
]
StartOption = Annotated[
    str | None,
    Option(
        "--offset",
        "-o",
        metavar="RANGE",
        help="Start: @T, -N, N, start or end; see `rmq help ranges`.",
    ),
]
UntilOption = Annotated[
    str | None,
    Option("--until", metavar="TIME", help="Stop at a time: @T, or +DURATION from now, e.g. +10m."),
]


@command(
    app,
    "tail",
    example="""rmq tail orders
rmq tail orders payments -o @-5m --where 'amount > 100'
rmq tail orders --last 0 --json | jq .body
rmq tail orders --until +10m --grep timeout -f '%d %v\\n'""",
    rows=Rows.LIST,
    panels={
        "Queues": "--queue --broker",
        "Content": "--grep",
        "End": "--until --idle --fail-empty",
        "Bodies": "--raw --full --meta-only --max-body",
    },
)
def tail(
    topics: TopicsArgument,
    settings: Settings,
    *,
    last: LastOption = None,
    offset: StartOption = None,
    until: UntilOption = None,
    queue: QueueOption = None,
    broker: BrokerOption = None,
    count: CountOption = None,
    idle: IdleOption = None,
    tag: TagOption = "*",
    conditions: Conditions,
    fail_empty: FailEmptyOption = False,
    form: Form,
) -> None:
    """Show the last messages of topics and follow them.

    The last messages of all queues are merged by store time. Ends with Ctrl-C (exit code 130), after --count
    messages, after --idle seconds without a message, at the time --until, or when the reader of its output is
    gone (exit code 0). Continues when a broker comes back; a broker that is unavailable at the start is
    followed as soon as it responds.
    """
    from rmqcli.flows.following import Printer, follow_and_print
    from rmqcli.flows.pipe import reader_gone
    from rmqcli.flows.reading import choose_queues, open_range, reachable_spans
    from rmqcli.flows.sql_reading import filtered
    from rmqcli.grammar.times import parse_future
    from rmqcli.render import Output
    from rmqcli.render.text import listed, many

    check_filter(tag, conditions.where)
    began_ms = now_ms()
    names = list(dict.fromkeys(topics))
    until_ms = None if until is None else parse_future("--until", until, began_ms)
    render = form.renderer(settings, topic=len(names) > 1)
    printer = Printer(Output(), render, count, until_ms)
    wanted = _start(last, offset, began_ms)
    warn_of_clocks(settings, offset)

    async def main() -> None:
        from rmqcli.client import PullConsumer

        deadline = inf if until_ms is None else trio.current_time() + (until_ms - began_ms) / 1000 + _LATE_S
        async with PullConsumer(**settings.client_options) as consumer:
            queues = [one for name in names for one in await choose_queues(consumer, name, broker, queue)]
            reader, expression, lost = await filtered(
                consumer, queues, tag, conditions.where, conditions.grep
            )
            found, absent = await reachable_spans(reader, queues, wanted, lost)
            report_failures({one.broker_name: error for one, error in absent.items()})
            where = listed(sorted({one.broker_name for one in queues}))
            note_to_person(
                settings,
                f"following {listed(names)}: {many(len(queues), 'queue')} on {where}, {_from(wanted)}",
            )
            async with open_range(reader, found, wanted, expression) as messages:
                await printer.print_all(messages)
            everything = queue is None and broker is None
            await follow_and_print(
                reader,
                names,
                found,
                expression,
                printer,
                idle=idle,
                absent=list(absent),
                new_queues=everything,
                since_ms=began_ms - _SKEW_MS,
                deadline=deadline,
            )

    async def watched() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_with_reader)
            await main()
            nursery.cancel_scope.cancel()

    async def end_with_reader() -> None:
        await reader_gone(1)
        # Ends the command without a message, with exit code 0 (`rmqcli.cli.errors`).
        raise BrokenPipeError

    import trio

    run_async(watched)
    fail_if_empty(printer.printed, fail=fail_empty, what=f"topic {listed(names)}")


def _start(last: int | None, offset: str | None, now_ms: int) -> OffsetRange:
    from rmqcli.grammar.offset_range import OffsetRange, parse_range

    if offset is None:
        return OffsetRange(last=_LAST if last is None else last)
    if last is not None:
        raise usage_error("--last and --offset cannot be combined: -o -N are the last N")
    wanted = parse_range(offset, now_ms)
    if wanted.end is not None or wanted.end_time is not None:
        raise usage_error(f"--offset {offset}: a tail has no end there; see --until, or rmq pull")
    return wanted


def _from(wanted: OffsetRange) -> str:
    from rmqcli.render.text import local_seconds, many

    if wanted.last is not None:
        return f"from the last {many(wanted.last, 'message')}" if wanted.last else "from the end"
    if wanted.begin_time is not None:
        return f"from {local_seconds(wanted.begin_time)}"
    if wanted.only_new:
        return "from the end"
    return "from the start" if wanted.begin is None else f"from offset {wanted.begin}"
