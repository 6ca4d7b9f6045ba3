"""`rmq group create`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import show_change
from rmqcli.commands.group.app import GroupArgument, app
from rmqcli.commands.group.options import GroupSettings


@command(app, "create", example="rmq group create billing\nrmq group create audit --retries 3 --no-broadcast")
def create(group: GroupArgument, settings: Settings, changed: GroupSettings, masters: Masters) -> None:
    """Create a consumer group.

    The group is created on all masters; by default with 16 retries, 1 retry queue and everything allowed.
    Brokers with autoCreateSubscriptionGroup (the default) create a group for its first consumer; others
    require it to exist. An existing group gets these settings; `rmq group update` changes only the given
    ones.
    """
    from codec.bodies.config import SubscriptionGroupConfig
    from codec.names import is_system_group

    if is_system_group(group):
        raise CommandError(f"group {group} is a system group")
    config = SubscriptionGroupConfig(group_name=group, **changed.named)
    change = with_admin(settings, lambda admin: admin.groups.create(config, **masters.named))
    show_change(settings, f"group {group} created on", change)
