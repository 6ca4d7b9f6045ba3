"""`rmq topic create`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters, TopicArgument, YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.existing import Existing
from rmqcli.commands.common.outcome import confirm, show_change
from rmqcli.commands.topic.app import QueueCounts, app, confirm_hidden, perm_number
from rmqcli.commands.topic.attributes import SetOption, attribute_changes
from rmqcli.render.output import note, warn

if TYPE_CHECKING:
    from codec.message_queue import MessageQueue
    from rmqcli.client import Admin, TopicChange

PermOption = Annotated[
    str, Option("--perm", metavar="PERM", help="Permission: r, w, rw, or a number (2 w, 4 r, 6 rw).")
]
OrderOption = Annotated[
    bool,
    Option("--order", help="Ordered topic: name servers keep its queue order; brokers follow within 30 s."),
]


@command(
    app,
    "create",
    example="rmq topic create orders\nrmq topic create orders --queues 16 --broker broker-a",
    panels={"Queues and order": "--read-queues --write-queues --order", "Attributes": "--attribute"},
)
def create(
    topic: TopicArgument,
    settings: Settings,
    *,
    queues: QueueCounts,
    perm: PermOption = "rw",
    order: OrderOption = False,
    attribute: SetOption = None,
    masters: Masters,
    existing: Existing,
    yes: YesOption = False,
) -> None:
    """Create a topic.

    The topic is created on all masters, with 8 queues by default. A topic that exists is refused (exit code
    1): --if-missing leaves it as it is, --replace overwrites its settings, and asks first if that hides
    stored messages. Groups that kept offsets of a former topic of this name are reported. Brokers
    that are older than 5.0 create the topic without its attributes, which is reported as an error.
    """
    existing.check()
    wanted: dict[str, Any] = {
        "perm": perm_number(perm),
        "order": order,
        "attributes": attribute_changes(attribute),
        **queues.named(8),
    }

    async def look(admin: Admin) -> tuple[list[str], list[str], dict[MessageQueue, int]]:
        all_masters = await admin.brokers.masters(**masters.named)
        held = [name for name in await admin.topics.holders(topic) if name in all_masters]
        chosen = existing.targets(f"topic {topic}", "rmq topic update", all_masters, held)
        hidden = await admin.topics.hidden(topic, wanted["read_queues"], brokers=held) if held else {}
        return chosen, held, hidden

    chosen, held, hidden = with_admin(settings, look)
    if existing.replace and hidden:
        confirm_hidden(settings, topic, hidden, yes=yes)
    elif existing.replace and held:
        confirm(settings, f"replace topic {topic}?", yes=True)
    change, late = with_admin(settings, lambda admin: _create(admin, topic, chosen, wanted))
    if late:
        warn(
            f"offsets of {', '.join(late)} are beyond the end of the new topic, so its first messages would be "
            f"skipped: rmq offsets reset {late[0] if len(late) == 1 else 'GROUP'} {topic} --to start "
            f"{settings.endpoint_words}"
        )
    if not chosen:
        note(f"topic {topic} exists already on {', '.join(held)}")
    left = held if existing.if_missing else []
    show_change(settings, f"topic {topic} created on", change, existing=left)


async def _create(
    admin: Admin, topic: str, chosen: list[str], wanted: dict[str, Any]
) -> tuple[TopicChange, list[str]]:
    """Return the change, and the groups that would skip messages of the topic as far as brokers answer."""
    from rmqcli.client import ClientError, TopicChange

    if not chosen:
        return TopicChange((), {}), []
    change = await admin.topics.create(topic, brokers=chosen, **wanted)
    try:
        return change, await admin.offsets.beyond(topic)
    except ClientError:
        return change, []
