"""Masks on Arrow columns. Texts become other texts, in every encoding of a column; types stay, except that a
masked number is a text.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from codec.scan.arrays import ends_of
from rmqcli.export.errors import MaskError
from rmqcli.export.transform.masks import DROP, KEEP, Place
from rmqcli.export.transform.nested import list_of, struct_of

Change = Callable[[Any], Any]
"""Text to text, and bytes to bytes."""

_KEPT = 4
_LEAST = 2 * _KEPT
"""Shorter texts keep nothing: most of them would be in the rest."""
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
    """Return a masked column; one that is a dictionary, or views, stays so."""
    change = _CHANGES.get(action, partial(_hashed, key)) if action != DROP else None
    if place.column == "properties":
        return _properties(column, place.part, change)
    if place.column == "value" and place.part:
        return _at(column, place.part.split("."), change)
    return _texts(column, change)


def _hashed(key: bytes, text: Any) -> Any:
    """HMAC-SHA256, without a key SHA-256, as hexadecimal digits."""
    data = text.encode() if isinstance(text, str) else text
    found = hmac.digest(key, data, "sha256").hex() if key else sha256(data).hexdigest()
    return found if isinstance(text, str) else found.encode()


def _last(text: Any) -> Any:
    withheld = _WITHHELD if isinstance(text, str) else _WITHHELD.encode()
    return withheld + text[-_KEPT:] if len(text) >= _LEAST else withheld


_CHANGES: dict[str, Change] = {KEEP: _last}


def _texts(column: Any, change: Change | None) -> Any:
    """Return a column of texts, bytes, numbers, or lists of them, with changed values."""
    kind = column.type
    if change is None:
        return pa.nulls(len(column), kind)
    if t.is_list(kind):
        return list_of(column, _texts(column.values, change))
    if t.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _texts(column.dictionary, change))
    plain = column if t.is_string(kind) else column.cast(_plain(kind))
    coded = plain.dictionary_encode()
    changed = [None if one is None else change(one) for one in coded.dictionary.to_pylist()]
    found = pa.array(changed, plain.type).take(coded.indices)
    return found.cast(kind) if kind == pa.binary_view() else found


def _plain(kind: Any) -> Any:
    return pa.binary() if kind in (pa.binary(), pa.binary_view()) else pa.string()


def _at(column: Any, path: list[str], change: Change | None) -> Any:
    """Return a column of structs, or of lists of them, with a masked field."""
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
    before = pa.array(ends_of(kept.to_numpy(zero_copy_only=False)))
    return _map(before.take(column.offsets), column.keys.filter(kept), column.items.filter(kept), column.type)


def _map(offsets: Any, names: Any, items: Any, kind: Any) -> Any:
    found = pa.MapArray.from_arrays(offsets, names, items)
    return found if found.type == kind else found.cast(kind)


def _words(change: Change, text: str) -> str:
    """Change each key of the property KEYS, as the column `keys` has them."""
    return " ".join(change(word) for word in text.split(" ") if word)
