r"""The properties text of a message: `name \x01 value \x02` for each pair, in UTF-8 (Java class
`MessageDecoder`).

4.9 omits the last separator, 5.x writes it; both are read. A pair with an empty name or value is dropped
silently. If two pairs have the same name, the last one counts. A value may contain \x01. The order of pairs
has no meaning. Bytes that are not UTF-8 are read as U+FFFD, and a lone surrogate is written as `?`, as in
Java.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqcli.codec.core.property_pairs import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR, read_pairs
from rmqcli.codec.errors import PropertiesTooLong
from rmqcli.codec.property_names import MAX_PROPERTIES_LENGTH

_NAME_END, _PAIR_END = NAME_VALUE_SEPARATOR.encode(), PROPERTY_SEPARATOR.encode()


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Encode pairs as 4.9 does, without the last separator. Raises PropertiesTooLong over 32,767 bytes."""
    text = PROPERTY_SEPARATOR.join([f"{name}\x01{value}" for name, value in properties.items()])
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_PROPERTIES_LENGTH:
        raise PropertiesTooLong(
            f"the properties take {len(data)} bytes, the limit is {MAX_PROPERTIES_LENGTH}"
        )
    return data


def decode_properties(data: bytes | bytearray | memoryview | str) -> dict[str, str]:
    """Return the pairs of a properties text, which may be any text."""
    return read_pairs(data if isinstance(data, str) else str(data, "utf-8", "replace"))


def properties_problem(text: bytes) -> str | None:
    """Return the reason why a text does not parse (it is not UTF-8, or a pair has no name), or None for a
    sound text.
    """
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"its properties do not parse: byte {error.start} of them is not UTF-8"
    bad = next((pair for pair in text.split(_PAIR_END) if pair and pair.find(_NAME_END) < 1), None)
    return None if bad is None else f"its properties do not parse: a pair without a name, {bad[:20]!r}"


def sound_text(text: bytes, properties: Mapping[str, str]) -> bytes:
    """Return a text that parses: `text` itself, or the pairs that were read from it. Raises
    PropertiesTooLong.

    Readers of a store regard a record whose properties do not parse as damaged.
    """
    ends = text.count(_PAIR_END) - text.endswith(_PAIR_END)
    # If the text has as many separators as pairs were read, none of them lacks a name.
    if (ends == len(properties) - 1 and text.isascii()) or properties_problem(text) is None:
        return text
    return encode_properties(properties)


def mended_properties(text: bytes) -> bytes:
    """Return a text of the same length with the readable pairs; separators replace the others."""
    pairs = text.split(_PAIR_END)
    return _PAIR_END.join(pair if not properties_problem(pair) else _PAIR_END * len(pair) for pair in pairs)
