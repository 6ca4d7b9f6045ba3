"""`rmq topic update`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Masters, TopicArgument, YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import show_change
from rmqcli.commands.topic.app import NewPermOption, QueueCounts, app, confirm_hidden, perm_number

if TYPE_CHECKING:
    from codec.message_queue import MessageQueue
    from rmqcli.client import Admin


@command(app, "update", example="rmq topic update orders --queues 16\nrmq topic update orders --perm r")
def update(
    topic: TopicArgument,
    settings: Settings,
    *,
    queues: QueueCounts,
    perm: NewPermOption = None,
    masters: Masters,
    yes: YesOption = False,
) -> None:
    """Update the queues or the permission of a topic. Other settings are kept.

    Consumers read only the read queues: if fewer of them hide stored messages, these are counted and the
    command asks for confirmation; without a terminal, --yes is required. Fewer write queues hide nothing.
    """
    wanted: dict[str, Any] = {"perm": None if perm is None else perm_number(perm)} | queues.named()
    if not any(value is not None for value in wanted.values()):
        raise usage_error("nothing to update: specify --queues, --read-queues, --write-queues or --perm")
    fewer = wanted["read_queues"]
    if fewer is not None:
        hidden = with_admin(settings, lambda admin: _hidden(admin, topic, fewer, masters))
        confirm_hidden(settings, topic, hidden, yes=yes)
    change = with_admin(settings, lambda admin: admin.topics.update(topic, **wanted, **masters.named))
    show_change(settings, f"topic {topic} updated on", change)


async def _hidden(admin: Admin, topic: str, read_queues: int, masters: Masters) -> dict[MessageQueue, int]:
    chosen = await admin.brokers.masters(**masters.named)
    return await admin.topics.hidden(topic, read_queues, brokers=chosen)
