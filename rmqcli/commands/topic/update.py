"""`rmq topic update`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from codec.codes import Perm
from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import Masters, TopicArgument, YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import confirm, show_change
from rmqcli.commands.topic.app import NewPermOption, QueueCounts, app, confirm_hidden, perm_number
from rmqcli.commands.topic.attributes import RemoveOption, SetOption, attribute_changes

if TYPE_CHECKING:
    from codec.message_queue import MessageQueue
    from rmqcli.client import Admin


@command(
    app,
    "update",
    example="rmq topic update orders --queues 16\nrmq topic update orders --perm r",
    panels={"Queues": "--read-queues --write-queues", "Attributes": "--attribute --remove-attribute"},
)
def update(
    topic: TopicArgument,
    settings: Settings,
    *,
    queues: QueueCounts,
    perm: NewPermOption = None,
    attribute: SetOption = None,
    remove_attribute: RemoveOption = None,
    masters: Masters,
    yes: YesOption = False,
) -> None:
    """Update the queues, the permission or the attributes of a topic. Other settings are kept.

    Consumers read only the read queues: if fewer of them, or a permission without r, hide stored messages,
    these are counted and the command asks for confirmation; without a terminal, --yes is required. Fewer
    write queues hide nothing.
    """
    asked = False
    wanted: dict[str, Any] = {
        "perm": None if perm is None else perm_number(perm),
        "attributes": attribute_changes(attribute, remove_attribute),
        **queues.named(),
    }
    if not any(value is not None for value in wanted.values()):
        raise usage_error("nothing to update: specify --queues, --perm, --attribute or another setting")
    left = 0 if _unreadable(wanted["perm"]) else wanted["read_queues"]
    if left is not None:
        hidden = with_admin(settings, lambda admin: _hidden(admin, topic, left, masters))
        confirm_hidden(settings, topic, hidden, yes=yes, unreadable=_unreadable(wanted["perm"]))
        asked = bool(hidden)
    if not asked:
        confirm(settings, f"update topic {topic}?", yes=True)
    change = with_admin(settings, lambda admin: admin.topics.update(topic, **wanted, **masters.named))
    show_change(settings, f"topic {topic} updated on", change)


def _unreadable(perm: int | None) -> bool:
    return perm is not None and not perm & Perm.READ


async def _hidden(admin: Admin, topic: str, read_queues: int, masters: Masters) -> dict[MessageQueue, int]:
    """Return the messages in queues from `read_queues` on that consumers can read now."""
    chosen = await admin.brokers.masters(**masters.named)
    old = await admin.topics.settings(topic, failures={})
    readable = [name for name in chosen if name in old and old[name].perm & Perm.READ]
    return await admin.topics.hidden(topic, read_queues, brokers=readable) if readable else {}
