"""`rmq offsets reset` and `rmq offsets clone`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import TopicArgument, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.cli.target_options import ToCluster
from rmqcli.commands.common.admin import warn_of_clocks, with_admin
from rmqcli.commands.offsets.app import CreateGroupOption, DryRunOption, WaitOption, app, check_group_name
from rmqcli.render.text import listed

if TYPE_CHECKING:
    from rmqcli.client import ResetTarget

SomeGroupArgument = Annotated[
    str | None, Argument(metavar="GROUP", help="Name of the consumer group.", show_default=False)
]
SomeTopicArgument = Annotated[
    str | None, Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)
]
ToOption = Annotated[
    str | None,
    Option(
        "--to",
        metavar="TARGET",
        help="Target: start, end, an offset N, +N or -N relative to the committed offset, or a time @T.",
    ),
]
QueueOption = Annotated[
    int | None, Option("--queue", "-q", metavar="ID", min=0, help="Limit to the queue ID on every broker.")
]
UndoOption = Annotated[
    Path | None, Option("--undo", metavar="FILE", help="Restore the offsets recorded in FILE by a reset.")
]


@command(
    app,
    "reset",
    example="""rmq offsets reset billing orders --to start --dry-run
rmq offsets reset billing orders --to @-1h
rmq offsets reset billing orders --to -100 -q 0 --yes
rmq offsets reset --undo FILE""",
    rows=Rows.DOCUMENT,
    panels={"Running clients": "--wait"},
)
def reset(
    settings: Settings,
    group: SomeGroupArgument = None,
    topic: SomeTopicArgument = None,
    to: ToOption = None,
    queue: QueueOption = None,
    undo: UndoOption = None,
    wait: WaitOption = 30.0,
    create_group: CreateGroupOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Reset the offsets of a group on a topic.

    Shows the old and new offset of each queue and how many messages will be consumed again or skipped, then
    asks for confirmation; without a terminal, --yes is required. Running consumers are moved by the broker,
    which takes some seconds (10 s in Java); the offsets of a group without consumers are set directly. Queues
    that have not moved after --wait seconds are reported, and the exit code is 3 (1 if none has moved).
    Prints the command that restores the old offsets from a file; --undo refuses the file of another cluster.
    Queues that had no offset keep the new one.
    """
    from rmqcli.commands.offsets.steps import Reset, Way
    from rmqcli.commands.offsets.undo import load_undo

    if undo is not None:
        wanted, home = load_undo(_only_undo(undo, group, topic, to), settings)
    else:
        wanted, home = _wanted(group, topic, to), None
        warn_of_clocks(settings, to)
    name, of, target = wanted
    place = target if undo is None else "its former offsets"
    job = Reset(settings, *wanted, queue_id=queue)
    job.run(Way(wait, dry_run, yes, create_group), f"reset group {name} on topic {of} to {place}?", home)


def _only_undo(undo: Path, group: str | None, topic: str | None, to: str | None) -> Path:
    if group or topic or to:
        raise usage_error("--undo cannot be combined with GROUP, TOPIC or --to: the file contains them")
    return undo


def _wanted(group: str | None, topic: str | None, to: str | None) -> tuple[str, str, ResetTarget]:
    from rmqcli.client import ResetTarget
    from rmqcli.grammar.offset_range import parse_target

    if not group or not topic or not to:
        missing = [name for name, value in (("GROUP", group), ("TOPIC", topic), ("--to", to)) if not value]
        raise usage_error(f"specify {listed(missing)}, or --undo FILE")
    check_group_name(group)
    return group, topic, ResetTarget(*parse_target(to, now_ms()))


ByTimeOption = Annotated[
    bool,
    Option("--by-time", help="Translate the offsets for another topic or cluster with the same messages."),
]
MarginOption = Annotated[
    float,
    Option("--margin", metavar="SECONDS", min=0, help="Begin earlier by this time where store times decide."),
]
ToTopicOption = Annotated[
    str | None,
    Option("--to-topic", metavar="TOPIC", help="Topic to translate to, by default of the same name."),
]
FromArgument = Annotated[str, Argument(metavar="FROM", help="Group to copy the offsets from.")]
ToArgument = Annotated[str, Argument(metavar="TO", help="Group to copy the offsets to.")]


@command(
    app,
    "clone",
    example="""rmq offsets clone billing billing-v2 orders --dry-run
rmq offsets clone billing billing-v2 orders --yes
rmq offsets clone billing billing orders --by-time --to-profile dr""",
    rows=Rows.DOCUMENT,
    panels={
        "Running clients": "--wait",
        "Another topic": "--by-time --margin --to-topic --to-namesrv --to-profile",
    },
)
def clone(
    settings: Settings,
    source: FromArgument,
    target: ToArgument,
    topic: TopicArgument,
    by_time: ByTimeOption = False,
    margin: MarginOption = 60.0,
    to_topic: ToTopicOption = None,
    *,
    cluster: ToCluster,
    wait: WaitOption = 30.0,
    create_group: CreateGroupOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Copy the offsets of a group on a topic to another group.

    Shows the old and new offset of each queue and asks for confirmation, as `rmq offsets reset` does; without
    a terminal, --yes is required. If the source group is running, the current offsets of its clients count,
    not the committed ones. Running clients of the target group must be stopped first, unless all brokers can
    reset single queues (5.x, `rmq up`). Prints the path of a file that restores the old offsets with `rmq
    offsets reset --undo`.

    --by-time gives the offsets of another topic, so that a group moves with it and skips no message: that of
    the copy where `rmq copy` has copied queue to queue, elsewhere the first message stored since the group
    stopped, less --margin. The plan shows which. The group must not run at the target.
    """
    from rmqcli.client import ResetTarget
    from rmqcli.commands.offsets.steps import Move, Reset, Way

    if by_time:
        check_group_name(target)
        moved = Move(settings, cluster.settings(settings), source, topic, to_topic or topic)
        moved.run(target, round(margin * 1000), Way(wait, dry_run, yes, create_group))
        return
    if cluster.is_given or to_topic is not None:
        raise usage_error("offsets mean nothing in another topic or cluster: translate them with --by-time")
    if source == target:
        raise usage_error(f"FROM and TO are both {source}: specify two groups")
    check_group_name(target)
    positions = with_admin(settings, lambda admin: admin.offsets.positions(source, topic))
    job = Reset(settings, target, topic, ResetTarget("exact", exact=positions), queue_id=None)
    question = f"copy the offsets of group {source} on topic {topic} to group {target}?"
    job.run(Way(wait, dry_run, yes, create_group), question)
