"""The shown part of bodies and properties: all, a beginning, with letters and digits replaced, or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rmqcli.codec.property_names import RESERVED
from rmqcli.render.text import Bodies, size

FORMS = ("json", "text", "hex")
_LOWER, _UPPER, _DIGIT = re.compile(r"[^\W\d_A-Z]"), re.compile(r"[A-Z]"), re.compile(r"\d")
_ROW_BYTES = 16
PREVIEW = 120  # characters
_encode = msgspec.json.Encoder().encode


class Shown(NamedTuple):
    """A body in one of its forms; `text` is None if it is hidden. `note` describes what is not shown."""

    form: str
    text: str | None
    note: str = ""


class Content(NamedTuple):
    """The part of a message that is shown. `limit` is the maximum number of bytes of a body."""

    limit: int = 64 * 1024
    is_masked: bool = False
    is_hidden: bool = False

    def body(self, body: bytes, form: str | None = None, whole: int | None = None) -> Shown:
        """Return a body in a form, by default the first that fits. `whole` is its size if it was cut."""
        if self.is_hidden:
            return Shown(form or "text", None, "Bodies are hidden (--no-bodies).")
        cut = Bodies(limit=self.limit).cut(body)
        whole = len(body) if whole is None else whole
        notes = [] if len(cut) == whole else [f"The first {size(len(cut))} of {size(whole)} are shown."]
        chosen = form if form in FORMS else _form_of(cut)
        if self.is_masked:
            notes.append("Letters and digits are masked (--mask).")
            if chosen == "hex" or not _is_text(cut):
                return Shown("hex", None, "Bytes that are not text are hidden (--mask).")
        text, problem = self._written(cut, chosen)
        return Shown(chosen if not problem else "text", text, " ".join(filter(None, [problem, *notes])))

    def _written(self, body: bytes, form: str) -> tuple[str, str]:
        if form == "hex":
            return _hex(body), ""
        if form == "json":
            try:
                value = msgspec.json.decode(body)
                # The original text of the body: decoding and encoding a value may change its numbers.
                whole = _encode(_masked_values(value)) if self.is_masked else body
                return msgspec.json.format(whole, indent=2).decode(), ""
            except (msgspec.DecodeError, RecursionError):
                return self._text(body), "It is not JSON."
        return self._text(body), ""

    def _text(self, body: bytes) -> str:
        text = body.decode("utf-8", "surrogateescape")
        return masked(text) if self.is_masked else text

    def preview(self, body: bytes) -> str:
        """Return the beginning of a body, for a line of a table."""
        if self.is_hidden:
            return ""
        begin = body[: 4 * PREVIEW]
        if not _is_text(Bodies(limit=4 * PREVIEW).cut(body)):
            return "" if self.is_masked else f"{begin[:24].hex(' ')} …"
        text = begin.decode("utf-8", "ignore")
        if self.is_masked:
            text = masked(text)
        return text if len(text) <= PREVIEW and len(begin) == len(body) else f"{text[:PREVIEW]}…"

    def properties(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties; those of applications are masked and hidden as bodies are."""
        if not (self.is_masked or self.is_hidden):
            return dict(properties)
        hide = masked if not self.is_hidden else lambda _: "hidden"
        return {name: value if name in RESERVED else hide(value) for name, value in properties.items()}


def masked(text: str) -> str:
    """Return text of the same shape: `Ann Lee, 4711` becomes `Xxx Xxx, 9999`."""
    return _LOWER.sub("x", _UPPER.sub("X", _DIGIT.sub("9", text)))


def _masked_values(value: Any) -> Any:
    """Return a JSON value with masked strings and numbers; names are kept."""
    match value:
        case dict():
            return {name: _masked_values(one) for name, one in value.items()}
        case list():
            return [_masked_values(one) for one in value]
        case bool() | None:
            return value
        case str():
            return masked(value)
    return 9


def _form_of(body: bytes) -> str:
    if not _is_text(body):
        return "hex"
    return "json" if body[:1] in (b"{", b"[") else "text"


def _is_text(body: bytes) -> bool:
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False


def _hex(body: bytes) -> str:
    rows = (body[at : at + _ROW_BYTES] for at in range(0, len(body), _ROW_BYTES))
    return "\n".join(
        f"{number * _ROW_BYTES:08x}  {row.hex(' '):<{3 * _ROW_BYTES}} {''.join(map(_visible, row))}"
        for number, row in enumerate(rows)
    )


def _visible(byte: int) -> str:
    return chr(byte) if 0x20 <= byte < 0x7F else "."
