r"""The text of a message's properties as pairs: `name \x01 value \x02` (`rmqcli.codec.properties` has the rules)."""

from __future__ import annotations

from typing import Final

NAME_VALUE_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"


def read_pairs(text: str) -> dict[str, str]:
    """Return the pairs of any text; parts without a name or a value are skipped."""
    found: dict[str, str] = {}
    for pair in text.split(PROPERTY_SEPARATOR):
        name, _, value = pair.partition(NAME_VALUE_SEPARATOR)
        if name and value:
            found[name] = value
    return found


def write_pairs(properties: dict[str, str], name: str = "", value: str = "") -> str:
    """Return the text that `read_pairs` reads as these pairs, followed by the pair of `name` and `value` if
    there is a name; "" if no text would. Raises TypeError for a value that is not a text.
    """
    pairs: list[str] = []
    for key, text in properties.items():
        if not key or not text or NAME_VALUE_SEPARATOR in key:
            return ""
        pairs.append(f"{key}{NAME_VALUE_SEPARATOR}{text}")
    if name:
        pairs.append(f"{name}{NAME_VALUE_SEPARATOR}{value}")
    # A separator in a name or value would split its pair in two.
    whole = PROPERTY_SEPARATOR.join(pairs)
    return whole if whole.count(PROPERTY_SEPARATOR) == len(pairs) - 1 else ""
