"""`rmq query`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.messages import Conditions, Form
from rmqcli.commands.common.outcome import end_partly
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codec.message import MessageExt
    from rmqcli.client import Admin, QueryResult
    from rmqcli.grammar.offset_range import OffsetRange

app = single_command()

KeyOption = Annotated[str | None, Option("--key", "-k", metavar="KEY", help="Find messages with this key.")]
IdOption = Annotated[
    str | None, Option("--id", metavar="ID", help="Find the message with this ID (msgId or offsetMsgId).")
]
TimeOption = Annotated[
    str, Option("--time", metavar="@T1:@T2", help="With --key: store time, e.g. @-1h or @T1:@T2.")
]
CountOption = Annotated[
    int,
    Option("--count", "-c", metavar="N", min=1, max=1024, help="With --key: at most N messages, the newest."),
]


@command(app, "query", example="rmq query orders --key 42\nrmq query orders --id 7F000001ABCD --json")
def query(
    topic: TopicArgument,
    settings: Settings,
    *,
    key: KeyOption = None,
    msg_id: IdOption = None,
    time: TimeOption = "start",
    count: CountOption = 64,
    conditions: Conditions,
    form: Form,
) -> None:
    """Find messages by key or message ID, using the index of the brokers.

    Exit code 4 if there is none. Messages are printed as by `rmq pull`.
    """
    from rmqcli.grammar.offset_range import parse_range
    from rmqcli.render import Output

    if (key is None) == (msg_id is None):
        raise usage_error("specify either --key or --id")
    span = parse_range(time, now_ms())
    if time != "start" and span.begin_time is None and span.end_time is None:
        raise usage_error(f"--time {time!r}: expected @T or @T1:@T2")
    accepts = conditions.test()
    render = form.renderer(settings)

    async def main(admin: Admin) -> QueryResult:
        if msg_id is not None:
            return await admin.messages.query_by_id(topic, msg_id)
        return await admin.messages.query_by_key(topic, key or "", max_num=count, **_bounds(span))

    found = with_admin(settings, main)
    chosen = [message for message in found.messages if accepts(message)]
    output = Output()
    for message in chosen:
        if message.topic != topic:
            warn(f"{message.msg_id} belongs to topic {message.topic}")
        output.write(render(message))
    if found.may_be_more and key is not None:
        warn(_more(found.messages, count))
    end_partly(found.failures, done=bool(chosen))
    if not chosen:
        what = f"key {key}" if key is not None else f"ID {msg_id}"
        how = f" meets the condition ({len(found.messages)} found)" if found.messages else ""
        raise CommandError(f"no message with {what} in topic {topic}{how}", ExitCode.NOT_FOUND)


def _more(messages: Sequence[MessageExt], count: int) -> str:
    """Say how to see what a limit has cut off. Brokers return the newest matches first."""
    from rmqcli.client.admin.messages import BROKER_MAX
    from rmqcli.render.text import many

    shown = f"{many(len(messages), 'message')} shown, the newest; there may be more"
    wider = f"a larger --count (at most {BROKER_MAX} of each broker), or " if count < BROKER_MAX else ""
    earlier = f"--time @:{messages[0].store_timestamp + 1} for older ones" if messages else "--time @T1:@T2"
    return f"{shown}: use {wider}{earlier}"


def _bounds(span: OffsetRange) -> dict[str, int]:
    end = {} if span.end_time is None else {"end": span.end_time - 1}
    return {"begin": span.begin_time or 0} | end
