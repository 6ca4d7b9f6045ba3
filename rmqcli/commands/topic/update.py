"""`rmq topic update`."""

from __future__ import annotations

from typing import Any

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Masters, TopicArgument
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import show_change
from rmqcli.commands.topic.app import NewPermOption, QueueCounts, app, perm_number


@command(app, "update", example="rmq topic update orders --queues 16\nrmq topic update orders --perm r")
def update(
    topic: TopicArgument,
    settings: Settings,
    *,
    queues: QueueCounts,
    perm: NewPermOption = None,
    masters: Masters,
) -> None:
    """Update the queues or the permission of a topic. Other settings are kept."""
    wanted: dict[str, Any] = {"perm": None if perm is None else perm_number(perm)} | queues.named()
    if not any(value is not None for value in wanted.values()):
        raise usage_error("nothing to update: specify --queues, --read-queues, --write-queues or --perm")
    change = with_admin(settings, lambda admin: admin.topics.update(topic, **wanted, **masters.named))
    show_change(settings, f"topic {topic} updated on", change)
