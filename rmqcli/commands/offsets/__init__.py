"""`rmq offsets`: where a consumer group is, moving it, and giving another one its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Settings, YesOption, command, command_group
from rmqcli.cli.running import now_ms, run_async
from rmqcli.render.table import Column
from rmqcli.render.text import local_time

if TYPE_CHECKING:
    from rmqcli.client import ClientError, QueueLag, ResetTarget

app = command_group("offsets", "Show, reset and clone the offsets of a consumer group.")

GroupOption = Annotated[str, typer.Option("--group", "-g", metavar="GROUP", help="The consumer group.")]
SomeGroupOption = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="The consumer group.")
]
TopicOption = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="Only this topic.")]
ResetTopicOption = Annotated[str | None, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic.")]
ToOption = Annotated[
    str | None,
    typer.Option(
        "--to", metavar="TARGET", help="start, end, N, +N or -N from where the group is, @T (a time)."
    ),
]
QueueOption = Annotated[
    int | None, typer.Option("--queue", "-q", metavar="ID", min=0, help="Only the queue ID, on every broker.")
]
FromGroupOption = Annotated[
    str, typer.Option("--from", metavar="GROUP", help="The group whose offsets are taken.")
]
ToGroupOption = Annotated[str, typer.Option("--to", metavar="GROUP", help="The group that gets them.")]
CloneTopicOption = Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic.")]
ClientsOption = Annotated[
    bool, typer.Option("--clients", help="With --topic: the offsets that running clients have in mind.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
UndoOption = Annotated[
    Path | None, typer.Option("--undo", metavar="FILE", help="Go back, by the file of a reset.")
]

WaitOption = Annotated[
    float,
    typer.Option("--wait", metavar="SECONDS", min=0, help="Give running clients so long to move."),
]

LAG_COLUMNS = (
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("QUEUE", "queueId", number=True),
    Column("OFFSET", "consumerOffset", number=True),
    Column("MAX", "maxOffset", number=True),
    Column("LAG", "lag", number=True),
    Column("LAST CONSUMED", "lastTimestamp", local_time),
    Column("CLIENT", "clientId"),
)


def lag_row(queue: QueueLag) -> list[Any]:
    """Values for LAG_COLUMNS."""
    place = queue.queue
    offsets = [queue.consumer_offset, queue.max_offset, queue.lag]
    return [place.topic, place.broker_name, place.queue_id, *offsets, queue.last_timestamp, queue.client_id]


def lag_object(queue: QueueLag) -> dict[str, Any]:
    """The JSON object of one queue of a group."""
    keys = [column.key for column in LAG_COLUMNS]
    return dict(zip(keys, lag_row(queue), strict=True)) | {"minOffset": queue.min_offset}


@command(app, "show", example="rmq offsets show -g billing\nrmq offsets show -g billing -t orders --json")
def show(
    group: GroupOption, settings: Settings, topic: TopicOption = None, clients: ClientsOption = False
) -> None:
    """Show the committed offset of each queue of a group.

    A pipe gets lines: topic, broker, queue, consumed offset, maximum offset, lag, time of the last consumed message (epoch
    ms), client. An offset that was never committed is empty. Clients commit every few seconds; --clients asks them where they
    are: client, broker, queue, offset of the client, committed offset. A broker or client that does not answer is named (exit
    code 3; 1 when no client does).
    """
    from rmqcli.commands.common.missing import end_partly
    from rmqcli.render import Output, show_rows

    if clients:
        from rmqcli.commands.offsets.held import show_held

        if topic is None:
            raise usage_error("--clients needs --topic: clients are asked for one topic")
        show_held(settings, group, topic)
        return

    failures: dict[str, ClientError] = {}

    async def main() -> list[QueueLag]:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.offsets.lags(group, topic, failures=failures)

    found = run_async(main)
    if settings.json:
        Output().json([lag_object(queue) for queue in found])
    else:
        show_rows(settings, LAG_COLUMNS, [lag_row(queue) for queue in found])
    end_partly(failures)


@command(
    app,
    "reset",
    example="""rmq offsets reset -g billing -t orders --to start --dry-run
