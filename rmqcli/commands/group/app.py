"""The group `rmq group`; options and lookups that its commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command_group
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.commands.common.outcome import Failures

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.codec.bodies.running import ConsumerConnection

app = command_group("group", "Show and change consumer groups: lag, clients, settings.")

GroupArgument = Annotated[str, Argument(metavar="GROUP", help="Name of the consumer group.")]
TopicOption = Annotated[str | None, Option("--topic", "-T", metavar="TOPIC", help="Limit to this topic.")]


def short_kind(text: str | None) -> str:
    """Return push, pull, clustering or broadcasting for Java's name."""
    return {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull"}.get(text or "", (text or "").lower())


async def online_clients(admin: Admin, group: str, failures: Failures | None = None) -> ConsumerConnection:
    """Return the clients and subscriptions of a group; raise CommandError(NOT_FOUND) without clients."""
    from rmqcli.client import ConsumerOffline

    try:
        return await admin.clients.consumers(group, failures=failures)
    except ConsumerOffline:
        await admin.groups.describe(group)  # raises GroupNotFound for an unknown group
        raise CommandError(f"no client of group {group} is running", ExitCode.NOT_FOUND) from None


def chosen_clients(connection: ConsumerConnection, group: str, client_id: str | None) -> list[str]:
    """Return all client IDs, or only `client_id`; raise CommandError(NOT_FOUND) if it is not running."""
    ids = [client.client_id for client in connection.connection_set]
    if client_id is None:
        return ids
    if client_id not in ids:
        raise CommandError(
            f"no client {client_id} of group {group} is running; running clients: {', '.join(ids)}",
            ExitCode.NOT_FOUND,
        )
    return [client_id]
