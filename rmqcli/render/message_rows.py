"""Messages as lines of TSV or CSV, or as JSON objects, of which columns are chosen by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from codec.message import MessageExt
from rmqcli.render.bodies import Bodies
from rmqcli.render.message_json import MESSAGE_FIELDS, message_object
from rmqcli.render.output import encode_text, json_line
from rmqcli.render.row_form import RowForm

_NO_TEXT = re.compile("[\udc80-\udcff]")


def tsv_body(message: MessageExt, bodies: Bodies) -> str | int:
    """Return the last field of a line: the body, or its size if bodies are left out."""
    text = bodies.cut(message.body).decode("utf-8", "surrogateescape")
    return len(message.body) if bodies.meta_only else text


def tsv_bytes(line: str) -> bytes:
    r"""Return the line with its end; bytes that were not text are written \xNN."""
    return encode_text(_NO_TEXT.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", line) + "\n")


def _columns(bodies: Bodies, *, topic: bool) -> list[str]:
    """Return the JSON names of the fields of a line."""
    last = "bodySize" if bodies.meta_only else "body"
    place = ["brokerName", "queueId", "queueOffset", "storeTimestamp", "msgId", "tags", "keys"]
    return [*(["topic"] if topic else []), *place, last]


def row_renderer(form: RowForm, bodies: Bodies, *, topic: bool) -> Callable[[MessageExt], bytes]:
    """Return the renderer of lines whose fields are those of `form`, by default those of TSV."""
    last = "bodySize" if bodies.meta_only else "body"
    shown = form.names([*MESSAGE_FIELDS, last], _columns(bodies, topic=topic))
    read = [MESSAGE_FIELDS.get(key, partial(tsv_body, bodies=bodies)) for key in shown]
    heads = [tsv_bytes(line) for line in form.head(shown)]

    def render(message: MessageExt) -> bytes:
        head = heads.pop() if heads else b""
        return head + tsv_bytes(form.line(value(message) for value in read))

    return render


def member_renderer(form: RowForm, bodies: Bodies) -> Callable[[MessageExt], bytes]:
    """Return the renderer of JSON lines with the members that are asked for, as far as a message has them."""
    keys = [*MESSAGE_FIELDS, "body", "bodyBase64", "bodySize", "bodyCut"]
    names = form.names(keys, keys)

    def render(message: MessageExt) -> bytes:
        found = message_object(message, bodies)
        return json_line({name: found[name] for name in names if name in found}) + b"\n"

    return render
