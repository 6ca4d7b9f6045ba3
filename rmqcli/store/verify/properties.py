"""Whether a properties text is one that a broker writes. Readers drop what does not parse without a word, no CRC covers it."""

from __future__ import annotations

__all__ = ["mended_properties", "properties_problem"]

_NAME_END = b"\x01"
_PAIR_END = b"\x02"


def properties_problem(text: bytes) -> str | None:
    """What does not parse: text that is no UTF-8, a pair without a name. None for a good text."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"its properties do not parse: byte {error.start} of them is no UTF-8"
    bad = next((pair for pair in text.split(_PAIR_END) if not _has_name(pair)), None)
    return None if bad is None else f"its properties do not parse: a pair without a name, {bad[:20]!r}"


def mended_properties(text: bytes) -> bytes:
    """A text of the same length with the pairs that can be read; ends of pairs in place of the others."""
    pairs = text.split(_PAIR_END)
    return _PAIR_END.join(pair if _is_good(pair) else _PAIR_END * len(pair) for pair in pairs)


def _has_name(pair: bytes) -> bool:
    return not pair or pair.find(_NAME_END) > 0


def _is_good(pair: bytes) -> bool:
    return properties_problem(pair) is None
