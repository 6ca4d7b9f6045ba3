"""`rmq group update`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import confirm, show_change
from rmqcli.commands.group.app import GroupArgument, app
from rmqcli.commands.group.options import GroupSettings, note_of_retries


@command(
    app,
    "update",
    example="rmq group update billing --no-consume\nrmq group update billing --retries 3",
    panels={
        "Reading from replicas": "--read-from --slow-read-from",
        "Consumption": "--consume --broadcast --from-min --notify",
        "Proxies of 5.x": "--orderly --retry-policy",
    },
)
def update(group: GroupArgument, settings: Settings, changed: GroupSettings, masters: Masters) -> None:
    """Update the settings of a group.

    Changes the given settings on the brokers that have the group; other settings are kept. With --no-consume,
    its clients get no messages until --consume is set again.
    """
    if not changed.named:
        raise usage_error("nothing to update: specify --retries, --no-consume or another setting")
    confirm(settings, f"update group {group}?", yes=True)
    change = with_admin(settings, lambda admin: admin.groups.update(group, changed.named, **masters.named))
    if change.brokers and not settings.json:
        note_of_retries(changed)
    show_change(settings, f"group {group} updated on", change)
