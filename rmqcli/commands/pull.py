"""`rmq pull`."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.options import (
    BrokerOption,
    CountOption,
    QueueOption,
    TagOption,
    TopicArgument,
    check_filter,
)
from rmqcli.cli.running import now_ms, run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.messages import Conditions, FailEmptyOption, Form, fail_if_empty
from rmqcli.commands.common.outcome import Failures, end_partly, partial_code
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from codec.message_queue import MessageQueue

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


@command(
    app,
    "pull",
    example="""rmq pull orders -o -10
rmq pull orders -q 0 -o 100:200 --json
rmq pull orders --where "shop = 'berlin' AND price BETWEEN 5 AND 9"
rmq pull orders -o @-1h --tag 'paid || sent' -f '%o %k %v\\n'""",
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
    form: Form,
) -> None:
    """Read messages from a range of offsets or times.

    Needs no consumer group and changes no offsets. Reads up to the end that each queue had at the start.
    Without a range, a pipe gets all messages, and a terminal the last 20 (with -c or a condition: all).
    Messages of all queues are merged by store time; -N selects the last N messages of all selected queues
    together. Brokers that do not respond are reported, the messages of the others are printed, and the exit
    code is 3.
    """
    from rmqcli.flows.reading import choose_queues, last_spans, open_range, reachable_spans, total
    from rmqcli.flows.sql_reading import filtered
    from rmqcli.grammar.offset_range import OffsetRange, parse_range
    from rmqcli.render import Output
    from rmqcli.render.progress import progress
    from rmqcli.render.text import many

    check_filter(tag, conditions.where)
    wanted = parse_range(offset or "start", now_ms())
    brief = settings.terminal and not settings.json and conditions == Conditions() and tag == "*"
    brief = brief and offset is None and count is None
    render = form.renderer(settings)
    output = Output()
    missing: Failures = {}
    unread: list[MessageQueue] = []
    printed = 0

    async def main() -> None:
        nonlocal printed
        from rmqcli.client import PullConsumer

        async with AsyncExitStack() as stack:
            consumer = await stack.enter_async_context(PullConsumer(**settings.client_options))
            queues = await choose_queues(consumer, topic, broker, queue)
            reader, expression, lost = await filtered(
                consumer, queues, tag, conditions.where, conditions.grep
            )
            found, failures = await reachable_spans(reader, queues, wanted, lost)
            missing.update((queue.broker_name, error) for queue, error in failures.items())
            chosen = wanted
            if brief and (there := total(found)) > SCREEN_MESSAGES:
                warn(f"the last {SCREEN_MESSAGES} of {many(there, 'message')}; -o start shows all")
                found, chosen = last_spans(found, SCREEN_MESSAGES), OffsetRange(last=SCREEN_MESSAGES)
            advance = stack.enter_context(progress(topic, count or total(found), quiet=settings.terminal))
            messages = await stack.enter_async_context(open_range(reader, found, chosen, expression, unread))
            async for message in messages:
                output.write(render(message))
                advance(1)
                printed += 1
                if printed == count:
                    break
            output.flush()
            if settings.verbose:
                warn(f"{many(printed, 'message')} from {many(len(found), 'queue')}")

    run_async(main)
    end_partly(missing)
    if unread:
        raise Exit(partial_code(done=True))
    fail_if_empty(printed, fail=fail_empty, what=f"topic {topic}")