rmq offsets reset -g billing -t orders --to @-1h
rmq offsets reset -g billing -t orders --to -100 -q 0 --yes
rmq offsets reset --undo FILE""",
)
def reset(
    settings: Settings,
    group: SomeGroupOption = None,
    topic: ResetTopicOption = None,
    to: ToOption = None,
    queue: QueueOption = None,
    undo: UndoOption = None,
    wait: WaitOption = 30.0,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Move a consumer group to other offsets of a topic.

    Shows old and new offset of each queue and how many messages will be consumed again or never, then asks; without a
    terminal it needs --yes. Running consumers are moved through the broker, a group without consumers directly. Running
    consumers take their time (Java's 10 s); a queue that was not seen to have moved after --wait seconds is named, and the
    exit code is 3 (1 when none has moved). Writes a file that brings the old offsets back with --undo, and prints its path.
    """
    from rmqcli.commands.common.changes import confirm
    from rmqcli.commands.offsets.reset_steps import Reset, load_undo

    wanted = load_undo(_only_undo(undo, group, topic, to)) if undo is not None else _wanted(group, topic, to)
    job = Reset(settings, *wanted, queue_id=queue)
    plan = run_async(job.plan)
    job.show_plan(plan, dry_run=dry_run)
    if dry_run:
        return
    place = plan.target if undo is None else "where it was"
    confirm(f"move group {plan.group} to {place} of topic {plan.topic}?", yes=yes)
    job.apply(plan, wait)


@command(
    app,
    "clone",
    example="""rmq offsets clone --from billing --to billing-v2 -t orders --dry-run
rmq offsets clone --from billing --to billing-v2 -t orders --yes""",
)
def clone(
    settings: Settings,
    source: FromGroupOption,
    target: ToGroupOption,
    topic: CloneTopicOption,
    wait: WaitOption = 30.0,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Give a group the offsets that another one has on a topic, so that it goes on where that one is.

    Shows old and new offset of each queue and asks, as `rmq offsets reset` does; without a terminal it needs --yes. Where the
    clients of a running source are counts, not what they have committed. Running clients of the group that gets the offsets
    must be stopped first, unless all brokers reset single queues (5.x, `rmq up`). Writes a file that brings the old offsets
    back with `rmq offsets reset --undo`, and prints its path.
    """
    from rmqcli.commands.common.changes import confirm
    from rmqcli.commands.offsets.reset_steps import Reset

    if source == target:
        raise usage_error(f"--from and --to are both {source}: two groups are needed")
    _check_name(target)
    places = run_async(lambda: _places(settings, source, topic))
    job = Reset(settings, target, topic, places, queue_id=None)
    plan = run_async(job.plan)
    job.show_plan(plan, dry_run=dry_run)
    if dry_run:
        return
    confirm(f"give group {target} the offsets of group {source} on topic {topic}?", yes=yes)
    job.apply(plan, wait)


async def _places(settings: Settings, group: str, topic: str) -> ResetTarget:
    from rmqcli.client import Admin, ResetTarget

    async with Admin(**settings.client_options) as admin:
        return ResetTarget("exact", exact=await admin.offsets.positions(group, topic))


def _only_undo(undo: Path, group: str | None, topic: str | None, to: str | None) -> Path:
    if group or topic or to:
        raise usage_error("--undo excludes --group, --topic and --to: the file says it all")
    return undo


def _wanted(group: str | None, topic: str | None, to: str | None) -> tuple[str, str, ResetTarget]:
    from rmqcli.client import ResetTarget
    from rmqcli.grammar.offset_range import parse_target

    if not group or not topic or not to:
        missing = [
            name for name, value in (("--group", group), ("--topic", topic), ("--to", to)) if not value
        ]
        raise usage_error(f"{', '.join(missing)} is missing; or give --undo FILE")
    _check_name(group)
    return group, topic, ResetTarget(*parse_target(to, now_ms()))


def _check_name(group: str) -> None:
    """A broker keeps offsets under any name, also one that no consumer can have."""
    from codec.message import check_group

    try:
        check_group(group)
    except ValueError as error:
        raise usage_error(str(error)) from None
