"""`rmq topic order` and `rmq topic static`: topics whose queues have a layout."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import Masters, TopicArgument, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.applying import with_feature
from rmqcli.commands.common.configuration import DryRunOption
from rmqcli.commands.common.entries import delete_entry, set_entry, show_entries
from rmqcli.commands.common.outcome import confirm
from rmqcli.commands.topic.app import order_group, static_group
from rmqcli.render.output import Output, note, warn
from rmqcli.render.table import BROKER, QUEUE, TOPIC, Column, objects, show_rows

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.plans.static_topics import Mapped, Plan

NAMESPACE = "ORDER_TOPIC_CONFIG"
AnyTopicArgument = Annotated[str | None, Argument(metavar="TOPIC", help="Name of the topic; default: all.")]
LayoutArgument = Annotated[
    str | None,
    Argument(
        metavar="LAYOUT",
        help="Brokers and queues in their order, e.g. 'broker-a:4;broker-b:4'; default: those of the route.",
    ),
]


@command(
    order_group,
    "show",
    example="rmq topic order show\nrmq topic order show orders",
    rows=Rows.LIST,
)
def show_order(settings: Settings, topic: AnyTopicArgument = None) -> None:
    """Show the layout of ordered topics on all name servers, and where they differ.

    Piped output: topic, one layout for each name server in the order of -n, true if they differ. Name servers
    that do not respond are reported, and the exit code is 3. Exit code 4 if TOPIC has no layout.
    """
    empty = "no ordered topics" if topic is None else f"topic {topic} has no layout"
    show_entries(settings, NAMESPACE, topic, TOPIC, empty=empty)


@command(
    order_group,
    "set",
    example="rmq topic order set orders\nrmq topic order set orders 'broker-a:4;broker-b:4'",
    rows=Rows.DOCUMENT,
)
def set_layout(
    topic: TopicArgument,
    settings: Settings,
    layout: LayoutArgument = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Set the layout of an ordered topic on all name servers.

    Producers then send to these queues in this order, whatever brokers are running. Name servers serve the
    layout only with orderMessageEnable=true. Shows the old and new layouts and asks for confirmation; without
    a terminal, --yes is required. Name servers that refuse or do not respond are reported, and the exit code
    is 3. Piped output: name server, topic, old layout, new layout.
    """
    wanted = (
        with_admin(settings, lambda admin: admin.topics.order_layout(topic)) if layout is None else layout
    )
    if layout is not None and not _is_layout(layout):
        raise usage_error(f"LAYOUT {layout!r}: expected BROKER:QUEUES;BROKER:QUEUES")
    configs = with_admin(settings, lambda admin: admin.name_servers.configs(failures={}))
    if any(config.get("orderMessageEnable") == "false" for config in configs.values()):
        warn("orderMessageEnable is false: change it with: rmq namesrv config set orderMessageEnable=true")
    set_entry(settings, NAMESPACE, topic, wanted, TOPIC, dry_run=dry_run, yes=yes)


@command(
    order_group,
    "clear",
    example="rmq topic order clear orders --yes",
    rows=Rows.DOCUMENT,
)
def clear(
    topic: TopicArgument, settings: Settings, dry_run: DryRunOption = False, yes: YesOption = False
) -> None:
    """Remove the layout of a topic from all name servers.

    Asks for confirmation; without a terminal, --yes is required. Exit code 4 if the topic has none. Name
    servers that refuse or do not respond are reported, and the exit code is 3.
    """
    absent = f"topic {topic} has no layout"
    delete_entry(settings, NAMESPACE, topic, absent=absent, dry_run=dry_run, yes=yes)


def _is_layout(text: str) -> bool:
    entries = [entry.rpartition(":") for entry in text.split(";")]
    return all(name and count.isascii() and count.isdigit() and int(count) > 0 for name, _, count in entries)


FEATURE = "static topics"
CountOption = Annotated[
    int | None, Option("--queues", metavar="N", min=1, max=65535, help="Number of queues of the whole topic.")
]
FileOption = Annotated[
    Path | None,
    Option("--file", metavar="FILE", help="Carry out the plan in this file instead of a new one."),
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
    static_group,
    "show",
    example="rmq topic static show orders",
    rows=Rows.LIST,
)
def show_static(topic: TopicArgument, settings: Settings) -> None:
    """Show which broker holds which queue of a static topic (5.x), and where its newest offsets begin.

    The queues of a static topic are numbered for the whole cluster. Piped output: queue, broker, queue ID on
    the broker, first offset on the broker.
    """
    from rmqcli.plans.static_topics import places

    found = _mapped(settings, topic)
    if not found:
        raise CommandError(f"no broker has topic {topic}", ExitCode.NOT_FOUND)
    show_rows(settings, _COLUMNS, _rows(places(found)))


@command(
    static_group,
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
    """Create a static topic (5.x) or add queues to it; new queues go to the brokers with the fewest.

    Shows the new queues and asks for confirmation; without a terminal, --yes is required. The plan is saved
    in a file: --file carries it out again if a broker fails.
    """
    from rmqcli.plans.static_topics import GROWN, Move, grown, plan_of

    if (queues is None) == (file is None):
        raise usage_error("specify --queues or --file")

    def planned(found: Mapped, chosen: list[str], every: list[str]) -> Plan:
        mapped = grown(topic, found, queues or 0, chosen, every, _now())
        return plan_of(topic, GROWN, Move(mapped, (), ()))

    _change(settings, topic, masters, GROWN, planned, file, force=force, dry_run=dry_run, yes=yes)


@command(
    static_group,
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
    """Move the queues of a static topic (5.x) to the named brokers, with as few moves as possible.

    Messages stay where they are; new ones go to the new brokers. Shows the queues that move and asks for
    confirmation; without a terminal, --yes is required. The plan is saved in a file: --file carries it out
    again if a broker fails.
    """
    from rmqcli.plans.static_topics import MOVED, moved, plan_of

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
    """Show the changes, ask for confirmation, save the plan and carry it out."""
    from rmqcli.plans.static_topics import carry_out, load, places, save

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
