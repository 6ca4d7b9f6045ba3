"""`rmq group clients|status|deliver`: the running clients of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.options import Settings, command
from rmqcli.cli.running import run_async, warn
from rmqcli.commands.common.group_options import GroupArgument, TopicOption, app, short_kind
from rmqcli.render.table import Column
from rmqcli.render.text import local_time

if TYPE_CHECKING:
    from codec.bodies.connections import ConsumerConnection
    from codec.bodies.running import (
        ConsumeMessageDirectlyResult,
        ConsumerRunningInfo,
        ConsumeStatus,
        ProcessQueueInfo,
    )
    from rmqcli.client import Admin, ClientError

ClientOption = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="Only the client with this id.")
]
OneClientOption = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="The client; else the first there is.")
]
RatesOption = Annotated[bool, typer.Option("--rates", help="The topics and their rates, not the queues.")]
DeliveredTopicOption = Annotated[
    str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic of the message.")
]
IdOption = Annotated[
    str, typer.Option("--id", metavar="ID", help="The message with this id: msgId or offsetMsgId.")
]

_CLIENT_COLUMNS = (
    Column("CLIENT", "clientId"),
    Column("ADDRESS", "clientAddr"),
    Column("LANGUAGE", "language"),
    Column("VERSION", "version"),
    Column("TYPE", "consumeType", short_kind),
    Column("MODEL", "messageModel", short_kind),
    Column("SUBSCRIPTIONS", "subscriptions"),
)
_QUEUE_COLUMNS = (
    Column("CLIENT", "clientId"),
    Column("TOPIC", "topic"),
    Column("BROKER", "brokerName"),
    Column("QUEUE", "queueId", number=True),
    Column("OFFSET", "commitOffset", number=True),
    Column("CACHED", "cachedMsgCount", number=True),
    Column("MIB", "cachedMsgSizeInMiB", number=True),
    Column("LOCKED", "locked"),
    Column("LAST PULL", "lastPullTimestamp", local_time),
    Column("LAST CONSUMED", "lastConsumeTimestamp", local_time),
)
_RATE_COLUMNS = (
    Column("CLIENT", "clientId"),
    Column("TOPIC", "topic"),
    Column("PULLED/S", "pullTPS", "{:.1f}".format, number=True),
    Column("MS A PULL", "pullRT", "{:.1f}".format, number=True),
    Column("OK/S", "consumeOKTPS", "{:.1f}".format, number=True),
    Column("FAILED/S", "consumeFailedTPS", "{:.1f}".format, number=True),
    Column("MS EACH", "consumeRT", "{:.1f}".format, number=True),
    Column("FAILED", "consumeFailedMsgs", number=True),
)
_CONSUMED = frozenset(("CR_SUCCESS", "CR_COMMIT"))


@command(app, "clients", example="rmq group clients billing\nrmq group clients billing | cut -f 1")
def clients(group: GroupArgument, settings: Settings) -> None:
    """List the running clients of a group.

    A pipe gets lines: client id, address, language, version, CONSUME_PASSIVELY (push) or CONSUME_ACTIVELY (pull), model,
    subscriptions. Exit code 4 when no client is running. A broker that does not answer is named, and the exit code is 3.
    """
    from rmqcli.commands.common.missing import end_partly
    from rmqcli.render import Output

    failures: dict[str, ClientError] = {}
    found = run_async(lambda: _connection(settings, group, failures))
    if settings.json:
        import msgspec

        Output().json(msgspec.to_builtins(found, str_keys=True))
    else:
        _show_clients(settings, found)
    end_partly(failures)


def _show_clients(settings: Settings, found: ConsumerConnection) -> None:
    from codec.versions import version_name
    from rmqcli.render import show_rows

    subscriptions = [
        f"{topic}: {data.sub_string}" for topic, data in sorted(found.subscription_table.items())
    ]
    rows = [
        [
            client.client_id,
            client.client_addr,
            client.language,
            version_name(client.version),
            found.consume_type,
            found.message_model,
            subscriptions,
        ]
        for client in found.connection_set
    ]
    show_rows(settings, _CLIENT_COLUMNS, rows)


async def _connection(settings: Settings, group: str, failures: dict[str, ClientError]) -> ConsumerConnection:
    from rmqcli.client import Admin

    async with Admin(**settings.client_options) as admin:
        return await _online(admin, group, failures)


async def _online(
    admin: Admin, group: str, failures: dict[str, ClientError] | None = None
) -> ConsumerConnection:
    from rmqcli.client import ConsumerOffline

    try:
        return await admin.clients.consumers(group, failures=failures)
    except ConsumerOffline:
        await admin.groups.describe(group)  # a group that nobody knows is told as such
        raise CommandError(f"no client of group {group} is running", ExitCode.NOT_FOUND) from None


def _chosen(connection: ConsumerConnection, group: str, client_id: str | None) -> list[str]:
    ids = [client.client_id for client in connection.connection_set]
    if client_id is None:
        return ids
    if client_id not in ids:
        raise CommandError(
            f"no client {client_id} of group {group} is running; there are: {', '.join(ids)}",
            ExitCode.NOT_FOUND,
        )
    return [client_id]


@command(
    app,
    "status",
    example="rmq group status billing\nrmq group status billing --rates\nrmq group status billing --client ID --json",
)
def status(
    group: GroupArgument,
    settings: Settings,
    client: ClientOption = None,
    topic: TopicOption = None,
    rates: RatesOption = False,
) -> None:
    """Show what the running clients of a group say of themselves: queues, cached messages, locks, rates.

    OFFSET is the next one as the client has it, CACHED the messages that it has pulled and not yet consumed. A pipe gets
    lines: client, topic, broker, queue, offset, cached messages, their size in MiB, locked, last pull and last consumption
    (epoch ms of the client; since it has the queue, when there was none). With --rates: client, topic, messages pulled a second, ms a pull, consumed and failed a second,
    ms a message, failed in the last hour; other rates are of the last minute. Brokers and clients that do not answer are named
    (exit code 3; 1 when no client does).
    """
    from rmqcli.commands.common.missing import end_partly

    failures: dict[str, ClientError] = {}
    infos, silent = run_async(lambda: _running_infos(settings, group, client, failures))
    if settings.json:
        _status_document(infos)
    else:
        _show_status(settings, infos, topic, rates=rates)
    for name, error in silent.items():
        warn(f"{name}: {error}")
    if silent and not infos:
        raise typer.Exit(ExitCode.FAILED)
    end_partly(failures)
    if silent:
        raise typer.Exit(ExitCode.PARTLY)


async def _running_infos(
    settings: Settings, group: str, client: str | None, failures: dict[str, ClientError]
) -> tuple[dict[str, ConsumerRunningInfo], dict[str, Any]]:
    from rmqcli.client import Admin

    async with Admin(**settings.client_options) as admin:
        ids = _chosen(await _online(admin, group, failures), group, client)
        return await admin.clients.running_infos(group, ids, failures=failures)


def _status_document(infos: dict[str, ConsumerRunningInfo]) -> None:
    import msgspec

    from rmqcli.render import Output

    documents = []
    for client_id, info in infos.items():
        plain = msgspec.to_builtins(msgspec.structs.replace(info, mq_table={}, mq_pop_table=None))
        queues = [
            {"topic": queue.topic, "brokerName": queue.broker_name, "queueId": queue.queue_id}
            | msgspec.to_builtins(held)
            for queue, held in info.mq_table.items()
        ]
        documents.append({"clientId": client_id} | plain | {"mqTable": queues})
    Output().json(documents)


def _held(held: ProcessQueueInfo) -> list[Any]:
    cached = [held.cached_msg_count, held.cached_msg_size_in_mib, held.locked]
    return [held.commit_offset, *cached, held.last_pull_timestamp, held.last_consume_timestamp]


def _rates(of: ConsumeStatus) -> list[Any]:
    pulled, consumed = [of.pull_tps, of.pull_rt], [of.consume_ok_tps, of.consume_failed_tps, of.consume_rt]
    return [*pulled, *consumed, of.consume_failed_msgs]


def _show_status(
    settings: Settings, infos: dict[str, ConsumerRunningInfo], topic: str | None, *, rates: bool
) -> None:
    from rmqcli.render import show_rows

    queue_rows = [
        [client_id, queue.topic, queue.broker_name, queue.queue_id, *_held(held)]
        for client_id, info in infos.items()
        for queue, held in info.mq_table.items()
        if topic in (None, queue.topic)
    ]
    rate_rows = [
        [client_id, name, *_rates(consumed)]
        for client_id, info in infos.items()
        for name, consumed in sorted(info.status_table.items())
        if topic in (None, name)
    ]
    columns, rows = (_RATE_COLUMNS, rate_rows) if rates else (_QUEUE_COLUMNS, queue_rows)
    if not settings.terminal or rates:
        show_rows(settings, columns, rows)
        return
    from rmqcli.render import Output
    from rmqcli.render.table import show_table

    for client_id in infos:
        Output().line(f"client {client_id}\n")
        for shown, all_rows in ((_QUEUE_COLUMNS, queue_rows), (_RATE_COLUMNS, rate_rows)):
            if mine := [row[1:] for row in all_rows if row[0] == client_id]:
                show_table(settings, shown[1:], mine)
                Output().line("")


@command(
    app,
    "deliver",
    example="rmq group deliver billing -t orders --id 7F000001ABCD\nrmq group deliver billing -t orders --id ID --client ID",
)
def deliver(
    group: GroupArgument,
    settings: Settings,
    topic: DeliveredTopicOption,
    msg_id: IdOption,
    client: OneClientOption = None,
) -> None:
    """Have a running push consumer of a group consume one message now, and print what came of it.

    No offset moves and nothing is retried: the message comes as if in passing, in whatever queue it lies. Prints client,
    result, milliseconds and what the listener failed with. Exit code 1 when it was not consumed, 7 when the client did not
    answer in 10 s.
    """
    from rmqcli.render import show_rows

    columns = [
        Column("CLIENT", "clientId"),
        Column("RESULT", "consumeResult"),
        Column("MS", "spentTimeMills", number=True),
        Column("REMARK", "remark"),
    ]
    chosen, result = run_async(lambda: _delivered(settings, group, topic, msg_id, client))
    show_rows(settings, columns, [[chosen, result.consume_result, result.spent_time_mills, result.remark]])
    if result.consume_result not in _CONSUMED:
        raise typer.Exit(ExitCode.FAILED)


async def _delivered(
    settings: Settings, group: str, topic: str, msg_id: str, client: str | None
) -> tuple[str, ConsumeMessageDirectlyResult]:
    from codec.codes import ResponseCode
    from rmqcli.client import Admin, BrokerRefused

    async with Admin(**settings.client_options) as admin:
        chosen = _chosen(await _online(admin, group), group, client)[0]
        found = await admin.messages.query_by_id(topic, msg_id)
        if not found.messages:
            raise CommandError(f"no message with id {msg_id} in topic {topic}", ExitCode.NOT_FOUND)
        try:
            return chosen, await admin.clients.consume_directly(group, chosen, found.messages[-1])
        except BrokerRefused as error:
            if error.code != ResponseCode.CONSUME_MSG_TIMEOUT:
                raise
            raise CommandError(
                f"client {chosen} did not answer in 10 s; it may still be consuming {msg_id}",
                ExitCode.TIMED_OUT,
            ) from None
