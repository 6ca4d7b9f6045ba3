r"""Shows a message without a format: two lines on a terminal, one TSV line in a pipe, one JSON line with
`--json`.

The TSV fields are broker, queue, offset, store time (epoch ms), message ID, tag, keys (comma-separated) and
body. Bytes that are not UTF-8 are written \xNN.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from codec.message import MessageExt
from rmqcli.grammar.errors import GrammarError
from rmqcli.render.message_format import parse_format
from rmqcli.render.message_json import message_line
from rmqcli.render.output import OutputSettings, encode_text
from rmqcli.render.text import local_time, printable, tsv_line

_NO_TEXT = re.compile("[\udc80-\udcff]")
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def body_text(body: bytes) -> str:
    r"""Return the body as text; bytes that are not UTF-8 are written \xNN."""
    return body.decode("utf-8", "backslashreplace")


def message_tsv(message: MessageExt) -> bytes:
    r"""Return one line. A byte that is not UTF-8 is written \xNN; the text \xNN is written \\xNN, as every
    backslash is doubled.
    """
    place = (message.broker_name, message.queue_id, message.queue_offset, message.store_timestamp)
    text = message.body.decode("utf-8", "surrogateescape")
    line = tsv_line((*place, message.msg_id, message.tags, message.keys, text))
    return encode_text(_NO_TEXT.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", line) + "\n")


def message_view(message: MessageExt, *, color: bool) -> bytes:
    """Return one line with place, time, tag and keys, and the body below."""
    bold, dim, plain = (_BOLD, _DIM, _PLAIN) if color else ("", "", "")
    place = f"{message.broker_name}/{message.queue_id}@{message.queue_offset}"
    named = [message.tags or "", *(f"[{key}]" for key in message.keys)]
    named += [f"reconsumed {message.reconsume_times}x"] if message.reconsume_times else []
    about = printable(" ".join(part for part in named if part))
    time = local_time(message.store_timestamp)
    head = f"{bold}{printable(place)}{plain}  {dim}{time}{plain}  {about}".rstrip()
    body = printable(body_text(message.body)).replace("\n", "\n  ")
    return encode_text(f"{head}\n  {body}\n")


def message_renderer(settings: OutputSettings, format_text: str | None) -> Callable[[MessageExt], bytes]:
    """Return the renderer of messages for this command line; raise GrammarError for an invalid FORMAT."""
    if format_text is not None and settings.json:
        raise GrammarError("--format and --json cannot be combined")
    if format_text is not None:
        return parse_format(format_text)
    if settings.json:
        return lambda message: message_line(message) + b"\n"
    if not settings.terminal:
        return message_tsv
    color = settings.color
    return lambda message: message_view(message, color=color)
