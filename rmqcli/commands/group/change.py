"""`rmq group create`, `update`, `delete` and `apply`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.options import Masters, OptionGroup, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.applying import FileOption, apply_file
from rmqcli.commands.common.configuration import DryRunOption
from rmqcli.commands.common.outcome import Existing, Failures, confirm, of_existing, show_change
from rmqcli.commands.group.app import GroupArgument, app
from rmqcli.grammar.values import parse_retry_policy
from rmqcli.render.output import note, warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin, TopicChange
    from rmqcli.codec.bodies.config import SubscriptionGroupConfig

AllOption = Annotated[bool, Option("--all", "-a", help="Delete offsets, retry topic and dead letters too.")]


@command(app, "delete", example="rmq group delete billing\nrmq group delete billing --all --yes")
def delete(
    group: GroupArgument,
    settings: Settings,
    *,
    everything: AllOption = False,
    yes: YesOption = False,
    masters: Masters,
) -> None:
    """Delete a consumer group.

    Asks for confirmation; without a terminal, --yes is required. Deletes the settings of the group; offsets
    are kept unless --all is given, and a new group of the same name continues there. Running clients are
    reported: most brokers create the group again for them. Brokers that do not respond are reported with the
    topics they keep, and the exit code is 3.
    """
    from rmqcli.codec.names import is_system_group

    if is_system_group(group):
        raise CommandError(f"group {group} is a system group and cannot be deleted")
    if everything and masters.broker:
        raise usage_error("--all and --broker cannot be combined: a topic is deleted on all brokers")
    kept: dict[str, list[str]] = {}

    async def main(admin: Admin) -> Any:
        change = await admin.groups.delete(group, remove_offset=everything, **masters.named)
        if everything:
            topics = await admin.groups.delete_topics(
                group, cluster=masters.cluster, failures=change.failures
            )
            for topic, deleted in topics.items():
                for name in deleted.failures:
                    kept.setdefault(name, []).append(topic)
        return change

    found = with_admin(settings, lambda admin: of_existing(admin.groups.describe(group, failures={})))
    clients = found.connections
    if clients:
        warn(
            f"group {group} has {many(len(clients), 'running client')}: brokers may create it again for them"
        )
    what = "its settings, offsets and dead letters" if everything else "its settings"
    readers = [client.client_id for client in clients]
    confirm(settings, f"delete group {group} with {what}?", yes=yes, lost=[what], readers=readers)
    change = with_admin(settings, main)
    show_change(settings, f"group {group} deleted from", change, kept if everything else None)


@command(
    app,
    "apply",
    example="rmq group apply --file groups.yaml --dry-run\nrmq group apply --file groups.json --yes",
    rows=Rows.DOCUMENT,
)
def apply(
    settings: Settings,
    file: FileOption,
    masters: Masters,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Create and change consumer groups as a file lists them.

    The file is a JSON or YAML list of objects with Java's names (groupName, retryMaxTimes, consumeEnable …),
    as mqadmin's updateSubGroupList reads it; name is also accepted. Settings that an entry does not name are
    kept; nothing is deleted. Shows the plan and asks for confirmation; without a terminal, --yes is required.
    Piped output: group, broker, create, change or same, changes. Exit code 3 if some brokers did not apply
    the changes.
    """
    from rmqcli.plans.settings import GROUPS

    apply_file(settings, GROUPS, file, masters, dry_run=dry_run, yes=yes)


_MAX_INT = 2**31 - 1  # an int in Java

