"""`rmq topic static show`, `update` and `remap`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import Masters, TopicArgument, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.changing import with_feature
from rmqcli.commands.common.outcome import confirm
from rmqcli.commands.common.properties import DryRunOption
from rmqcli.commands.topic.app import static as group
from rmqcli.render.columns import BROKER, QUEUE
from rmqcli.render.output import Output, note
from rmqcli.render.table import Column, objects, show_rows

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.flows.moving import Plan
    from rmqcli.flows.static_topics import Mapped

FEATURE = "static topics"
CountOption = Annotated[
    int | None, Option("--queues", metavar="N", min=1, max=65535, help="Number of queues of the whole topic.")
]
FileOption = Annotated[
    Path | None, Option("--file", metavar="FILE", help="Carry out the plan in this file, again or instead.")
]
ForceOption = Annotated[
    bool, Option("--force", help="Let brokers accept a mapping that contradicts theirs; may lose offsets.")
]
_COLUMNS = (
    QUEUE,
    BROKER,
    Column("QUEUE THERE", "brokerQueueId", number=True),
    Column("FIRST OFFSET", "firstOffset", number=True),
)


@command(
    group,
    "show",
    example="rmq topic static show orders",
    rows=Rows.LIST,
)
def show(topic: TopicArgument, settings: Settings) -> None:
    """Show which broker holds which queue of a static topic (5.x), and where its newest offsets begin.

    The queues of a static topic are numbered for the whole cluster. Piped output: queue, broker, its queue
    there, first offset there.
    """
    from rmqcli.flows.static_topics import places

    found = _mapped(settings, topic)
    if not found:
        raise CommandError(f"no broker has topic {topic}", ExitCode.NOT_FOUND)
    show_rows(settings, _COLUMNS, _rows(places(found)))


@command(
    group,
    "update",
    example="""rmq topic static update orders --queues 8 --dry-run
rmq topic static update orders --queues 16 -b broker-a -b broker-b --yes""",
    rows=Rows.DOCUMENT,
)
def update(
    topic: TopicArgument,
    settings: Settings,
    masters: Masters,
    queues: CountOption = None,
    file: FileOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Create a static topic (5.x), or give it more queues; they go to the brokers with the fewest.

    Shows the new queues and asks for confirmation; without a terminal, --yes is required. The plan is kept in
    a file: --file carries it out again if a broker failed in between.
    """
    from rmqcli.flows.moving import GROWN, plan_of
    from rmqcli.flows.static_topics import Move, grown

    if (queues is None) == (file is None):
        raise usage_error("specify --queues or --file")

    def planned(found: Mapped, chosen: list[str], every: list[str]) -> Plan:
        mapped = grown(topic, found, queues or 0, chosen, every, _now())
        return plan_of(topic, GROWN, Move(mapped, (), ()))

    _change(settings, topic, masters, GROWN, planned, file, force=force, dry_run=dry_run, yes=yes)


@command(
    group,
    "remap",
    example="rmq topic static remap orders -b broker-b -b broker-c --dry-run",
    rows=Rows.DOCUMENT,
)
def remap(
    topic: TopicArgument,
    settings: Settings,
    masters: Masters,
    file: FileOption = None,
    force: ForceOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Move the queues of a static topic (5.x) to the named brokers, with as few moves as can be.

    Messages stay where they are; new ones go to the new brokers. Shows the queues that move and asks for
    confirmation; without a terminal, --yes is required. The plan is kept in a file: --file carries it out
    again if a broker failed in between.
    """
    from rmqcli.flows.moving import MOVED, plan_of
    from rmqcli.flows.static_topics import moved

    if file is None and not (masters.broker or masters.cluster):
        raise usage_error("specify the brokers with --broker or --cluster, or --file")

    def planned(found: Mapped, chosen: list[str], every: list[str]) -> Plan:
        if not found:
            raise CommandError(f"no broker has topic {topic}", ExitCode.NOT_FOUND)
        return plan_of(topic, MOVED, moved(topic, found, chosen, every, _now()))

    _change(settings, topic, masters, MOVED, planned, file, force=force, dry_run=dry_run, yes=yes)


def _change(
    settings: Settings,
    topic: str,
    masters: Masters,
    kind: str,
    planned: Callable[[Mapped, list[str], list[str]], Plan],
    file: Path | None,
    *,
    force: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show what changes, ask, save the plan and carry it out."""
    from rmqcli.flows.moving import carry_out, load, save
    from rmqcli.flows.static_topics import places

    async def look(admin: Admin) -> tuple[Mapped, list[str], list[str]]:
        chosen = await admin.brokers.masters(**masters.named)
        return await admin.static_topics.mappings(topic), list(chosen), list(await admin.brokers.masters())

    found, chosen, every = with_feature(settings, FEATURE, look)
    plan = load(file, topic, kind) if file else planned(found, chosen, every)
    before = set() if file else set(places(found))
    rows = _rows([one for one in places(plan.broker_config_map) if one not in before])
    if not settings.json or dry_run:
        show_rows(settings, _COLUMNS, rows, empty="no queue would change")
    if dry_run or not rows:
        return
    Output().flush()
    confirm(settings, f"change {len(rows)} queues of static topic {topic}?", yes=yes)
    path = file or save(plan, _folder())
    note(f"the plan is in {path}")
    with_feature(settings, FEATURE, lambda admin: carry_out(admin, plan, force=force))
    if settings.json:
        Output().json({"topic": topic, "queues": objects(_COLUMNS, rows), "plan": str(path)})
    else:
        note(f"changed {len(rows)} queues of {topic} on {', '.join(plan.broker_config_map)}")


def _mapped(settings: Settings, topic: str) -> Mapped:
    return with_feature(settings, FEATURE, lambda admin: admin.static_topics.mappings(topic))


def _rows(found: Any) -> list[list[Any]]:
    return [[one.number, one.broker, one.queue_id, one.first_offset] for one in found]


def _folder() -> Path:
    from rmqcli.commands.offsets.undo import undo_folder

    return undo_folder().with_name("static-topics")


def _now() -> int:
    return int(time.time() * 1000)
