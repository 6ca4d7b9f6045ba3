"""`rmq consume`: a member of a consumer group."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import Ended, is_interrupt
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import (
    CountOption,
    IdleOption,
    TagOption,
    TopicArgument,
    TraceOption,
    WhereOption,
    check_filter,
)
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms, run_until_terminated
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks
from rmqcli.commands.common.messages import Form, note_to_person
from rmqcli.commands.common.outcome import partial_code, report_failures, say_done, traces_outcome
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from rmqcli.client import PushSettings
    from rmqcli.flows.consuming import Consumption

app = single_command()

MOST_LENT = 96
"""Messages that --pop lets a broker lend at a time, as Java's clients do."""

GroupOption = Annotated[
    str | None,
    Option("--group", "-g", metavar="GROUP", help="Consumer group; default: that of the profile."),
]
OrderlyOption = Annotated[
    bool, Option("--orderly", help="Consume each queue in order, locked at the broker.")
]
BroadcastOption = Annotated[
    bool,
    Option("--broadcast", help="Consume all messages instead of a share; offsets are kept on this machine."),
]
PopOption = Annotated[
    bool,
    Option(
        "--pop", help="Let brokers lend the messages (POP, 5.x); members then need no queues of their own."
    ),
]
FromOption = Annotated[
    str, Option("--from", metavar="PLACE", help="Start of a group without offsets: start, end or @T.")
]
BalanceOption = Annotated[
    str,
    Option(
        "--balance",
        metavar="HOW",
        help="Queue allocation: averagely, circle or hash; must be the same for all members.",
    ),
]
ExecOption = Annotated[
    str | None,
    Option("--exec", metavar="CMD", help="Run a command for each message, with the body on standard input."),
]
ReplyOption = Annotated[
    bool, Option("--reply", help="With --exec: reply to `rmq request` with the output of the command.")
]
JobsOption = Annotated[
    int | None,
    Option(
        "--jobs",
        "-j",
        metavar="N",
        min=1,
        max=64,
        show_default=False,
        help="With --exec: number of commands run at once.  [default: 1]",
    ),
]
RetriesOption = Annotated[
    int | None,
    Option(
        "--retries",
        metavar="N",
        min=0,
        show_default=False,
        help="Retries of a message before it becomes a dead letter.  [default: those of the group, 16 at "
        "first; unlimited with --orderly]",
    ),
]


@command(
    app,
    "consume",
    example="""rmq consume orders -g billing
rmq consume orders -g billing --from start --idle 5 --json
rmq consume orders -g billing --exec 'curl -d @- http://localhost/paid' -j 8
rmq consume orders -g audit --orderly --tag 'paid || sent' -c 100
rmq consume prices -g prices --exec 'jq .item | xargs ./price' --reply""",
    rows=Rows.LIST,
    panels={
        "Bodies": "--raw --full --meta-only --max-body",
        "Membership": "--orderly --broadcast --pop --balance",
        "Commands and retries": "--reply --jobs --retries",
        "Tracing": "--trace",
    },
)
def consume(
    topic: TopicArgument,
    settings: Settings,
    *,
    group: GroupOption = None,
    orderly: OrderlyOption = False,
    broadcast: BroadcastOption = False,
    pop: PopOption = False,
    place: FromOption = "end",
    balance: BalanceOption = "averagely",
    tag: TagOption = "*",
    where: WhereOption = None,
    exec_command: ExecOption = None,
    reply: ReplyOption = False,
    retries: RetriesOption = None,
    jobs: JobsOption = None,
    trace: TraceOption = False,
    count: CountOption = None,
    idle: IdleOption = None,
    form: Form,
) -> None:
    """Consume messages as a member of a consumer group.

    The members of a group share the queues of the topic. A message is acknowledged when it is printed (in a
    pipe: when the reader has read it), or with --exec when its command exits with status 0. Other messages
    are retried after a delay (with --orderly the queue waits) and finally become dead letters, which `rmq
    dlq` shows. The command finds RMQ_TOPIC, RMQ_MSG_ID, RMQ_TAG, RMQ_KEYS, RMQ_QUEUE_ID, RMQ_QUEUE_OFFSET,
    RMQ_BROKER and RMQ_RECONSUME_TIMES in its environment. A command that cannot be run (status 126 or 127)
    ends the consumption at once, and its message stays with the group. Brokers let a new group start at the
    beginning of a queue that is still small, regardless of --from. With --pop, brokers lend each message for
    a minute, renewed while its command runs; `rmq group mode` lets all members share all queues. Ends with
    Ctrl-C (exit code 130), after --count messages (with --exec: tries), or after --idle seconds without a
    message; then the exit code is 3 if some queues could not be read or some commands failed, 1 if all
    commands failed, and that of the brokers' error if nothing was consumed. SIGTERM and SIGHUP also end it.
    The command leaves the group before it ends, so that unfinished messages go to another member at once.
    """
    from rmqcli.cli.logs import client_log
    from rmqcli.render import Output
    from rmqcli.render.text import many

    once = broadcast and not orderly
    for wrong, why in (
        (
            exec_command and form != Form(),
            "--exec cannot be combined with --format and other forms of output: the command prints its own",
        ),
        (reply and exec_command is None, "--reply requires --exec: the reply is the output of the command"),
        (
            exec_command is not None and not exec_command.strip(),
            "--exec requires a command: messages would be acknowledged unseen",
        ),
        (jobs and exec_command is None, "--jobs requires --exec: messages are printed one at a time"),
        (
            once and retries is not None,
            "--broadcast and --retries cannot be combined: broadcast messages are never retried",
        ),
        (
            broadcast and pop,
            "--broadcast and --pop cannot be combined: popped messages are shared by the members",
        ),
        (
            pop and place.startswith("@"),
            "--from @T and --pop cannot be combined: a group that pops begins at start or end",
        ),
    ):
        if wrong:
            raise usage_error(why)
    check_filter(tag, where)
    render = form.renderer(settings)
    member_of = settings.group(group)
    if member_of is None:
        raise usage_error("specify --group, or set that of the profile: rmq profile edit NAME --group GROUP")
    warn_of_clocks(settings, place)

    async def main() -> None:
        from contextlib import AsyncExitStack

        from rmqcli.client import ConsumeResult, MessageSelector, OrderlyResult, Producer, PushConsumer
        from rmqcli.flows.consuming import Consumption, printing, running
        from rmqcli.flows.pipe import Pipe
        from rmqcli.flows.sql_reading import entered

        done, later = (
            (OrderlyResult.SUCCESS, OrderlyResult.SUSPEND)
            if orderly
            else (ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER)
        )
        consumer: Any = PushConsumer
        selector = MessageSelector(tag) if where is None else MessageSelector.by_sql(where)
        asks = retries is None and exec_command is not None and not (orderly or broadcast)
        limit = await _retries_of(settings, member_of) if asks else retries
        push = _push_settings(
            place, balance, broadcast=broadcast, jobs=jobs or 1, retries=limit, trace=trace, count=count
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
                member_of,
                {topic: selector},
                listener,
                orderly=orderly,
                pop=pop,
                settings=push,
                **settings.client_options,
            )
            await entered(stack, member)
            queues = (await member.instance.route(topic)).subscribe
            note_to_person(settings, _joined(topic, member_of, len(queues), place, broadcast=broadcast))
            await _told(
                settings, listener, listener.wait(idle, pipe, begun=member.divided), member_of, once=once
            )
            troubles = member.troubles(topic) if listener.was_idle else {}
        untraced = traces_outcome(member)
        if settings.verbose:
            warn(many(listener.consumed, "message"))
        if troubles and not (listener.consumed or listener.failed):
            raise next(iter(troubles.values()))
        report_failures(troubles)
        if listener.failed:
            warn(f"{many(listener.consumed, 'message')} consumed, {many(listener.failed, 'command')} failed")
        if listener.failed or troubles:
            raise Ended(
                partial_code(done=listener.consumed > 0),
                summary=f"{many(listener.consumed, 'message')} consumed, {many(listener.failed, 'command')} failed",
            )
        if untraced:
            raise Ended(untraced, summary="not all traces were written")

    with client_log(verbose=settings.verbose):
        run_until_terminated(main)


