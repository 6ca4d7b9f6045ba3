"""`rmq group update`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import BrokersOption, ClusterOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.group.app import GroupArgument, app
from rmqcli.commands.group.options import GroupSettings


@command(app, "update", example="rmq group update billing --no-consume\nrmq group update billing --retries 3")
def update(
    group: GroupArgument,
    settings: Settings,
    changed: GroupSettings,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Update the settings of a group.

    Changes the given settings on the brokers that have the group; other settings are kept. With --no-consume,
    its clients get no messages until --consume is set again.
    """
    from rmqcli.commands.common.changes import show_change

    if not changed.named:
        raise usage_error("nothing to update: specify --retries, --no-consume or another setting")

    change = with_admin(
        settings,
        lambda admin: admin.groups.update(group, changed.named, brokers=broker or (), cluster=cluster),
    )
    show_change(settings, f"group {group} updated on", change)
