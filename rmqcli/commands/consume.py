"""`rmq consume`: a member of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import (
    CountOption,
    FormatOption,
    IdleOption,
    SqlOption,
    TagOption,
    TopicArgument,
    TraceOption,
    check_filter,
)
from rmqcli.cli.running import now_ms, run_until_terminated
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.traces import warn_of_traces
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.client import PushSettings

app = single_command()

GroupOption = Annotated[str, typer.Option("--group", "-g", metavar="GROUP", help="The consumer group.")]
OrderlyOption = Annotated[
    bool, typer.Option("--orderly", help="Each queue in its order, locked at the broker.")
]
BroadcastOption = Annotated[
    bool, typer.Option("--broadcast", help="All messages, not a share; offsets are kept on this machine.")
]
FromOption = Annotated[
    str,
    typer.Option("--from", metavar="PLACE", help="Where a group without offsets begins: first, last or @T."),
]
BalanceOption = Annotated[
    str,
    typer.Option(
        "--balance",
        metavar="HOW",
        help="How members share queues: averagely, circle or hash; the same for all of them.",
    ),
]
ExecOption = Annotated[
    str | None,
    typer.Option("--exec", metavar="CMD", help="Run this for each message, its body on standard input."),
]
ReplyOption = Annotated[
    bool, typer.Option("--reply", help="With --exec: what the command prints answers `rmq request`.")
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        min=1,
        max=64,
        show_default=False,
        help="With --exec: run so many commands at once.  [default: 1]",
    ),
]
RetriesOption = Annotated[
    int | None,
    typer.Option(
        "--retries",
        metavar="N",
        min=0,
        show_default=False,
        help="Times that a message comes again before it is a dead letter.  [default: 16, with --orderly no end]",
    ),
]


@command(
    app,
    "consume",
    example="""rmq consume orders -g billing
rmq consume orders -g billing --from first --idle 5 --json
rmq consume orders -g billing --exec 'curl -fsS --data-binary @- http://localhost/paid' -j 8
rmq consume orders -g audit --orderly --tag 'paid || sent' -c 100
rmq consume prices -g prices --exec 'jq .item | xargs ./price' --reply""",
)
def consume(
    topic: TopicArgument,
    settings: Settings,
    group: GroupOption,
    orderly: OrderlyOption = False,
    broadcast: BroadcastOption = False,
    place: FromOption = "last",
    balance: BalanceOption = "averagely",
    tag: TagOption = "*",
    sql: SqlOption = None,
    exec_command: ExecOption = None,
    reply: ReplyOption = False,
    retries: RetriesOption = None,
    jobs: JobsOption = None,
    trace: TraceOption = False,
    count: CountOption = None,
    idle: IdleOption = None,
    format_text: FormatOption = None,
) -> None:
    """Take part in a consumer group, and acknowledge what was printed.

    The group's members share the queues of the topic. In a pipe a message is acknowledged when the reader took it; with
    --exec when its command ends with status 0; else it comes again after a delay (with --orderly its queue waits), and
    becomes a dead letter in the end, which `rmq pull %DLQ%GROUP` shows. The command finds RMQ_TOPIC, RMQ_MSG_ID, RMQ_TAG,
    RMQ_KEYS, RMQ_QUEUE_ID, RMQ_QUEUE_OFFSET, RMQ_BROKER and RMQ_RECONSUME_TIMES in its environment. Brokers let a new group
    begin at the start of a queue that is still small, whatever --from says. Ends with Ctrl-C (exit code 130), after --count
    messages, or after --idle seconds without one: with exit code 3 when some of its queues could not be asked then, and as
    brokers said when nothing was consumed at all. SIGTERM and SIGHUP end it, too; it leaves the group before: what it has not
    finished comes to another member at once.
    """
    from rmqcli.cli.logs import client_log
    from rmqcli.render import Output
    from rmqcli.render.lines import message_renderer
    from rmqcli.render.text import many

    once = broadcast and not orderly
    for wrong, why in (
        (
            exec_command and format_text is not None,
            "--exec and --format exclude each other: a command prints by itself",
        ),
        (reply and exec_command is None, "--reply needs --exec: the reply is what the command prints"),
        (
            exec_command is not None and not exec_command.strip(),
            "--exec: without a command messages would be acknowledged unseen",
        ),
        (jobs and exec_command is None, "--jobs goes with --exec: messages are printed one after the other"),
        (
            once and retries is not None,
            "--broadcast excludes --retries: what fails in a broadcast does not come again",
        ),
    ):
        if wrong:
            raise usage_error(why)
    check_filter(tag, sql)
    render = message_renderer(settings, format_text)

    async def main() -> None:
        from contextlib import AsyncExitStack

        from rmqcli.client import ConsumeResult, MessageSelector, OrderlyResult, Producer, PushConsumer
        from rmqcli.commands.common.partial import end_partly
        from rmqcli.flows.consuming import Consumption, printing, running
        from rmqcli.flows.sql_reading import entered
        from rmqcli.render.pipe import Pipe

        done, later = (
            (OrderlyResult.SUCCESS, OrderlyResult.SUSPEND)
            if orderly
            else (ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER)
        )
        consumer: Any = PushConsumer
        selector = MessageSelector(tag) if sql is None else MessageSelector.by_sql(sql)
        push = _push_settings(
            place,
            balance,
            broadcast=broadcast,
            jobs=jobs or 1,
            retries=retries,
            trace=trace,
        )
        async with AsyncExitStack() as stack:
            producer = (
                await stack.enter_async_context(Producer(**settings.producer_options)) if reply else None
            )
            pipe = Pipe.of(1, others=2) if exec_command is None else None
            act = (
                printing(Output(), render, pipe)
                if exec_command is None
                else running(exec_command, None if once else push.reconsume_limit(orderly), producer)
            )
            listener = Consumption(act, count=count, done=done, later=later)
            member = consumer(
                group,
                {topic: selector},
                listener,
                orderly=orderly,
                settings=push,
                **settings.client_options,
            )
            await entered(stack, member)
            await member.instance.route(topic)
            await listener.wait(idle, pipe, begun=member.divided)
            troubles = member.troubles(topic) if listener.was_idle else {}
        warn_of_traces(member)
        if settings.verbose:
            warn(many(listener.consumed, "message"))
        if troubles and not listener.consumed:
            raise next(iter(troubles.values()))
        end_partly(troubles)

    with client_log(verbose=settings.verbose):
        run_until_terminated(main)


def _push_settings(
    place: str, balance: str, *, broadcast: bool, jobs: int, retries: int | None, trace: bool
) -> PushSettings:
    from codec.bodies.heartbeat import ConsumeFromWhere, MessageModel
    from rmqcli.client import PushSettings
    from rmqcli.client.group import allocation as allocate
    from rmqcli.grammar.offset_range import parse_time

    where = {
        "first": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        "last": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    }.get(place, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)
    timestamp = None
    if where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        if not place.startswith("@"):
            raise usage_error(f"--from {place}: first, last or @T is expected")
        timestamp = parse_time(place[1:], now_ms())
    strategies = {
        "averagely": allocate.averagely,
        "circle": allocate.averagely_by_circle,
        "hash": allocate.consistent_hash,
    }
    if balance not in strategies:
        raise usage_error(f"--balance {balance}: {', '.join(strategies)} is expected")
    return PushSettings(
        message_model=MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING,
        consume_from=where,
        from_timestamp=timestamp,
        allocate=strategies[balance],
        consumers=jobs,
        max_reconsume_times=-1 if retries is None else retries,
        grace=0.0,
        trace=trace,
    )
