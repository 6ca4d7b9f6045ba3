"""`rmq group status`: what the running clients report about themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import ExitCode, usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.group.app import GroupArgument, TopicOption, app, chosen_clients, online_clients
from rmqcli.render.columns import BROKER, CLIENT, QUEUE, TOPIC
from rmqcli.render.table import Column
from rmqcli.render.text import local_seconds, one_line

if TYPE_CHECKING:
    from codec.bodies.running import ConsumerRunningInfo, ConsumeStatus, ProcessQueueInfo
    from rmqcli.client import Admin

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
    consumption (epoch ms on the client; if there was none, the time it got the queue). With --rates: client,
    topic, messages pulled per second, ms per pull, messages consumed and failed per second, ms per message,
    failures in the last hour; other rates cover the last minute. With --stack: client, a line of its stacks.
    Brokers and clients that do not respond are
    reported (exit code 3; 1 if no client responds).
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
