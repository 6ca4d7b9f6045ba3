"""`rmq group create`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.existing import Existing
from rmqcli.commands.common.outcome import Failures, confirm, show_change
from rmqcli.commands.group.app import GroupArgument, app
from rmqcli.commands.group.options import GroupSettings, note_of_retries
from rmqcli.render.output import note

if TYPE_CHECKING:
    from codec.bodies.config import SubscriptionGroupConfig
    from rmqcli.client import Admin, TopicChange


@command(
    app,
    "create",
    example="rmq group create billing\nrmq group create audit --retries 3 --no-broadcast",
    panels={
        "Reading from replicas": "--read-from --slow-read-from",
        "Consumption": "--consume --broadcast --from-min --notify",
        "Proxies of 5.x": "--orderly --retry-policy",
    },
)
def create(
    group: GroupArgument, settings: Settings, changed: GroupSettings, masters: Masters, existing: Existing
) -> None:
    """Create a consumer group.

    The group is created on all masters; by default with 16 retries, 1 retry queue and everything allowed.
    Brokers with autoCreateSubscriptionGroup (the default) create a group for its first consumer; others
    require it to exist. A group that exists is refused (exit code 1): --if-missing leaves it as it is,
    --replace overwrites its settings.
    """
    from codec.bodies.config import SubscriptionGroupConfig
    from codec.names import is_system_group

    if is_system_group(group):
        raise CommandError(f"group {group} is a system group")
    config = SubscriptionGroupConfig(group_name=group, **changed.named)
    existing.check()
    if existing.replace:
        confirm(settings, f"replace group {group}?", yes=True)
    change, held = with_admin(settings, lambda admin: _create(admin, config, masters, existing))
    if not change.brokers and not change.failures:
        note(f"group {group} exists already on {', '.join(held)}")
    left = held if existing.if_missing else []
    if change.brokers and not settings.json:
        note_of_retries(changed)
    show_change(settings, f"group {group} created on", change, existing=left)


async def _create(
    admin: Admin, config: SubscriptionGroupConfig, masters: Masters, existing: Existing
) -> tuple[TopicChange, list[str]]:
    """Return the change, and the brokers that had the group before."""
    from codec.message import check_group
    from rmqcli.client import TopicChange
    from rmqcli.client.errors import valid

    group = config.group_name
    valid(check_group, group)
    if existing.replace:
        return await admin.groups.create(config, **masters.named), []
    failures: Failures = {}
    held = await admin.groups.holders(group, failures=failures, **masters.named)
    all_masters = await admin.brokers.masters(**masters.named)
    chosen = existing.targets(f"group {group}", "rmq group update", all_masters, held)
    asked = [name for name in chosen if name not in failures]
    if not asked:
        return TopicChange((), failures), held
    change = await admin.groups.create(config, brokers=asked)
    return TopicChange(change.brokers, {**failures, **change.failures}), held
