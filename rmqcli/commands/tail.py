"""`rmq tail`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.options import (
    BrokerOption,
    CountOption,
    IdleOption,
    QueueOption,
    TagOption,
    TopicArgument,
    check_filter,
)
from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.messages import Conditions, FailEmptyOption, Form, fail_if_empty

app = single_command()

_SKEW_MS = 60_000  # how far the clock of a broker may lag behind the local clock

LastOption = Annotated[
    int, Option("--last", metavar="N", min=0, help="Start with the last N messages of all queues.")
]


@command(
    app,
    "tail",
    example="""rmq tail orders
rmq tail orders --last 0 --json | jq .body
rmq tail orders --idle 5 -f '%d %v\\n'""",
)
def tail(
    topic: TopicArgument,
    settings: Settings,
    *,
    last: LastOption = 10,
    queue: QueueOption = None,
    broker: BrokerOption = None,
    count: CountOption = None,
    idle: IdleOption = None,
    tag: TagOption = "*",
    conditions: Conditions,
    fail_empty: FailEmptyOption = False,
    form: Form,
) -> None:
    """Show the last messages of a topic and follow it.

    The last messages of all queues are merged by store time. Ends with Ctrl-C (exit code 130), after --count
    messages, after --idle seconds without a message, or when the reader of its output is gone (exit code 0).
    Continues when a broker comes back; a broker that is unavailable at the start is followed as soon as it
    responds.
    """
    from rmqcli.flows.following import Printer, follow_and_print
    from rmqcli.flows.pipe import reader_gone
    from rmqcli.flows.reading import choose_queues, open_range, reachable_spans
    from rmqcli.flows.sql_reading import filtered
    from rmqcli.grammar.offset_range import OffsetRange
    from rmqcli.render import Output

    check_filter(tag, conditions.where)
    printer = Printer(Output(), form.renderer(settings), count)
    wanted = OffsetRange(last=last)
    began_ms = now_ms()

    async def main() -> None:
        from rmqcli.client import PullConsumer

        async with PullConsumer(**settings.client_options) as consumer:
            queues = await choose_queues(consumer, topic, broker, queue)
            reader, expression, lost = await filtered(
                consumer, queues, tag, conditions.where, conditions.grep
            )
            found, absent = await reachable_spans(reader, queues, wanted, lost)
            async with open_range(reader, found, wanted, expression) as messages:
                await printer.print_all(messages)
            everything = queue is None and broker is None
            await follow_and_print(
                reader,
                topic,
                found,
                expression,
                printer,
                idle=idle,
                absent=list(absent),
                new_queues=everything,
                since_ms=began_ms - _SKEW_MS,
            )

    async def watched() -> None:
        import trio

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_with_reader)
            await main()
            nursery.cancel_scope.cancel()

    async def end_with_reader() -> None:
        await reader_gone(1)
        raise BrokenPipeError

    run_async(watched)
    fail_if_empty(printer.printed, fail=fail_empty, what=f"topic {topic}")
