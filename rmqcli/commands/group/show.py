"""`rmq group list`, `describe`, `settings`, `status`, `clients` and `check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.group.app import (
    GroupArgument,
    TopicOption,
    app,
    chosen_clients,
    online_clients,
    short_kind,
)
from rmqcli.render.output import note
from rmqcli.render.table import BROKER, CLIENT, QUEUE, TOPIC, Column
from rmqcli.render.text import local_seconds, one_line

if TYPE_CHECKING:
    from rmqcli.client import Admin, GroupDescription
    from rmqcli.codec.bodies.config import SubscriptionGroupConfig
    from rmqcli.codec.bodies.running import (
        ConsumerConnection,
        ConsumerRunningInfo,
        ConsumeStatus,
        ProcessQueueInfo,
    )
    from rmqcli.doctor.finding import Finding


@command(
    app,
    "list",
    example="rmq group list\nrmq group list --json | jq '.[] | select(.lag > 1000)'",
    rows=Rows.LIST,
)
@watchable
def list_groups(settings: Settings) -> None:
    """List consumer groups with their clients and lag.

    Piped output: group, clients, type, model, messages per second, lag, why the lag is
    unknown. Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import GROUP, LAG, LAG_UNKNOWN

    columns = [
        GROUP,
        Column("CLIENTS", "clients", number=True),
        Column("TYPE", "consumeType", short_kind, minor=True),
        Column("MODEL", "messageModel", short_kind, minor=True),
        Column("TPS", "consumeTps", "{:.1f}".format, number=True, minor=True),
        LAG,
        LAG_UNKNOWN,
    ]

    failures: Failures = {}
    found = with_admin(settings, lambda admin: admin.groups.summaries(failures=failures))
    rows = [
        [g.name, g.clients, g.consume_type, g.message_model, g.consume_tps, g.lag, g.lag_unknown]
        for g in found
    ]
    show_rows(settings, columns, rows, empty="no consumer groups")
    end_partly({group.name: group.error for group in found if group.error is not None}, failures)


