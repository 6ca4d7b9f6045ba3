"""Masks on Arrow columns.

Strings become other strings, in every encoding of a column. Types do not change, except that a masked number
becomes a string.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from rmqcli.export.errors import MaskError


def list_of(column: Any, values: Any) -> Any:
    """Return a list column with other `values`, equal in number.

    Columns that are slices keep their offsets.
    """
    if not column.null_count:
        return pa.ListArray.from_arrays(column.offsets, values)
    whole = pa.concat_arrays([column])  # a mask needs offsets from 0
    begin = column.offsets[0].as_py()
    part = values.slice(begin, len(whole.values))
    return pa.ListArray.from_arrays(whole.offsets, part, mask=whole.is_null())


def struct_of(column: Any, parts: Sequence[Any]) -> Any:
    """Return a struct column with other fields of the same names."""
    fields = [pa.field(field.name, part.type) for field, part in zip(column.type, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=column.is_null())


def on_leaves(column: Any, change: Callable[[Any, Any], Any], kind: Any) -> Any:
    """Return a column of type `kind`, with each leaf replaced by `change(leaf, its type in kind)`."""
    if pa.types.is_struct(kind):
        parts = [
            on_leaves(part, change, field.type) for part, field in zip(column.flatten(), kind, strict=True)
        ]
        return struct_of(column, parts)
    if pa.types.is_list(kind):
        return list_of(column, on_leaves(column.values, change, kind.value_type))
    return change(column, kind)


DROP, HASH, KEEP = ACTIONS = ("drop", "hash", "keep-last-4")
# Masks of fields, as users write them: `properties.email:hash`, `body:drop`, `value.card:keep-last-4`.
#
# A column that has the same text as a masked field is masked with it: the property TAGS with `tags`, both ids
# with one of them, everything that comes from the body with the body. A mask of a field of `value` empties
# the body, which also contains the text.

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
"""Columns that contain the same text and are masked together, whichever of them a mask names."""
_OF_BODY = (Place("body"), Place("body_crc"), Place("value"), Place("value_error"))
EMPTIED: Mapping[str, tuple[Place, ...]] = {
    "body": _OF_BODY[1:],
    "value": (*_OF_BODY[:2], Place("value_error")),
    "value.": _OF_BODY[:2],
}
"""The columns to empty because they reveal the text, by masked column; `value.` means a field of it."""


@dataclass(frozen=True, slots=True)
class Masks:
    """Actions by column, and the key of hashes, or b"". `given` are the masks as the user wrote them."""

    given: tuple[str, ...] = ()
    actions: tuple[tuple[Place, str], ...] = ()
    key: bytes = field(default=b"", repr=False)

    @property
    def key_mark(self) -> str | None:
        """Four bytes that distinguish keys, so that an export is continued with the same key."""
        return hmac.digest(self.key, b"rmq mask key", "sha256")[:4].hex() if self.key else None

    @property
    def hide_value(self) -> bool:
        """True if `value` is null in every row."""
        return (Place("value"), DROP) in self.actions

    def field(self, field: Any) -> Any:
        """Return the Arrow field of a column after masking. Raises MaskError if a mask does not fit it."""

        for place, action in self.actions:
            if place.column == field.name:
                field = field.with_type(masked_type(field.type, place, action))
        return field

    def apply(self, batch: Any) -> Any:
        """Return the batch with masked columns. Columns that it does not have are ignored."""

        for place, action in self.actions:
            number = batch.schema.get_field_index(place.column)
            if number >= 0:
                column = masked(batch.column(number), place, action, self.key)
                batch = batch.set_column(number, batch.schema.field(number).with_type(column.type), column)
        return batch


def parse_masks(texts: Sequence[str], key: bytes = b"", *, has_value: bool = False) -> Masks:
    """Return the masks of strings FIELD:ACTION. Raises MaskError, which quotes the string.

    `has_value`: bodies are decoded, so that `value` has fields.
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
    """Yield the columns covered by a mask, each with its action."""
    for same in SAME_TEXT.get(place, (place,)):
        yield same, action
    for other in EMPTIED.get(f"{place.column}." if place.part else place.column, ()):
        yield other, DROP


def read_key(path: Path) -> bytes:
    """Return the content of a file without line ends.

    Raises MaskError if it is too short or too long for a key.
    """
    with path.open("rb") as file:
        key = file.read(_MAX_KEY_BYTES + 1).rstrip(b"\r\n")
    if not MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES:
        raise MaskError(
            f"{path}: a key has {MIN_KEY_BYTES} bytes or more (and at most 64 KiB): openssl rand -hex 32 > {path}"
        )
    return key


Change = Callable[[Any], Any]
"""Converts text to text, and bytes to bytes."""

_KEPT = 4
_LEAST = 2 * _KEPT
"""Nothing is kept of shorter strings, because the last characters would be most of the string."""
_WITHHELD = "****"