RetriesOption = Annotated[
    int | None,
    Option(
        "--retries",
        metavar="N",
        min=0,
        max=_MAX_INT,
        help="Retries of a message before it becomes a dead letter, for clients that do not send a number "
        "themselves; Java's push consumers do.",
    ),
]
RetryQueuesOption = Annotated[
    int | None,
    Option("--retry-queues", metavar="N", min=0, max=65535, help="Number of queues of the retry topic."),
]
ConsumeOption = Annotated[
    bool | None, Option("--consume/--no-consume", help="Allow consumption.", show_default=False)
]
BroadcastOption = Annotated[
    bool | None, Option("--broadcast/--no-broadcast", help="Allow broadcasting.", show_default=False)
]
FromMinOption = Annotated[
    bool | None,
    Option("--from-min/--no-from-min", help="Allow starting at the minimum offset.", show_default=False),
]
NotifyOption = Annotated[
    bool | None,
    Option(
        "--notify/--no-notify",
        help="Notify clients at once when a client joins or leaves.",
        show_default=False,
    ),
]
ReadFromOption = Annotated[
    int | None,
    Option(
        "--read-from",
        metavar="ID",
        min=0,
        max=_MAX_INT,
        help="Broker ID to read from if slaveReadEnable is set; 0 is the master.",
    ),
]
SlowReadFromOption = Annotated[
    int | None,
    Option(
        "--slow-read-from",
        metavar="ID",
        min=0,
        max=_MAX_INT,
        help="Broker ID to read from when the group lags far behind.",
    ),
]


OrderlyOption = Annotated[
    bool | None,
    Option("--orderly/--no-orderly", help="Proxies of 5.x deliver in order.", show_default=False),
]
RetryPolicyOption = Annotated[
    str | None,
    Option(
        "--retry-policy",
        metavar="DELAYS",
        help="Delays of retries in proxies of 5.x: 10s,30s,1m, or 5s..2h for growing ones (5s..2h*3: threefold).",
    ),
]


@dataclass(frozen=True, slots=True)
class GroupSettings(OptionGroup):
    """Settings of a group; None: not given."""

    retries: RetriesOption = None
    retry_queues: RetryQueuesOption = None
    consume: ConsumeOption = None
    broadcast: BroadcastOption = None
    from_min: FromMinOption = None
    notify: NotifyOption = None
    read_from: ReadFromOption = None
    slow_read_from: SlowReadFromOption = None
    orderly: OrderlyOption = None
    retry_policy: RetryPolicyOption = None

    @property
    def named(self) -> dict[str, Any]:
        """The given settings by the fields of SubscriptionGroupConfig."""
        given = {name: getattr(self, option) for option, name in _FIELDS.items()}
        if self.retry_policy is not None:
            given["group_retry_policy"] = parse_retry_policy(self.retry_policy)
        return {name: value for name, value in given.items() if value is not None}


_FIELDS: Mapping[str, str] = {
    "retries": "retry_max_times",
    "retry_queues": "retry_queue_nums",
    "consume": "consume_enable",
    "broadcast": "consume_broadcast_enable",
    "from_min": "consume_from_min_enable",
    "notify": "notify_consumer_ids_changed_enable",
    "read_from": "broker_id",
    "slow_read_from": "which_broker_when_consume_slowly",
    "orderly": "consume_message_orderly",
}


def note_of_retries(changed: GroupSettings) -> None:
    """Note for which clients a changed number of retries has no effect."""
    if changed.retries is not None:
        note(
            "--retries is for rmq consume, 5.x proxies and old clients; push consumers of Java, Python and others "
            "send a number of their own (maxReconsumeTimes, 16)"
        )


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
    from rmqcli.codec.bodies.config import SubscriptionGroupConfig
    from rmqcli.codec.names import is_system_group

    if is_system_group(group):
        raise CommandError(f"group {group} is a system group")
    config = SubscriptionGroupConfig(group_name=group, **changed.named)
    existing.check()
    if existing.replace:
        confirm(settings, f"replace group {group}?", yes=True)  # asks on a protected cluster only
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
    from rmqcli.client import TopicChange
    from rmqcli.client.errors import valid
    from rmqcli.codec.message import check_group

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
    confirm(settings, f"update group {group}?", yes=True)  # asks on a protected cluster only
    change = with_admin(settings, lambda admin: admin.groups.update(group, changed.named, **masters.named))
    if change.brokers and not settings.json:
        note_of_retries(changed)
    show_change(settings, f"group {group} updated on", change)
