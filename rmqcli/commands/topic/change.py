"""`rmq topic create`, `update`, `delete` and `apply`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.options import ClusterOption, Masters, TopicArgument, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.codec.codes import Perm
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.applying import FileOption, apply_file
from rmqcli.commands.common.configuration import DryRunOption
from rmqcli.commands.common.outcome import Existing, Failures, confirm, of_existing, show_change
from rmqcli.commands.topic.app import NewPermOption, QueueCounts, app, confirm_hidden, perm_number
from rmqcli.render.output import note, warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.codec.message_queue import MessageQueue
    from rmqcli.plans.topics import Writing


@command(app, "delete", example="rmq topic delete orders --yes")
def delete(
    topic: TopicArgument, settings: Settings, yes: YesOption = False, cluster: ClusterOption = None
) -> None:
    """Delete a topic and its messages from brokers and name servers.

    Names its producers of the last ten minutes and asks for confirmation; without a terminal, --yes is
    required. Brokers of 4.9 keep the offsets of consumer groups, and the groups are reported: if the topic is
    created again, it starts at offset 0, and the groups would skip messages below their old offsets.
    """
    from rmqcli.codec.names import is_system_topic

    if is_system_topic(topic):
        raise CommandError(f"topic {topic} is a system topic and cannot be deleted")
    failures: Failures = {}
    lost, groups, writers = with_admin(settings, lambda admin: _stakes(admin, topic, failures))
    if writers is not None:
        warn(f"topic {topic} is written to, {writers}: the next message fails, or creates the topic again")
    confirm(settings, f"delete topic {topic} and all its messages?", yes=yes, lost=lost, readers=groups)
    change = with_admin(
        settings, lambda admin: admin.topics.delete(topic, cluster=cluster, failures=failures)
    )
    left = groups
    # Asked after the deletion: brokers of 5.3.3 delete the offsets with the topic, those of 4.9 keep them.
    if groups and not failures:
        left = with_admin(settings, lambda admin: _left(admin, topic, groups))
    if left and change.brokers:
        warn(
            f"offsets of {', '.join(left)} are kept; if {topic} is created again: "
            f"rmq offsets reset {left[0] if len(left) == 1 else 'GROUP'} {topic} --to start "
            f"{settings.endpoint_words}"
        )
    show_change(settings, f"topic {topic} deleted from", change)


async def _left(admin: Admin, topic: str, groups: list[str]) -> list[str]:
    """Return the groups that still have offsets; all if a broker does not report them."""
    from rmqcli.client import ClientError

    try:
        return await admin.groups.with_offsets_on(topic)
    except ClientError:
        return groups


async def _stakes(
    admin: Admin, topic: str, failures: Failures
) -> tuple[list[str], list[str], Writing | None]:
    """Return what a deletion loses, the groups with offsets, and the producers, as far as brokers respond."""
    from rmqcli.client import ClientError
    from rmqcli.client.admin.values import stored
    from rmqcli.plans.topics import writing

    await of_existing(admin.topics.route(topic))
    lost: list[str] = []
    groups: list[str] = []
    writers: Writing | None = None
    with suppress(ClientError):
        queues = await admin.topics.stats(topic, failures=failures)
        lost = [f"{many(stored(queues), 'message')} in {many(len(queues), 'queue')}"]
        writers = await writing(admin, queues)
    with suppress(ClientError):
        groups = await admin.topics.groups(topic, failures=failures)
    return lost, groups, writers


@command(
    app,
    "apply",
    example="rmq topic apply --file topics.yaml --dry-run\nrmq topic apply --file topics.json --yes",
    rows=Rows.DOCUMENT,
)
def apply(
    settings: Settings,
    file: FileOption,
    masters: Masters,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Create and change topics as a file lists them.

    The file is a JSON or YAML list of objects with Java's names (topicName, readQueueNums, writeQueueNums,
    perm, order, attributes), as mqadmin's updateTopicList reads it; name, queues and a perm such as rw are
    also accepted. Settings that an entry does not name are kept; nothing is deleted. Shows the plan and asks
    for confirmation; without a terminal, --yes is required. Piped output: topic, broker, create, change or
    same, changes. Exit code 3 if some brokers did not apply the changes.
    """
    from rmqcli.plans.settings import TOPICS

    apply_file(settings, TOPICS, file, masters, dry_run=dry_run, yes=yes)


SetOption = Annotated[
    list[str] | None,
    Option(
        "--attribute",
        metavar="NAME=VALUE",
        help="Set an attribute of 5.x, such as message.type=FIFO; repeatable.",
    ),
]
RemoveOption = Annotated[
    list[str] | None,
    Option("--remove-attribute", metavar="NAME", help="Remove an attribute of 5.x; repeatable."),
]


def attribute_changes(wanted: Sequence[str] | None, unwanted: Sequence[str] | None = None) -> str | None:
    """Return Java's text of the changes, `+name=value,-name`, or None; raise a usage error for other texts."""
    parts = [f"+{_assignment(text)}" for text in wanted or ()] + [
        f"-{_name(text)}" for text in unwanted or ()
    ]
    names = [part[1:].partition("=")[0] for part in parts]
    for name in names:
        if names.count(name) > 1:
            raise usage_error(f"attribute {name} is named twice")
    return ",".join(parts) or None


def _assignment(text: str) -> str:
    name, equals, value = text.partition("=")
    if not (name and equals and value) or "," in text:
        raise usage_error(f"--attribute {text!r}: expected NAME=VALUE, without commas")
    return text


def _name(text: str) -> str:
    if not text or "=" in text or "," in text:
        raise usage_error(f"--remove-attribute {text!r}: expected the name of an attribute")
    return text


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
    stored messages. Groups that kept offsets of a deleted topic of the same name are reported. Brokers older
    than 5.0 create the topic without its attributes, which is reported as an error.
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
        confirm(settings, f"replace topic {topic}?", yes=True)  # asks on a protected cluster only
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
    """Return the change, and the groups that would skip messages of the topic, as far as brokers respond."""
    from rmqcli.client import ClientError, TopicChange

    if not chosen:
        return TopicChange((), {}), []
    change = await admin.topics.create(topic, brokers=chosen, **wanted)
    try:
        return change, await admin.offsets.beyond(topic)
    except ClientError:
        return change, []


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
        confirm(settings, f"update topic {topic}?", yes=True)  # asks on a protected cluster only
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