async def _retries_of(settings: Settings, group: str) -> int | None:
    """Return the number of retries set for the group on brokers, the highest if they differ; None if they do
    not report it.
    """
    from rmqcli.client import Admin, ClientError, NotFound

    async with Admin(**settings.client_options) as admin:
        try:
            found = await admin.groups.settings(group, failures={})
        except NotFound:
            return None  # a new group gets the default
        except ClientError as error:
            note_to_person(settings, f"the retries of group {group} are not known, so there are 16: {error}")
            return None
    counts = sorted({one.retry_max_times for one in found.values()})
    if len(counts) > 1:
        warn(
            f"brokers have {' and '.join(map(str, counts))} retries for group {group}: {counts[-1]} are made"
        )
    return max(0, counts[-1])


async def _told(
    settings: Settings, listener: Consumption, work: Awaitable[None], group: str, *, once: bool
) -> None:
    """Wait for the end; after Ctrl-C, report what was consumed. `once`: the group has no offsets on brokers."""
    from rmqcli.render.text import many

    try:
        await work
    except BaseException as error:
        if not is_interrupt(error):
            raise
        commands = f", {many(listener.failed, 'command')} failed" if listener.failed else ""
        following = "" if once else f"; group {group} goes on after them"
        line = f"interrupted: {many(listener.consumed, 'message')} consumed{commands}{following}"
        say_done(settings, error, [line])
        raise


def _joined(topic: str, group: str, queues: int, place: str, *, broadcast: bool) -> str:
    from rmqcli.render.text import many

    share = f"all {many(queues, 'queue')}" if broadcast else f"a share of {many(queues, 'queue')}"
    begin = f"at {place[1:]}" if place.startswith("@") else f"at the {place}"
    return f"group {group} consumes {share} of {topic}, from its offsets; without any, {begin}"


def _push_settings(
    place: str,
    balance: str,
    *,
    broadcast: bool,
    jobs: int,
    retries: int | None,
    trace: bool,
    count: int | None,
) -> PushSettings:
    from rmqcli.client import PushSettings
    from rmqcli.client.group import allocation as allocate
    from rmqcli.codec.bodies.heartbeat import ConsumeFromWhere, MessageModel
    from rmqcli.grammar.times import parse_time

    where = {
        "start": ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        "end": ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    }.get(place, ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)
    timestamp = None
    if where is ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
        if not place.startswith("@"):
            raise usage_error(f"--from {place}: expected start, end or @T")
        timestamp = parse_time(place[1:], now_ms())
    strategies = {
        "averagely": allocate.averagely,
        "circle": allocate.averagely_by_circle,
        "hash": allocate.consistent_hash,
    }
    if balance not in strategies:
        raise usage_error(f"--balance {balance}: expected averagely, circle or hash")
    return PushSettings(
        message_model=MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING,
        consume_from=where,
        from_timestamp=timestamp,
        allocate=strategies[balance],
        consumers=jobs,
        max_reconsume_times=-1 if retries is None else retries,
        grace=0.0,
        # No more than are printed or passed on, because the others would be lent to nobody else meanwhile.
        pop_messages=min(count or MOST_LENT, MOST_LENT),
        trace=trace,
        trace_waits=True,
    )
