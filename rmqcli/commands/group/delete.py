"""`rmq group delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.options import Masters, YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import confirm, of_existing, show_change
from rmqcli.commands.group.app import GroupArgument, app
from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin

AllOption = Annotated[bool, Option("--all", "-a", help="Delete offsets, retry topic and dead letters too.")]


@command(app, "delete", example="rmq group delete billing\nrmq group delete billing --all --yes")
def delete(
    group: GroupArgument,
    settings: Settings,
    *,
    everything: AllOption = False,
    yes: YesOption = False,
    masters: Masters,
) -> None:
    """Delete a consumer group.

    Asks for confirmation; without a terminal, --yes is required. Deletes the settings of the group; offsets
    are kept unless --all is given, and a new group of this name continues there. Running clients are
    reported: most brokers create the group again for them. Brokers that do not respond are reported with the
    topics they keep, and the exit code is 3.
    """
    from codec.names import is_system_group

    if is_system_group(group):
        raise CommandError(f"group {group} is a system group and cannot be deleted")
    if everything and masters.broker:
        raise usage_error("--all and --broker cannot be combined: a topic is deleted on all brokers")
    kept: dict[str, list[str]] = {}

    async def main(admin: Admin) -> Any:
        change = await admin.groups.delete(group, remove_offset=everything, **masters.named)
        if everything:
            topics = await admin.groups.delete_topics(
                group, cluster=masters.cluster, failures=change.failures
            )
            for topic, deleted in topics.items():
                for name in deleted.failures:
                    kept.setdefault(name, []).append(topic)
        return change

    found = with_admin(settings, lambda admin: of_existing(admin.groups.describe(group, failures={})))
    clients = found.connections
    if clients:
        warn(
            f"group {group} has {many(len(clients), 'running client')}: brokers may create it again for them"
        )
    what = "its settings, offsets and dead letters" if everything else "its settings"
    readers = [client.client_id for client in clients]
    confirm(settings, f"delete group {group} with {what}?", yes=yes, lost=[what], readers=readers)
    change = with_admin(settings, main)
    show_change(settings, f"group {group} deleted from", change, kept if everything else None)
