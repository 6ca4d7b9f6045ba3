"""`rmq topic`: list, describe, route, stats, create, update, delete."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.exit_codes import CommandError, usage_error
from rmqcli.cli.options import Settings, TopicArgument, YesOption, command, command_group
from rmqcli.cli.running import run_async, warn

if TYPE_CHECKING:
    from codec.bodies.route import ClusterInfo
    from codec.message_queue import MessageQueue
    from rmqcli.client import ClientError

app = command_group("topic", "List, describe, create, change and delete topics.")

AllOption = Annotated[
    bool,
    typer.Option(
        "--all", "-a", help="Also the topics of the system, of retries (%RETRY%) and dead letters (%DLQ%)."
    ),
]
BrokersOption = Annotated[
    list[str] | None, typer.Option("--broker", "-b", metavar="NAME", help="Only on this broker; repeatable.")
]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Only on the masters of this cluster.")
]
PermOption = Annotated[
    str,
    typer.Option("--perm", metavar="PERM", help="r, w, rw, or the number of Java's tools (2 w, 4 r, 6 rw)."),
]
NewPermOption = Annotated[
    str | None, typer.Option("--perm", metavar="PERM", help="r, w, rw, or a number (2 w, 4 r, 6 rw).")
]
QueuesOption = Annotated[
    int | None,
    typer.Option("--queues", "-q", metavar="N", min=1, max=65535, help="Queues to read and to write."),
]
ReadQueuesOption = Annotated[
    int | None, typer.Option("--read-queues", metavar="N", min=0, max=65535, help="Queues to read.")
]
WriteQueuesOption = Annotated[
    int | None, typer.Option("--write-queues", metavar="N", min=0, max=65535, help="Queues to write.")
]
OrderOption = Annotated[
    bool, typer.Option("--order", help="Ordered: name servers keep its queues; brokers know within 30 s.")
]

_PERMS = {"": 0, "-": 0, "w": 2, "r": 4, "rw": 6, "wr": 6}


def perm_number(text: str) -> int:
    """2 write, 4 read, 6 both; a usage error when it is neither a number nor a word."""
    perm = int(text) if text.isascii() and text.isdigit() else _PERMS.get(text.lower())
    if perm is None or perm > 15:
        raise usage_error(f"--perm {text!r}: r, w, rw, or a number (2 w, 4 r, 6 rw) is expected")
    return perm


def perm_text(perm: int) -> str:
    """`rw`, `r-`, `-w`, `--`."""
    return ("r" if perm & 4 else "-") + ("w" if perm & 2 else "-")


def _is_internal(topic: str) -> bool:
    from codec.message import DLQ_PREFIX, RETRY_PREFIX, is_system_topic

    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or is_system_topic(topic)


def _own_topics(info: ClusterInfo) -> set[str]:
    """Topics that every broker makes for itself, named like it and its cluster."""
    clusters = set(info.cluster_addr_table)
    return clusters | {f"{name}_REPLY_TOPIC" for name in clusters} | set(info.broker_addr_table)


@command(app, "list", example="rmq topic list\nrmq topic list --all --json")
def list_topics(settings: Settings, everything: AllOption = False) -> None:
    """List the topics that the name server knows, one a line."""
    from rmqcli.render import Column, show_rows

    async def main() -> list[str]:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            found = await admin.topics.names()
            if everything:
                return found
            hidden = _own_topics(await admin.brokers.cluster_info())
            return [name for name in found if name not in hidden and not _is_internal(name)]

    names = run_async(main)
    show_rows(
        settings,
        [Column("TOPIC", "topic")],
        [[name] for name in names],
        empty="no topics yet; rmq topic create NAME",
    )


@command(app, "describe", example="rmq topic describe orders")
def describe(topic: TopicArgument, settings: Settings) -> None:
    """Show the settings of a topic on each broker and the consumer groups that read it.

    A pipe gets lines: broker, read queues, write queues, perm, order, messages, groups. A broker that does not answer is
    named, and the exit code is 3.
    """
    from rmqcli.commands.common.missing import end_partly
    from rmqcli.render import Column, show_rows

    columns = [
        Column("BROKER", "brokerName"),
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
        Column("ORDER", "order"),
        Column("MESSAGES", "messages", number=True),
        Column("GROUPS", "groups"),
    ]
    failures: dict[str, ClientError] = {}

    async def main() -> list[list[Any]]:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            configs = await admin.topics.settings(topic, failures=failures)
            stats = await admin.topics.stats(topic, failures=failures)
            groups = await admin.topics.groups(topic, failures=failures)
        kept: dict[str, int] = {}
        for queue, offset in stats.items():
            kept[queue.broker_name] = kept.get(queue.broker_name, 0) + offset.max_offset - offset.min_offset
        return [
            [name, c.read_queue_nums, c.write_queue_nums, c.perm, c.order, kept.get(name, 0), groups]
            for name, c in sorted(configs.items())
        ]

    show_rows(settings, columns, run_async(main))
    end_partly(failures)


@command(app, "route", example="rmq topic route orders --json")
def route(topic: TopicArgument, settings: Settings) -> None:
    """Show where a topic lives: brokers, addresses, queues.

    A pipe gets lines: cluster, broker, id (0 is the master), address, read queues, write queues, perm.
    """
    from rmqcli.render import Column, Output, show_rows

    columns = [
        Column("CLUSTER", "cluster"),
        Column("BROKER", "brokerName"),
        Column("ID", "brokerId", number=True),
        Column("ADDRESS", "address"),
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
    ]

    async def main() -> Any:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.topics.route(topic)

    found = run_async(main)
    if settings.json:
        import msgspec

        Output().json(msgspec.to_builtins(found, str_keys=True))
        return
    queues = {data.broker_name: data for data in found.queue_datas}
    rows = [
        [
            broker.cluster,
            broker.broker_name,
            number,
            address,
            *(
                (q.read_queue_nums, q.write_queue_nums, q.perm)
                if (q := queues.get(broker.broker_name))
                else (0, 0, 0)
            ),
        ]
        for broker in sorted(found.broker_datas, key=lambda data: (data.cluster or "", data.broker_name))
        for number, address in sorted(broker.broker_addrs.items())
    ]
    show_rows(settings, columns, rows)


@command(app, "stats", example="rmq topic stats orders")
def stats(topic: TopicArgument, settings: Settings) -> None:
    """Show the offsets of each queue: how much is there, and when the last message came.

    A pipe gets lines: broker, queue, minimum offset, maximum offset, messages, time of the last message (epoch ms). A broker
    that does not answer is named, and the exit code is 3.
    """
    from rmqcli.commands.common.missing import end_partly
    from rmqcli.render import Column, show_rows
    from rmqcli.render.text import local_time

    columns = [
        Column("BROKER", "brokerName"),
        Column("QUEUE", "queueId", number=True),
        Column("MIN", "minOffset", number=True),
        Column("MAX", "maxOffset", number=True),
        Column("MESSAGES", "messages", number=True),
        Column("LAST MESSAGE", "lastUpdateTimestamp", local_time),
    ]
    failures: dict[str, ClientError] = {}

    async def main() -> dict[MessageQueue, Any]:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.topics.stats(topic, failures=failures)

    rows = [
        [
            q.broker_name,
            q.queue_id,
            o.min_offset,
            o.max_offset,
            o.max_offset - o.min_offset,
            o.last_update_timestamp,
        ]
        for q, o in run_async(main).items()
    ]
    show_rows(settings, columns, rows)
    end_partly(failures)


@command(app, "create", example="rmq topic create orders\nrmq topic create orders -q 16 --broker broker-a")
def create(
    topic: TopicArgument,
    settings: Settings,
    queues: QueuesOption = None,
    read_queues: ReadQueuesOption = None,
    write_queues: WriteQueuesOption = None,
    perm: PermOption = "rw",
    order: OrderOption = False,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Create a topic on all masters, with 8 queues unless told otherwise.

    A topic that is there already gets these settings; `rmq topic update` changes only what is named.
    """
    from rmqcli.commands.common.changes import show_change

    number = perm_number(perm)

    async def main() -> Any:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.topics.create(
                topic,
                brokers=broker or (),
                cluster=cluster,
                read_queues=_first(read_queues, queues, 8),
                write_queues=_first(write_queues, queues, 8),
                perm=number,
                order=order,
            )

    show_change(settings, f"topic {topic} created on", run_async(main))


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


