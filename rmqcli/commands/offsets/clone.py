"""`rmq offsets clone`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import TopicArgument, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.offsets.app import CreateGroupOption, DryRunOption, WaitOption, app, check_group_name

FromArgument = Annotated[str, Argument(metavar="FROM", help="Group to copy the offsets from.")]
ToArgument = Annotated[str, Argument(metavar="TO", help="Group to copy the offsets to.")]


@command(
    app,
    "clone",
    example="""rmq offsets clone billing billing-v2 orders --dry-run
rmq offsets clone billing billing-v2 orders --yes""",
    rows=Rows.DOCUMENT,
    panels={"Running clients": "--wait"},
)
def clone(
    settings: Settings,
    source: FromArgument,
    target: ToArgument,
    topic: TopicArgument,
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
    """
    from rmqcli.client import ResetTarget
    from rmqcli.commands.offsets.steps import Reset, Way

    if source == target:
        raise usage_error(f"FROM and TO are both {source}: specify two groups")
    check_group_name(target)
    positions = with_admin(settings, lambda admin: admin.offsets.positions(source, topic))
    job = Reset(settings, target, topic, ResetTarget("exact", exact=positions), queue_id=None)
    question = f"copy the offsets of group {source} on topic {topic} to group {target}?"
    job.run(Way(wait, dry_run, yes, create_group), question)
