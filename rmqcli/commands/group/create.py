"""`rmq group create`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import BrokersOption, ClusterOption
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.group.app import GroupArgument, app

if TYPE_CHECKING:
    pass
from rmqcli.commands.group.options import GroupSettings


@command(app, "create", example="rmq group create billing\nrmq group create audit --retries 3 --no-broadcast")
def create(
    group: GroupArgument,
    settings: Settings,
    changed: GroupSettings,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Create a consumer group on all masters: 16 retries, 1 retry queue, everything allowed unless told otherwise.

    Brokers with autoCreateSubscriptionGroup (the default) make a group for its first consumer; others want it made before.
    A group that is there already gets these settings; `rmq group update` changes only what is named.
    """
    from codec.names import is_system_group
    from rmqcli.commands.common.changes import show_change

    if is_system_group(group):
        raise CommandError(f"group {group} belongs to the system")

    async def main() -> Any:
        from codec.bodies.config import SubscriptionGroupConfig
        from rmqcli.client import Admin

        wanted: Any = {"group_name": group} | changed.named
        async with Admin(**settings.client_options) as admin:
            return await admin.groups.create(
                SubscriptionGroupConfig(**wanted), brokers=broker or (), cluster=cluster
            )

    show_change(settings, f"group {group} created on", run_async(main))
