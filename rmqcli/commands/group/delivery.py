"""`rmq group deliver` and `rmq group mode`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.errors import Ended
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.applying import Change, change_brokers
from rmqcli.commands.group.app import GroupArgument, app, chosen_clients, online_clients
from rmqcli.render.table import CLIENT, Column

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.codec.bodies.running import ConsumeMessageDirectlyResult

OneClientOption = Annotated[
    str | None, Option("--client", metavar="ID", help="Client to deliver to; default: the first one.")
]
DeliveredTopicOption = Annotated[str, Option("--topic", "-T", metavar="TOPIC", help="Topic of the message.")]
IdOption = Annotated[str, Option("--id", metavar="ID", help="Message ID (msgId or offsetMsgId).")]

_CONSUMED = frozenset(("CR_SUCCESS", "CR_COMMIT"))


@command(
    app,
    "deliver",
    example="""rmq group deliver billing -T orders --id 7F000001ABCD
rmq group deliver billing -T orders --id ID --client ID""",
    rows=Rows.LIST,
)
def deliver(
    group: GroupArgument,
    settings: Settings,
    topic: DeliveredTopicOption,
    msg_id: IdOption,
    client: OneClientOption = None,
) -> None:
    """Deliver one message to a running push consumer and print the result.

    The message is consumed out of turn: no offset moves and nothing is retried. Prints client, result,
    milliseconds and the error of the listener. Exit code 1 if it was not consumed, 7 if the client did not
    respond within 10 s.
    """
    from rmqcli.render import show_rows

    columns = [
        CLIENT,
        Column("RESULT", "consumeResult"),
        Column("MS", "spentTimeMills", number=True),
        Column("REMARK", "remark"),
    ]
    chosen, result = with_admin(settings, lambda admin: _delivered(admin, group, topic, msg_id, client))
    show_rows(settings, columns, [[chosen, result.consume_result, result.spent_time_mills, result.remark]])
    if result.consume_result not in _CONSUMED:
        raise Ended(ExitCode.FAILED, summary=f"{chosen} did not consume the message: {result.consume_result}")


async def _delivered(
    admin: Admin, group: str, topic: str, msg_id: str, client: str | None
) -> tuple[str, ConsumeMessageDirectlyResult]:
    from rmqcli.client import BrokerRefused
    from rmqcli.codec.codes import ResponseCode

    chosen = chosen_clients(await online_clients(admin, group), group, client)[0]
    found = await admin.messages.query_by_id(topic, msg_id)
    if not found.messages:
        raise CommandError(f"no message with ID {msg_id} in topic {topic}", ExitCode.NOT_FOUND)
    try:
        return chosen, await admin.clients.consume_directly(group, chosen, found.messages[-1])
    except BrokerRefused as error:
        if error.code != ResponseCode.CONSUME_MSG_TIMEOUT:
            raise
        raise CommandError(
            f"client {chosen} did not respond within 10 s; it may still be consuming {msg_id}",
            ExitCode.TIMED_OUT,
        ) from None


MODES = ("pull", "pop")
ModeArgument = Annotated[str, Argument(metavar="MODE", help="pull or pop.")]
ShareOption = Annotated[
    int,
    Option(
        "--share",
        metavar="N",
        min=0,
        help="pop: number of further clients that share each queue; default: all.",
    ),
]


@command(
    app,
    "mode",
    example="rmq group mode billing orders pop -b broker-a --yes",
    rows=Rows.DOCUMENT,
)
def mode(
    group: GroupArgument,
    topic: TopicArgument,
    mode: ModeArgument,
    settings: Settings,
    how: Change,
    share: ShareOption = 0,
) -> None:
    """Set whether clients of a group pull from a topic, or brokers hand out its messages (POP, 5.x).

    The mode applies to clients that leave the allocation of queues to brokers. Asks for confirmation; without
    a terminal, --yes is required. Brokers without the topic or the group, those that refuse or do not respond
    are reported, and the exit code is 3.
    """
    if mode.lower() not in MODES:
        raise usage_error(f"{mode}: expected {' or '.join(MODES)}")
    change_brokers(
        settings,
        how,
        "modes of groups",
        (f"let {group} consume {topic} by {mode}", f"{group} consumes {topic} by {mode}"),
        lambda admin, found: admin.groups.set_mode(found, group, topic, mode.upper(), share),
        slaves=False,
    )
