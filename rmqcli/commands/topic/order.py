"""`rmq topic order show`, `set` and `clear`: the layout of ordered topics (Java `updateOrderConf`)."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import TopicArgument, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.entries import delete_entry, set_entry, show_entries
from rmqcli.commands.common.properties import DryRunOption
from rmqcli.commands.topic.app import order as group
from rmqcli.render.columns import TOPIC
from rmqcli.render.output import warn

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
    group,
    "show",
    example="rmq topic order show\nrmq topic order show orders",
    rows=Rows.LIST,
)
def show(settings: Settings, topic: AnyTopicArgument = None) -> None:
    """Show the layout of ordered topics on all name servers, and where they differ.

    Piped output: topic, one layout for each name server in the order of -n, true if they differ. Name servers
    that do not respond are reported, and the exit code is 3. Exit code 4 if TOPIC has no layout.
    """
    empty = "no ordered topics" if topic is None else f"topic {topic} has no layout"
    show_entries(settings, NAMESPACE, topic, TOPIC, empty=empty)


@command(
    group,
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
    group,
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