@command(
    app,
    "describe",
    example="rmq group describe billing\nrmq group describe billing -T orders --json",
    rows=Rows.DOCUMENT,
)
@watchable
def describe(group: GroupArgument, settings: Settings, topic: TopicOption = None) -> None:
    """Show the clients of a group and its lag on each queue.

    Lag is the number of stored messages that are not consumed yet; it is never negative. Piped output: topic,
    broker, queue, consumer offset, maximum offset, lag, time of the last consumed message (epoch ms), client,
    why the lag is unknown. Offsets beyond the end of a topic are reported: the topic was created again.
    Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.commands.common.lag import warn_of_lost_topics

    failures: Failures = {}
    found = with_admin(settings, lambda admin: admin.groups.describe(group, topic, failures=failures))
    if settings.json:
        from rmqcli.render import Output

        Output().json(_as_json(found))
    else:
        _show(settings, found)
    warn_of_lost_topics(settings, group, found.queues)
    end_partly(failures)


def _show(settings: Settings, found: GroupDescription) -> None:
    from rmqcli.commands.common.lag import LAG_COLUMNS, lag_row
    from rmqcli.render import Column, Output, show_rows
    from rmqcli.render.table import CLIENT, TOPIC, show_table
    from rmqcli.render.text import many

    if not settings.terminal:
        show_rows(settings, LAG_COLUMNS, [lag_row(queue) for queue in found.queues])
        return
    state = (
        f"{many(len(found.connections), 'client')}, {short_kind(found.consume_type)}"
        if found.online
        else "no clients"
    )
    lag = found.lag if found.lag_unknown is None else f"unknown ({found.lag_unknown})"
    in_flight = sum(queue.in_flight or 0 for queue in found.queues)
    part = f", {in_flight} of it in flight" if in_flight and found.lag_unknown is None else ""
    Output().line(f"group {found.name}: {state}, lag {lag}{part}\n")
    if found.queues:
        show_table(settings, LAG_COLUMNS, [lag_row(queue) for queue in found.queues])
    if found.connections:
        print()
        columns = [
            CLIENT,
            Column("ADDRESS", "clientAddr", whole=True),
            Column("LANGUAGE", "language", minor=True),
        ]
        rows = [[client.client_id, client.client_addr, client.language] for client in found.connections]
        show_table(settings, columns, rows)
    if found.subscriptions:
        print()
        columns = [TOPIC, Column("SUBSCRIPTION", "subString")]
        show_table(settings, columns, [[name, data.sub_string] for name, data in found.subscriptions.items()])


def _as_json(found: GroupDescription) -> dict[str, Any]:
    import msgspec

    from rmqcli.commands.common.lag import lag_object

    return {
        "group": found.name,
        "online": found.online,
        "consumeType": found.consume_type,
        "messageModel": found.message_model,
        "consumeFromWhere": found.consume_from_where,
        "consumeTps": found.consume_tps,
        "lag": found.lag,
        "lagUnknown": found.lag_unknown,
        "queues": [lag_object(queue) for queue in found.queues],
        "clients": [msgspec.to_builtins(client, str_keys=True) for client in found.connections],
        "subscriptions": [msgspec.to_builtins(data, str_keys=True) for data in found.subscriptions.values()],
    }


@command(
    app,
    "settings",
    example="rmq group settings billing\nrmq group settings billing --json",
    rows=Rows.LIST,
)
def show(group: GroupArgument, settings: Settings) -> None:
    """Show the settings of a group on each broker.

    Piped output: broker, consumption enabled, retries, retry queues, broadcasting allowed, starting at the
    minimum offset allowed, clients notified, broker ID to read from, broker ID to read from when lagging, and
    of 5.x in order through proxies, retry policy. Brokers that do not respond are reported, and the exit code
    is 3.
    """
    import msgspec

    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER

    columns = [
        BROKER,
        Column("CONSUME", "consumeEnable"),
        Column("RETRIES", "retryMaxTimes", number=True),
        Column("QUEUES", "retryQueueNums", number=True),
        Column("BROADCAST", "consumeBroadcastEnable"),
        Column("FROM MIN", "consumeFromMinEnable"),
        Column("NOTIFY", "notifyConsumerIdsChangedEnable"),
        Column("READ", "brokerId", number=True),
        Column("SLOW", "whichBrokerWhenConsumeSlowly", number=True),
        Column("ORDERLY", "consumeMessageOrderly"),
        Column("RETRY POLICY", "retryPolicy"),
    ]

    failures: Failures = {}
    configs = with_admin(settings, lambda admin: admin.groups.settings(group, failures=failures))
    rows = [
        [name, *(msgspec.to_builtins(config)[column.key] for column in columns[1:-1]), _policy(config)]
        for name, config in sorted(configs.items())
    ]
    show_rows(settings, columns, rows)
    end_partly(failures)


def _policy(config: SubscriptionGroupConfig) -> str | None:
    from rmqcli.grammar.values import retry_policy_text

    return None if config.group_retry_policy is None else retry_policy_text(config.group_retry_policy)


ClientOption = Annotated[str | None, Option("--client", metavar="ID", help="Show only this client.")]
RatesOption = Annotated[bool, Option("--rates", help="Show rates by topic instead of queues.")]
StackOption = Annotated[bool, Option("--stack", help="Show the stacks of all threads of the clients.")]

_QUEUE_COLUMNS = (
    CLIENT,
    TOPIC,
    BROKER,
    QUEUE,
    Column("OFFSET", "commitOffset", number=True),
    Column("CACHED", "cachedMsgCount", number=True),
    Column("MIB", "cachedMsgSizeInMiB", number=True),
    Column("LOCKED", "locked"),
    Column("LAST PULL", "lastPullTimestamp", local_seconds, whole=True, minor=True),
    Column("LAST CONSUMED", "lastConsumeTimestamp", local_seconds, whole=True, minor=True),
)

_RATE_COLUMNS = (
    CLIENT,
    TOPIC,
    Column("PULLED/S", "pullTPS", "{:.1f}".format, number=True),
    Column("MS A PULL", "pullRT", "{:.1f}".format, number=True),
    Column("OK/S", "consumeOKTPS", "{:.1f}".format, number=True),
    Column("FAILED/S", "consumeFailedTPS", "{:.1f}".format, number=True),
    Column("MS EACH", "consumeRT", "{:.1f}".format, number=True),
    Column("FAILED", "consumeFailedMsgs", number=True),
)


@command(
    app,
    "status",
    example="""rmq group status billing
