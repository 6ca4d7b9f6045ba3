"""`rmq id`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings

app = single_command()

IdsArgument = Annotated[list[str], Argument(metavar="ID...", help="Message IDs.", show_default=False)]


@command(
    app,
    "id",
    example="""rmq id 7F000001000022B80000000000001C0D
rmq id C000020271C0D1A9227C72779DCB0000 --json""",
    rows=Rows.LIST,
)
def id_(ids: IdsArgument, settings: Settings) -> None:
    """Decode message IDs.

    An offset message ID (%I, offsetMsgId) holds the address of its broker and the commit-log offset. A unique
    ID (%i, msgId) holds the address and process of the client that created it, the time, and a counter; it
    lacks the month, so the time shown is the latest possible one. Needs no server. Piped output: ID, kind,
    address, commit-log offset, time (epoch ms), process ID, number of the process, counter.
    """
    from rmqcli.render import Column, show_rows
    from rmqcli.render.text import local_time

    columns = (
        Column("ID", "msgId", whole=True),
        Column("KIND", "kind"),
        Column("ADDRESS", "address", whole=True),
        Column("COMMIT LOG OFFSET", "commitLogOffset", number=True),
        Column("MADE AT", "bornTimestamp", local_time),
        Column("PID", "pid", number=True),
        Column("PROCESS", "process"),
        Column("COUNTER", "counter", number=True),
    )
    now = now_ms()
    show_rows(settings, columns, [_row(one, now) for one in ids])


def _row(msg_id: str, now: int) -> list[Any]:
    from rmqcli.client.admin.messages import offset_id_address
    from rmqcli.codec.errors import CodecError
    from rmqcli.codec.ids import parse_offset_msg_id, parse_uniq_id, time_of_uniq_id

    try:
        if (address := offset_id_address(msg_id)) is not None:
            offset = parse_offset_msg_id(msg_id)[2]
            return [msg_id, "offset", address, offset, None, None, None, None]
        parts, made = parse_uniq_id(msg_id), time_of_uniq_id(msg_id, now)
    except CodecError:
        raise usage_error(
            f"{msg_id!r} is not a message ID: 32 or 56 hexadecimal digits are expected"
        ) from None
    return [msg_id, "unique", parts.address, None, made, parts.pid, f"{parts.identity:08x}", parts.counter]
