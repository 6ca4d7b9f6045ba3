"""`rmq request`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from rmqcli.cli.command import command, single_command
from rmqcli.cli.options import FormatOption, KeyOption, PropertyOption, TagsOption, TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.messages import RawOption

if TYPE_CHECKING:
    from rmqcli.codec.message import MessageExt

app = single_command()

BodyArgument = Annotated[str, Argument(metavar="BODY", help="Body of the request.")]

# A broker pushes a reply; it was never stored in a queue.
_STORAGE_FIELDS = frozenset(
    {"brokerName", "queueOffset", "commitLogOffset", "offsetMsgId", "storeSize", "bodyCrc", "sysFlag"}
)


@command(
    app,
    "request",
    example="""rmq request prices '{"item": 42}'
rmq --timeout 10 request prices '{"item": 42}' -t current --json""",
    rows=Rows.LIST,
    panels={"Bodies": "--raw"},
)
def request(
    topic: TopicArgument,
    body: BodyArgument,
    settings: Settings,
    key: KeyOption = None,
    tag: TagsOption = None,
    prop: PropertyOption = None,
    format_text: FormatOption = None,
    raw: RawOption = False,
) -> None:
    """Send a request and print the reply of its consumer.

    Waits up to --timeout seconds (default: 3) for the send and the reply together; exit code 7 if the request
    was stored but no reply arrived. The body of the reply is printed, followed by a newline.
    """
    from rmqcli.flows.outgoing import Stamp
    from rmqcli.render import Output

    render = _renderer(settings, format_text, raw=raw)
    stamp = Stamp.of(topic, key or [], tag, prop or [])
    timeout: dict[str, Any] = {} if settings.given.timeout is None else {"timeout": settings.given.timeout}

    async def main() -> MessageExt:
        from rmqcli.client import Producer

        async with Producer(**settings.producer_options) as producer:
            return await producer.request(stamp.on_body(os.fsencode(body)), **timeout)

    reply = run_async(main)
    Output().write(render(reply))


def _renderer(settings: Settings, format_text: str | None, *, raw: bool) -> Callable[[MessageExt], bytes]:
    if format_text is not None or raw:
        from rmqcli.render.message_rows import message_renderer
        from rmqcli.render.text import Bodies

        return message_renderer(settings, format_text, Bodies(raw=raw))
    from rmqcli.render.output import escape_controls, json_line

    if settings.json:
        return lambda reply: json_line(_as_json(reply)) + b"\n"
    return lambda reply: escape_controls(reply.body) + b"\n"


def _as_json(reply: MessageExt) -> dict[str, Any]:
    from rmqcli.render.message_json import message_object

    return {name: value for name, value in message_object(reply).items() if name not in _STORAGE_FIELDS}
