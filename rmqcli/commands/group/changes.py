"""`rmq group settings|create|update|delete`: the settings of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.option_groups import OptionGroup
from rmqcli.cli.options import Settings, YesOption, command
from rmqcli.cli.running import run_async, warn
from rmqcli.commands.common.group_options import GroupArgument, app
from rmqcli.commands.topic import BrokersOption, ClusterOption
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import ClientError

_MOST = 2**31 - 1  # an int in Java

RetriesOption = Annotated[
    int | None,
    typer.Option(
        "--retries",
        metavar="N",
        min=0,
        max=_MOST,
        help="Times that a message comes again before it is a dead letter.",
    ),
]
RetryQueuesOption = Annotated[
    int | None,
    typer.Option("--retry-queues", metavar="N", min=0, max=65535, help="Queues of its retry topic."),
]
ConsumeOption = Annotated[
    bool | None,
    typer.Option("--consume/--no-consume", help="Whether its clients get messages.", show_default=False),
]
BroadcastOption = Annotated[
    bool | None,
    typer.Option("--broadcast/--no-broadcast", help="Whether it may broadcast.", show_default=False),
]
FromMinOption = Annotated[
    bool | None,
    typer.Option(
        "--from-min/--no-from-min",
        help="Whether it may begin at the start of a queue.",
        show_default=False,
    ),
]
NotifyOption = Annotated[
    bool | None,
    typer.Option(
        "--notify/--no-notify",
        help="Whether its clients are told at once when one comes or goes.",
        show_default=False,
    ),
]
ReadFromOption = Annotated[
    int | None,
    typer.Option(
        "--read-from",
        metavar="ID",
        min=0,
        max=_MOST,
        help="The broker id to read from, where brokers have slaveReadEnable: 0 is the master.",
    ),
]
SlowReadFromOption = Annotated[
    int | None,
    typer.Option(
        "--slow-read-from",
        metavar="ID",
        min=0,
        max=_MOST,
        help="The same for when it lags far behind.",
    ),
]
AllOption = Annotated[
    bool, typer.Option("--all", "-a", help="Also its offsets, its retry topic and its dead letters.")
]


@dataclass(frozen=True, slots=True)
class GroupSettings(OptionGroup):
    """The settings of a group; None is not given."""

    retries: RetriesOption = None
    retry_queues: RetryQueuesOption = None
    consume: ConsumeOption = None
    broadcast: BroadcastOption = None
    from_min: FromMinOption = None
    notify: NotifyOption = None
    read_from: ReadFromOption = None
    slow_read_from: SlowReadFromOption = None

    @property
    def named(self) -> dict[str, Any]:
        """Those that were given, by the fields of SubscriptionGroupConfig."""
        given = {name: getattr(self, option) for option, name in _FIELDS.items()}
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
}


@command(app, "settings", example="rmq group settings billing\nrmq group settings billing --json")
def show(group: GroupArgument, settings: Settings) -> None:
    """Show the settings of a group on each broker that has it.

    A pipe gets lines: broker, whether it consumes, retries, retry queues, whether it may broadcast and begin at the start,
    whether its clients are notified, the broker ids to read from and to read from when it lags. A broker that does not answer
    is named, and the exit code is 3.
    """
    from rmqcli.commands.common.missing import end_partly
    from rmqcli.render import Column, show_rows

    columns = [
        Column("BROKER", "brokerName"),
        Column("CONSUME", "consumeEnable"),
        Column("RETRIES", "retryMaxTimes", number=True),
        Column("QUEUES", "retryQueueNums", number=True),
        Column("BROADCAST", "consumeBroadcastEnable"),
        Column("FROM MIN", "consumeFromMinEnable"),
        Column("NOTIFY", "notifyConsumerIdsChangedEnable"),
        Column("READ", "brokerId", number=True),
        Column("SLOW", "whichBrokerWhenConsumeSlowly", number=True),
    ]

    failures: dict[str, ClientError] = {}

    async def main() -> list[list[Any]]:
        import msgspec

        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            configs = await admin.groups.settings(group, failures=failures)
        return [
            [name, *(msgspec.to_builtins(config)[column.key] for column in columns[1:])]
            for name, config in sorted(configs.items())
        ]

    show_rows(settings, columns, run_async(main))
    end_partly(failures)


@command(app, "create", example="rmq group create billing\nrmq group create audit --retries 3 --no-broadcast")
def create(
    group: GroupArgument,
    settings: Settings,
    changed: GroupSettings,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Create a consumer group on all masters: 16 retries, 1 retry queue, everything allowed unless told otherwise.

    Brokers with autoCreateSubscriptionGroup (the default) make a group for its first consumer; others want it made before.
    A group that is there already gets these settings; `rmq group update` changes only what is named.
    """
    from codec.names import is_system_group
    from rmqcli.commands.common.changes import show_change

    if is_system_group(group):
        raise CommandError(f"group {group} belongs to the system")

    async def main() -> Any:
        from codec.bodies.config import SubscriptionGroupConfig
        from rmqcli.client import Admin

        wanted: Any = {"group_name": group} | changed.named
        async with Admin(**settings.client_options) as admin:
            return await admin.groups.create(
                SubscriptionGroupConfig(**wanted), brokers=broker or (), cluster=cluster
            )

    show_change(settings, f"group {group} created on", run_async(main))


@command(app, "update", example="rmq group update billing --no-consume\nrmq group update billing --retries 3")
def update(
    group: GroupArgument,
    settings: Settings,
    changed: GroupSettings,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Change settings of a group on the brokers that have it; what is not named stays.

    With --no-consume its clients are refused messages until --consume lets them go on.
    """
    from rmqcli.commands.common.changes import show_change

    if not changed.named:
        raise usage_error("nothing to change: give --retries, --no-consume or another setting")

    async def main() -> Any:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.groups.update(group, changed.named, brokers=broker or (), cluster=cluster)

    show_change(settings, f"group {group} changed on", run_async(main))


@command(app, "delete", example="rmq group delete billing\nrmq group delete billing --all --yes")
def delete(
    group: GroupArgument,
    settings: Settings,
    everything: AllOption = False,
    yes: YesOption = False,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Delete the settings of a group; with --all whatever there is of it.

    Asks first; without a terminal it needs --yes. Offsets stay without --all: a group of this name goes on there. Running
    clients are told of: most brokers make the group anew for them. A broker that does not answer is named with the topics
    it keeps, and the exit code is 3.
    """
    from codec.names import is_system_group
    from rmqcli.commands.common.changes import confirm, show_change

    if is_system_group(group):
        raise CommandError(f"group {group} belongs to the system and cannot be deleted")
    if everything and broker:
        raise usage_error("--all excludes --broker: a topic is deleted on all brokers")

    async def look() -> int:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return len((await admin.groups.describe(group, failures={})).connections)

    kept: dict[str, list[str]] = {}

    async def main() -> Any:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            change = await admin.groups.delete(
                group, remove_offset=everything, brokers=broker or (), cluster=cluster
            )
            if everything:
                topics = await admin.groups.delete_topics(group, cluster=cluster, failures=change.failures)
                for topic, deleted in topics.items():
                    for name in deleted.failures:
                        kept.setdefault(name, []).append(topic)
            return change

    clients = run_async(look)
    if clients:
        warn(f"group {group} has {many(clients, 'running client')}: brokers may make it anew for them")
    what = "its offsets and its dead letters" if everything else "its settings"
    confirm(f"delete group {group}, {what}?", yes=yes)
    show_change(settings, f"group {group} deleted from", run_async(main), kept if everything else None)