@command(app, "update", example="rmq topic update orders -q 16\nrmq topic update orders --perm r")
def update(
    topic: TopicArgument,
    settings: Settings,
    queues: QueuesOption = None,
    read_queues: ReadQueuesOption = None,
    write_queues: WriteQueuesOption = None,
    perm: NewPermOption = None,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
) -> None:
    """Change queues or permission of a topic; what is not named stays."""
    from rmqcli.commands.common.changes import show_change

    number = None if perm is None else perm_number(perm)
    reading = queues if read_queues is None else read_queues
    writing = queues if write_queues is None else write_queues
    if reading is None and writing is None and number is None:
        raise usage_error("nothing to change: give --queues, --read-queues, --write-queues or --perm")

    async def main() -> Any:
        from rmqcli.client import Admin

        async with Admin(**settings.client_options) as admin:
            return await admin.topics.update(
                topic,
                read_queues=reading,
                write_queues=writing,
                perm=number,
                brokers=broker or (),
                cluster=cluster,
            )

    show_change(settings, f"topic {topic} changed on", run_async(main))


@command(app, "delete", example="rmq topic delete orders --yes")
def delete(
    topic: TopicArgument, settings: Settings, yes: YesOption = False, cluster: ClusterOption = None
) -> None:
    """Delete a topic and its messages from the brokers and the name servers.

    Asks first; without a terminal it needs --yes. Groups keep their offsets, and are named: a topic that is made anew begins
    at 0, and what comes before these offsets they would pass over.
    """
    from rmqcli.commands.common.changes import confirm, show_change

    if _is_internal(topic) and not topic.startswith("%"):
        raise CommandError(f"topic {topic} belongs to the system and cannot be deleted")
    groups: list[str] = []

    async def main() -> Any:
        from rmqcli.client import Admin, ClientError

        failures: dict[str, ClientError] = {}
        async with Admin(**settings.client_options) as admin:
            with suppress(ClientError):
                groups.extend(await admin.topics.groups(topic, failures=failures))
            await admin.topics.route(topic)
            return await admin.topics.delete(topic, cluster=cluster, failures=failures)

    confirm(f"delete topic {topic} and all of its messages?", yes=yes)
    change = run_async(main)
    if groups and change.brokers:
        warn(
            f"offsets of {', '.join(groups)} stay; when {topic} is made anew: "
            f"rmq offsets reset -g {groups[0] if len(groups) == 1 else 'GROUP'} -t {topic} --to start"
        )
    show_change(settings, f"topic {topic} deleted from", change)
