r"""FORMAT: the output format of each message.

    %t topic               %b broker
    %q queue               %o queue offset
    %k keys, space-joined  %g tag
    %v body                %s bytes of the body
    %h{NAME} one property  %h all properties
    %d store time          %D born time
    %i message ID          %I offset message ID
    %p commit-log offset   %S stored bytes
    %f flag                %r reconsume times
    %B born host           %H store host
    %j JSON line           %% percent sign

Control bytes of values, other than \n and \t, are written \xNN, and so are bytes that are not UTF-8; --raw
writes them as they are.

Any verb except %% may be followed by one modifier: {hex}, {base64} or {json}. Times also accept {ms} (epoch
milliseconds), {utc} (ISO) or a strftime pattern such as {%H:%M:%S}. Escapes: \n \t \r \0 \\ \xNN. Nothing is
added between messages: end the format with \n.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rmqcli.codec.message import MessageExt
from rmqcli.grammar.values import ESCAPES, KNOWN, GrammarError
from rmqcli.render.message_json import message_line
from rmqcli.render.output import encode_text, escape_controls, json_line
from rmqcli.render.text import local_time

Part = Callable[[MessageExt], bytes]
Value = Callable[[MessageExt], Any]
Modifiers = Mapping[str, Callable[[Any], bytes]]


def whole_body(message: MessageExt) -> bytes:
    return message.body


class _Verbs(NamedTuple):
    """The texts of verbs and modifiers, according to the options."""

    values: Mapping[str, Value]
    modifiers: Modifiers


_VALUES: Mapping[str, Value] = {
    "t": lambda m: m.topic,
    "q": lambda m: m.queue_id,
    "o": lambda m: m.queue_offset,
    "b": lambda m: m.broker_name,
    "k": lambda m: m.keys,
    "g": lambda m: m.tags,
    "v": whole_body,
    "s": lambda m: len(m.body),
    "f": lambda m: m.flag,
    "r": lambda m: m.reconsume_times,
    "i": lambda m: m.msg_id,
    "I": lambda m: m.offset_msg_id,
    "p": lambda m: m.commit_log_offset,
    "S": lambda m: m.store_size,
    "B": lambda m: m.born_host,
    "H": lambda m: m.store_host,
}
_TIMES: Mapping[str, Callable[[MessageExt], int]] = {
    "d": lambda m: m.store_timestamp,
    "D": lambda m: m.born_timestamp,
}
_TOKEN = re.compile(
    r"\\x(?P<byte>[0-9a-fA-F]{2})|\\(?P<escape>.)|%(?P<verb>.)(?P<braces>(?:\{[^{}]*\})*)|(?P<text>[^\\%]+)",
    re.S,
)


def parse_format(text: str, *, raw: bool = False, body: Part = whole_body, line: Part = message_line) -> Part:
    """Return the function that formats a message. Raise GrammarError, which gives the position, for an
    invalid format.

    `raw`: values as they are. `body` returns the part of the body to show, `line` the JSON line.
    """
    verbs = _Verbs({**_VALUES, "v": body, "j": line}, _MODIFIERS if raw else {**_MODIFIERS, "": _escaped})
    parts: list[Part] = []
    place = 0
    while place < len(text):
        token = _TOKEN.match(text, place)
        if token is None:
            raise _error(text, place, "incomplete verb or escape")
        parts.append(_part(text, token, verbs))
        place = token.end()
    return lambda message: b"".join([part(message) for part in parts])


def _error(text: str, place: int, reason: str) -> GrammarError:
    return GrammarError(f"--format {text!r}, character {place + 1}: {reason}")


def _part(text: str, token: re.Match[str], verbs: _Verbs) -> Part:
    if token["text"] is not None:
        return _constant(encode_text(token["text"]))
    if token["byte"] is not None:
        return _constant(bytes([int(token["byte"], 16)]))
    if token["escape"] is not None:
        if token["escape"] not in ESCAPES:
            raise _error(text, token.start(), rf"unknown escape \{token['escape']}; {KNOWN}")
        return _constant(ESCAPES[token["escape"]])
    return _verb(text, token, verbs)


def _constant(data: bytes) -> Part:
    return lambda message: data


def _verb(text: str, token: re.Match[str], verbs: _Verbs) -> Part:
    verb, braces = token["verb"], re.findall(r"\{([^{}]*)\}", token["braces"])
    if verb == "%":
        return _constant(b"%" + encode_text(token["braces"]))
    if text.startswith("{", token.end()):
        raise _error(text, token.end(), r"unclosed brace; write \x7b for a literal one")
    # JSON has escaped control characters already.
    if verb == "j":
        return _modified(verbs.values["j"], braces, text, token, _MODIFIERS)
    if verb == "h":
        return _property(braces, text, token, verbs.modifiers)
    if verb in _TIMES:
        return _time(_TIMES[verb], braces, text, token)
    if verb not in _VALUES:
        known = " ".join(f"%{name}" for name in sorted([*_VALUES, *_TIMES, "h", "j", "%"]))
        raise _error(text, token.start(), f"unknown verb %{verb}; use one of {known}")
    return _modified(verbs.values[verb], braces, text, token, verbs.modifiers)


def _property(braces: list[str], text: str, token: re.Match[str], modifiers: Modifiers) -> Part:
    if not braces or braces[0] in _MODIFIERS:
        return _modified(lambda m: m.properties, braces, text, token, modifiers)
    name = braces[0]
    return _modified(lambda m: m.properties.get(name), braces[1:], text, token, modifiers)


def _modified(value: Value, braces: list[str], text: str, token: re.Match[str], modifiers: Modifiers) -> Part:
    if len(braces) > 1:
        raise _error(text, token.start("braces"), "only one modifier is allowed")
    modifier = braces[0] if braces else ""
    if modifier not in _MODIFIERS:
        known = ", ".join(f"{{{name}}}" for name in _MODIFIERS if name)
        raise _error(text, token.start("braces"), f"unknown modifier {{{modifier}}}; use one of {known}")
    change = modifiers[modifier]
    return lambda message: change(value(message))


def _plain(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, list):
        return encode_text(" ".join(value))
    if isinstance(value, dict):
        return encode_text(",".join(f"{name}={text}" for name, text in value.items()))
    return b"" if value is None else encode_text(str(value))


def _escaped(value: Any) -> bytes:
    return escape_controls(_plain(value))


def _as_json(value: Any) -> bytes:
    if not isinstance(value, bytes):
        return json_line(value)
    try:
        return json_line(value.decode())
    except UnicodeDecodeError:
        return json_line(value.decode("utf-8", "backslashreplace"))


_MODIFIERS: Modifiers = {
    "": _plain,
    "hex": lambda value: binascii.hexlify(_plain(value)),
    "base64": lambda value: binascii.b2a_base64(_plain(value), newline=False),
    "json": _as_json,
}


def _utc(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def _iso_local(milliseconds: int) -> str:
    return local_time(milliseconds).replace(" ", "T")


_TIME_FORMS: Mapping[str, Callable[[int], str]] = {"": _iso_local, "iso": _iso_local, "ms": str, "utc": _utc}


def _time(read: Callable[[MessageExt], int], braces: list[str], text: str, token: re.Match[str]) -> Part:
    form = braces[0] if braces else ""
    if "%" in form and len(braces) == 1:
        return lambda m: encode_text(datetime.fromtimestamp(read(m) / 1000).strftime(form))
    if form in _TIME_FORMS and len(braces) < 2:
        show = _TIME_FORMS[form]
        return lambda m: encode_text(show(read(m)))
    return _modified(read, braces, text, token, _MODIFIERS)
