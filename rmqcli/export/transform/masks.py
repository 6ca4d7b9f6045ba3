"""Masks of fields, as users write them: `properties.email:hash`, `body:drop`, `value.card:keep-last-4`.

A column that has the same text as a masked field is masked with it: the property TAGS with `tags`, both ids
with one of them, everything that comes from the body with the body. A mask of a field of `value` empties the
body, in which the text is, too.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from rmqcli.export.errors import MaskError

DROP, HASH, KEEP = ACTIONS = ("drop", "hash", "keep-last-4")
MIN_KEY_BYTES = 16
_MAX_KEY_BYTES = 1 << 16


class Place(NamedTuple):
    """A column, or a part of one: the name of a property, or the path of a field of `value`."""

    column: str
    part: str = ""

    def __str__(self) -> str:
        return f"{self.column}.{self.part}" if self.part else self.column


_IDS = (Place("msg_id"), Place("offset_msg_id"), Place("properties", "UNIQ_KEY"))
_TAGS = (Place("tags"), Place("properties", "TAGS"))
_KEYS = (Place("keys"), Place("properties", "KEYS"))
_EVERY_PROPERTY = (Place("properties"), Place("tags"), Place("keys"), Place("msg_id"), Place("offset_msg_id"))
SAME_TEXT: Mapping[Place, tuple[Place, ...]] = {
    Place("tags"): _TAGS,
    Place("properties", "TAGS"): _TAGS,
    Place("keys"): _KEYS,
    Place("properties", "KEYS"): _KEYS,
    Place("msg_id"): _IDS,
    Place("offset_msg_id"): _IDS,
    Place("properties", "UNIQ_KEY"): _IDS,
    Place("properties"): _EVERY_PROPERTY,
    Place("born_host"): (Place("born_host"),),
    Place("store_host"): (Place("store_host"),),
    Place("body"): (Place("body"),),
    Place("value"): (Place("value"),),
}
"""The places that are masked together, in the way that one of them is."""
_OF_BODY = (Place("body"), Place("body_crc"), Place("value"), Place("value_error"))
EMPTIED: Mapping[str, tuple[Place, ...]] = {
    "body": _OF_BODY[1:],
    "value": (*_OF_BODY[:2], Place("value_error")),
    "value.": _OF_BODY[:2],
}
"""By column, `value.` for a field of it: the places that are emptied as they tell the text, too."""


@dataclass(frozen=True, slots=True)
class Masks:
    """Actions by place, and the key of hashes, b"" for none. `given` are the masks as the user wrote them."""

    given: tuple[str, ...] = ()
    actions: tuple[tuple[Place, str], ...] = ()
    key: bytes = field(default=b"", repr=False)

    @property
    def key_mark(self) -> str | None:
        """Four bytes that tell one key from another, to continue an export with the same."""
        return hmac.digest(self.key, b"rmq mask key", "sha256")[:4].hex() if self.key else None

    @property
    def hide_value(self) -> bool:
        """Returns True if `value` is null in every row."""
        return (Place("value"), DROP) in self.actions

    def field(self, field: Any) -> Any:
        """Return the Arrow field of a column behind the masks. Raises MaskError if one does not fit it."""
        from rmqcli.export.transform.masking import masked_type

        for place, action in self.actions:
            if place.column == field.name:
                field = field.with_type(masked_type(field.type, place, action))
        return field

    def apply(self, batch: Any) -> Any:
        """Return the batch with masked columns; columns that it does not have are passed over."""
        from rmqcli.export.transform.masking import masked

        for place, action in self.actions:
            number = batch.schema.get_field_index(place.column)
            if number >= 0:
                column = masked(batch.column(number), place, action, self.key)
                batch = batch.set_column(number, batch.schema.field(number).with_type(column.type), column)
        return batch


def parse_masks(texts: Sequence[str], key: bytes = b"", *, has_value: bool = False) -> Masks:
    """Return masks of texts FIELD:ACTION. Raises MaskError, which quotes the text.

    `has_value`: bodies are decoded, so that there are fields of `value`.
    """
    chosen: dict[Place, tuple[str, str]] = {}
    for text in texts:
        place, action = _parsed(text)
        if place.column == "value" and not has_value:
            raise MaskError(f"--mask {text}: value is a column of --decode")
        for covered, by in _covered(place, action):
            _require_same(chosen.setdefault(covered, (by, text)), (by, text))
    parts = [place for place in chosen if place.part and Place(place.column) in chosen]
    for place in parts:
        _require_same(chosen[Place(place.column)], chosen[place])
    if key and not any(action == HASH for action, _ in chosen.values()):
        raise MaskError("--mask-key-file requires a mask FIELD:hash")
    actions = ((place, action) for place, (action, _) in chosen.items() if place not in parts)
    return Masks(tuple(texts), tuple(actions), key)


def _require_same(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Raise MaskError if two masks (action, text) of the same text differ."""
    if one[0] != other[0]:
        raise MaskError(
            f"--mask {one[1]} and {other[1]}: they mask the same text in two ways: keep one of them"
        )


def _parsed(text: str) -> tuple[Place, str]:
    name, _, action = text.rpartition(":")
    if action not in ACTIONS:
        raise MaskError(f"--mask {text}: expected FIELD:ACTION, with the action {', '.join(ACTIONS)}")
    column, dot, part = name.partition(".")
    place = Place(column, part)
    is_part = column in ("properties", "value") and bool(part)
    if not (is_part if dot else place in SAME_TEXT):
        names = ", ".join(str(place) for place in SAME_TEXT if not place.part)
        raise MaskError(f"--mask {text}: {name} cannot be masked, only {names}, properties.NAME, value.FIELD")
    return place, action


def _covered(place: Place, action: str) -> Iterable[tuple[Place, str]]:
    """Yield the places that a mask covers, with what is done to each."""
    for same in SAME_TEXT.get(place, (place,)):
        yield same, action
    for other in EMPTIED.get(f"{place.column}." if place.part else place.column, ()):
        yield other, DROP


def read_key(path: Path) -> bytes:
    """Return the content of a file without line ends. Raises MaskError if it is too short to be a key."""
    with path.open("rb") as file:
        key = file.read(_MAX_KEY_BYTES + 1).rstrip(b"\r\n")
    if not MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise MaskError(
            f"{path}: a key has {MIN_KEY_BYTES} bytes or more (and at most 64 KiB): openssl rand -hex 32 > {path}"
        )
    return key