def masked_type(kind: Any, place: Place, action: str) -> Any:
    """Return the type of a masked column. Raises MaskError if it cannot be masked in this way."""
    if place.column != "value":
        return kind
    return _path_type(kind, place.part.split(".") if place.part else [], place, action)


def _path_type(kind: Any, path: list[str], place: Place, action: str) -> Any:
    if not path and action == DROP:
        return kind
    if t.is_list(kind):
        return pa.list_(_path_type(kind.value_type, path, place, action))
    if not path:
        return _leaf_type(kind, place, action)
    if not t.is_struct(kind) or kind.get_field_index(path[0]) < 0:
        names = ", ".join(field.name for field in kind) if t.is_struct(kind) else "none"
        raise MaskError(f"--mask {place}: there is no field {path[0]}; fields there: {names}")
    return pa.struct(
        [
            field.with_type(_path_type(field.type, path[1:], place, action))
            if field.name == path[0]
            else field
            for field in kind
        ]
    )


def _leaf_type(kind: Any, place: Place, action: str) -> Any:
    if t.is_string(kind) or t.is_binary(kind):
        return kind
    if t.is_integer(kind) or t.is_decimal(kind):
        return pa.string()
    raise MaskError(f"--mask {place}:{action}: it is {kind}: only texts, bytes and whole numbers; use drop")


def masked(column: Any, place: Place, action: str, key: bytes) -> Any:
    """Return a masked column. A dictionary, or views, keep their encoding."""
    change = _CHANGES.get(action, partial(_hashed, key)) if action != DROP else None
    if place.column == "properties":
        return _properties(column, place.part, change)
    if place.column == "value" and place.part:
        return _at(column, place.part.split("."), change)
    return _texts(column, change)


def _hashed(key: bytes, text: Any) -> Any:
    """Return HMAC-SHA256, or SHA-256 without a key, as hexadecimal digits."""
    data = text.encode() if isinstance(text, str) else text
    found = hmac.digest(key, data, "sha256").hex() if key else sha256(data).hexdigest()
    return found if isinstance(text, str) else found.encode()


def _last(text: Any) -> Any:
    withheld = _WITHHELD if isinstance(text, str) else _WITHHELD.encode()
    return withheld + text[-_KEPT:] if len(text) >= _LEAST else withheld


_CHANGES: dict[str, Change] = {KEEP: _last}


def _texts(column: Any, change: Change | None) -> Any:
    """Return a column of strings, bytes, numbers, or lists of these, with changed values."""
    kind = column.type
    if change is None:
        return pa.nulls(len(column), kind)
    if t.is_list(kind):
        return list_of(column, _texts(column.values, change))
    if t.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _texts(column.dictionary, change))
    plain = column if t.is_string(kind) else column.cast(_plain(kind))
    # Each distinct value is changed only once.
    coded = plain.dictionary_encode()
    changed = [None if one is None else change(one) for one in coded.dictionary.to_pylist()]
    found = pa.array(changed, plain.type).take(coded.indices)
    return found.cast(kind) if kind == pa.binary_view() else found


def _plain(kind: Any) -> Any:
    return pa.binary() if kind in (pa.binary(), pa.binary_view()) else pa.string()


def _at(column: Any, path: list[str], change: Change | None) -> Any:
    """Return a column of structs, or of lists of structs, with a masked field."""
    if not path:
        return _texts(column, change)
    if t.is_list(column.type):
        return list_of(column, _at(column.values, path, change))
    number = column.type.get_field_index(path[0])
    parts = column.flatten()
    parts[number] = _at(parts[number], path[1:], change)
    return struct_of(column, parts)


def _properties(column: Any, name: str, change: Change | None) -> Any:
    """Return a map column with one property masked, or all of them."""
    if not name:
        return (
            pa.nulls(len(column), column.type)
            if change is None
            else _with_items(column, _texts(column.items, change))
        )
    names = column.keys
    chosen = pc.equal(names.dictionary_decode() if t.is_dictionary(names.type) else names, name)
    if change is None:
        return _without(column, chosen)
    each = partial(_words, change) if name == "KEYS" else change
    masks = _texts(column.items.filter(chosen), each)
    return _with_items(column, pc.replace_with_mask(column.items, chosen, masks))


def _with_items(column: Any, items: Any) -> Any:
    return _map(column.offsets, column.keys, items, column.type)


def _without(column: Any, chosen: Any) -> Any:
    """Return a map column without the chosen entries."""
    kept = pc.invert(chosen)
    before = pa.array(np.append(0, np.cumsum(kept.to_numpy(zero_copy_only=False))), pa.int32())
    return _map(before.take(column.offsets), column.keys.filter(kept), column.items.filter(kept), column.type)


def _map(offsets: Any, names: Any, items: Any, kind: Any) -> Any:
    found = pa.MapArray.from_arrays(offsets, names, items)
    return found if found.type == kind else found.cast(kind)


def _words(change: Change, text: str) -> str:
    """Change each key in the property KEYS, as in the column `keys`."""
    return " ".join(change(word) for word in text.split(" ") if word)
