r"""The text of a message's properties as pairs: `name \x01 value \x02` (`codec.properties` has the rules)."""

from __future__ import annotations

from typing import Final

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"


def read_pairs(text: str) -> dict[str, str]:
    """Return the pairs of any text."""
    found: dict[str, str] = {}
    for pair in text.split(PROPERTY_SEPARATOR):
        name, _, value = pair.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            found[name] = value
    return found


def write_pairs(properties: dict[str, str]) -> str:
    """Return the text that `read_pairs` reads as these pairs; "" if there is none. Raises TypeError for a
    value that is not a text.
    """
    pairs: list[str] = []
    for name, value in properties.items():
        if not name or not value:
            return ""
        pairs.append(f"{name}{NAME_VALUE_SEPARATOR}{value}")
    text = PROPERTY_SEPARATOR.join(pairs)
    return text if text.count(PROPERTY_SEPARATOR) == len(pairs) - 1 else ""
