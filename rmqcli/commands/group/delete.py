"""`rmq group delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.options import BrokersOption, ClusterOption, YesOption
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.group.app import GroupArgument, app
from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    pass


AllOption = Annotated[
    bool, typer.Option("--all", "-a", help="Also its offsets, its retry topic and its dead letters.")
]


@command(app, "delete", example="rmq group delete billing\nrmq group delete billing --all --yes")
def delete(
    group: GroupArgument,
    settings: Settings,
    everything: AllOption = False,
    yes: YesOption = False,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Delete the settings of a group; with --all whatever there is of it.

    Asks first; without a terminal it needs --yes. Offsets stay without --all: a group of this name goes on there. Running
    clients are told of: most brokers make the group anew for them. A broker that does not answer is named with the topics
    it keeps, and the exit code is 3.
    """
    from codec.names import is_system_group
    from rmqcli.commands.common.changes import confirm, show_change

    if is_system_group(group):
        raise CommandError(f"group {group} belongs to the system and cannot be deleted")
    if everything and broker:
        raise usage_error("--all excludes --broker: a topic is deleted on all brokers")

    async def look() -> int:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return len((await admin.groups.describe(group, failures={})).connections)

    kept: dict[str, list[str]] = {}

    async def main() -> Any:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            change = await admin.groups.delete(
                group, remove_offset=everything, brokers=broker or (), cluster=cluster
            )
            if everything:
                topics = await admin.groups.delete_topics(group, cluster=cluster, failures=change.failures)
                for topic, deleted in topics.items():
                    for name in deleted.failures:
                        kept.setdefault(name, []).append(topic)
            return change

    clients = run_async(look)
    if clients:
        warn(f"group {group} has {many(clients, 'running client')}: brokers may make it anew for them")
    what = "its offsets and its dead letters" if everything else "its settings"
    confirm(f"delete group {group}, {what}?", yes=yes)
    show_change(settings, f"group {group} deleted from", run_async(main), kept if everything else None)
