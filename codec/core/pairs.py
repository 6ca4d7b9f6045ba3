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
