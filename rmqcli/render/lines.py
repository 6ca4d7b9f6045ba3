r"""Shows a message without a format: two lines on a terminal, one TSV line in a pipe, one JSON line with
`--json`.

The TSV fields are broker, queue, offset, store time (epoch ms), message ID, tag, keys (comma-separated) and
body. Control bytes, and bytes that are not UTF-8, are written \xNN.
"""

from __future__ import annotations

from collections.abc import Callable

from codec.message import MessageExt
from rmqcli.grammar.errors import GrammarError
from rmqcli.render.bodies import WHOLE, Bodies, screenful
from rmqcli.render.message_format import parse_format
from rmqcli.render.message_json import message_line
from rmqcli.render.message_rows import member_renderer, row_renderer, tsv_body, tsv_bytes
from rmqcli.render.output import OutputSettings, encode_text
from rmqcli.render.text import local_time, one_line, printable, size, tsv_line

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def body_text(body: bytes) -> str:
    r"""Return the body as text; bytes that are not UTF-8 are written \xNN."""
    return body.decode("utf-8", "backslashreplace")


def message_tsv(message: MessageExt, bodies: Bodies = WHOLE, *, topic: bool = False) -> bytes:
    r"""Return one line; with `topic`, this is the first field. A byte that is not UTF-8 is written \xNN; the
    text \xNN is written \\xNN, as every backslash is doubled.
    """
    place = (message.broker_name, message.queue_id, message.queue_offset, message.store_timestamp)
    first = (message.topic,) if topic else ()
    about = (message.msg_id, message.tags, message.keys)
    return tsv_bytes(tsv_line((*first, *place, *about, tsv_body(message, bodies))))


def message_view(message: MessageExt, *, color: bool, bodies: Bodies = WHOLE, topic: bool = False) -> bytes:
    """Return one line with place, time, tag and keys, and the body below."""
    bold, dim, plain = (_BOLD, _DIM, _PLAIN) if color else ("", "", "")
    place = f"{message.broker_name}/{message.queue_id}@{message.queue_offset}"
    place = f"{message.topic} {place}" if topic else place
    named = [message.tags or "", *(f"[{key}]" for key in message.keys)]
    named += [f"reconsumed {message.reconsume_times}x"] if message.reconsume_times else []
    about = one_line(" ".join(part for part in named if part))
    time = local_time(message.store_timestamp)
    head = f"{bold}{one_line(place)}{plain}  {dim}{time}{plain}  {about}".rstrip()
    if bodies.meta_only:
        return encode_text(f"{head}  {size(len(message.body))}\n")
    body = _shown(message.body, bodies).replace("\n", "\n  ")
    return encode_text(f"{head}\n  {body}\n")


def _shown(body: bytes, bodies: Bodies) -> str:
    part = bodies.cut(body)
    text = printable(body_text(part))
    if bodies.screen is not None:
        begin = screenful(text, *bodies.screen)
        if len(begin) < len(text):
            return f"{begin}\n… {size(len(body))} in all; --full shows the rest"
    return text if len(part) == len(body) else f"{text}\n… {size(len(body))} in all"


def message_renderer(
    settings: OutputSettings, format_text: str | None, bodies: Bodies = WHOLE, *, topic: bool = False
) -> Callable[[MessageExt], bytes]:
    """Return the renderer of messages for this command line; raise GrammarError for an invalid FORMAT.

    `topic`: there are several topics, so each message says of which it is.
    """
    _check(settings, format_text, bodies)
    if format_text is not None:
        return parse_format(
            format_text,
            raw=bodies.raw,
            body=lambda message: bodies.cut(message.body),
            line=lambda message: message_line(message, bodies),
        )
    form = settings.rows
    if settings.json:
        whole = not form.columns
        return (
            (lambda message: message_line(message, bodies) + b"\n")
            if whole
            else member_renderer(form, bodies)
        )
    if bodies.raw:
        return lambda message: bodies.cut(message.body) + b"\n"
    if not settings.terminal and (form.chosen or form.header):
        return row_renderer(form, bodies, topic=topic)
    if not settings.terminal:
        return lambda message: message_tsv(message, bodies, topic=topic)
    color = settings.color
    return lambda message: message_view(message, color=color, bodies=bodies, topic=topic)


def _check(settings: OutputSettings, format_text: str | None, bodies: Bodies) -> None:
    """Raise GrammarError for options that contradict each other."""
    settings.rows.refuse_sort()
    form, cut = format_text is not None, bodies.limit is not None
    lines = settings.rows.chosen or settings.rows.header
    for wrong, options, why in (
        (form and settings.json, "--format and --json", ""),
        (bodies.raw and settings.json, "--raw and --json", ": JSON has escapes or base64 for all bytes"),
        (lines and form, "--format and --columns, --header or --csv", ": FORMAT names the fields"),
        (lines and bodies.raw, "--raw and --columns, --header or --csv", ""),
        (bodies.meta_only and form, "--meta-only and --format", ": leave %v out"),
        (bodies.meta_only and (bodies.raw or cut), "--meta-only and --raw or --max-body", ""),
    ):
        if wrong:
            raise GrammarError(f"{options} cannot be combined{why}")