rmq group status billing --rates
rmq group status billing --client ID --json
rmq group status billing --stack""",
    rows=Rows.DOCUMENT,
)
@watchable
def status(
    group: GroupArgument,
    settings: Settings,
    client: ClientOption = None,
    topic: TopicOption = None,
    rates: RatesOption = False,
    stack: StackOption = False,
) -> None:
    """Show the queues, cached messages, locks and rates of running clients.

    OFFSET is the next offset of the client; CACHED counts messages pulled but not consumed. Piped output:
    client, topic, broker, queue, offset, cached messages, their size in MiB, locked, last pull and last
    consumption (epoch ms on the client; if there was none, the time when it got the queue). With --rates:
    client, topic, messages pulled per second, ms per pull, messages consumed and failed per second, ms per
    message, failures in the last hour; other rates cover the last minute. With --stack: client, a line of its
    stacks. Brokers and clients that do not respond are reported (exit code 3; 1 if no client responds).
    """
    if stack and (rates or topic):
        raise usage_error("--stack cannot be combined with --rates or --topic")
    failures: Failures = {}
    infos, failed = with_admin(settings, lambda admin: _running_infos(admin, group, client, stack, failures))
    if settings.json:
        _status_document(infos)
    elif stack:
        _show_stacks(settings, infos)
    else:
        _show_status(settings, infos, topic, rates=rates)
    end_partly(failed, failures, done=bool(infos), code=ExitCode.FAILED)


async def _running_infos(
    admin: Admin, group: str, client: str | None, stack: bool, failures: Failures
) -> tuple[dict[str, ConsumerRunningInfo], dict[str, Any]]:
    ids = chosen_clients(await online_clients(admin, group, failures), group, client)
    return await admin.clients.running_infos(group, ids, jstack=stack, failures=failures)


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


def _show_stacks(settings: Settings, infos: dict[str, ConsumerRunningInfo]) -> None:
    from rmqcli.render import Output, show_rows
    from rmqcli.render.output import warn
    from rmqcli.render.text import printable

    rows: list[list[str]] = []
    for client_id, info in infos.items():
        if not info.jstack:
            warn(f"{client_id}: reports no stacks")
        elif settings.terminal:
            Output().line(f"client {client_id}\n\n{printable(info.jstack)}\n")
        else:
            rows += [[client_id, line] for line in info.jstack.splitlines()]
    if not settings.terminal:
        show_rows(settings, (CLIENT, Column("LINE", "line")), rows)


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
        Output().line(f"client {one_line(client_id)}\n")
        for shown, all_rows in ((_QUEUE_COLUMNS, queue_rows), (_RATE_COLUMNS, rate_rows)):
            if mine := [row[1:] for row in all_rows if row[0] == client_id]:
                show_table(settings, shown[1:], mine)
                Output().line("")


_CLIENT_COLUMNS = (
    CLIENT,
    Column("ADDRESS", "clientAddr", whole=True),
    Column("LANGUAGE", "language", minor=True),
    Column("VERSION", "version", minor=True),
    Column("TYPE", "consumeType", short_kind, minor=True),
    Column("MODEL", "messageModel", short_kind, minor=True),
    Column("SUBSCRIPTIONS", "subscriptions"),
)


@command(
    app,
    "clients",
    example="rmq group clients billing\nrmq group clients billing | cut -f 1",
    rows=Rows.DOCUMENT,
)
@watchable
def clients(group: GroupArgument, settings: Settings) -> None:
    """List the running clients of a group.

    Piped output: client ID, address, language, version, CONSUME_PASSIVELY (push) or CONSUME_ACTIVELY (pull),
    model, subscriptions. Exit code 4 if no client is running. Brokers that do not respond are reported, and
    the exit code is 3.
    """
    from rmqcli.render import Output

    failures: Failures = {}
    found = with_admin(settings, lambda admin: online_clients(admin, group, failures))
    if settings.json:
        import msgspec

        Output().json(msgspec.to_builtins(found, str_keys=True))
    else:
        _show_clients(settings, found)
    end_partly(failures)


def _show_clients(settings: Settings, found: ConsumerConnection) -> None:
    from rmqcli.codec.versions import version_name
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


GroupsArgument = Annotated[
    list[str] | None,
    Argument(metavar="[GROUP]...", help="Names of groups; default: all with running clients."),
]


@command(
    app,
    "check",
    example="rmq group check\nrmq group check billing\nrmq group check | grep -v ^ok",
    rows=Rows.DOCUMENT,
)
def check(settings: Settings, groups: GroupsArgument = None) -> None:
    """Check the running clients of groups: subscriptions, owners of queues, progress, settings.

    Prints one line per check: ok, warn, FAIL or skip. A check fails, with exit code 1, if the clients differ,
    if a queue has no owner or makes no progress while messages wait, or if consumers cannot read what
    producers send. Piped output: status, check, target, text, remedy. Brokers that do not respond are
    reported, and the exit code is 3.
    """
    from rmqcli.commands.common.findings import show_findings
    from rmqcli.doctor.finding import Status, worst

    failures: Failures = {}
    findings = with_admin(settings, lambda admin: _findings(admin, groups or [], failures))
    show_findings(settings, findings)
    if not findings and not settings.json:
        note("no running clients")
    if worst(findings) is Status.FAIL:
        lost = {name: str(error) for name, error in failures.items()}
        lines = [f"{name}: {text}" for name, text in lost.items()]
        raise Ended(ExitCode.FAILED, lines, lost, summary="a check failed")
    end_partly(failures)


async def _findings(admin: Admin, groups: list[str], failures: Failures) -> list[Finding]:
    from rmqcli.client.admin.area import gather_all
    from rmqcli.doctor.group_facts import members_of
    from rmqcli.doctor.members import judged

    names = groups or await admin.groups.names(failures=failures)
    tables = await admin.groups.all_settings(failures=failures)
    found = await gather_all(names, lambda group: members_of(admin, group, failures, tables))
    for group in groups:
        if found[group].connection is None:
            await admin.groups.check_known(group, failures)
    chosen = [members for members in found.values() if groups or members.connection is not None]
    return [finding for members in chosen for finding in judged(members)]
