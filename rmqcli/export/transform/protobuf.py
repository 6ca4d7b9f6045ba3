"""Bodies that are protobuf messages, and messages of a compiled descriptor set (.desc) as Arrow types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError as ProtobufError

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform.columns import canonical, paths
from rmqcli.export.transform.decoder import Undecodable, array_of

# Messages of a compiled descriptor set (.desc) as Arrow types, and how a value of each field is read.
#
# `protoc --include_imports --descriptor_set_out=FILE` writes such a file. A field without presence (proto3) has
# its default when it is not set; one with presence is null. Maps are in the order of their keys.

MOMENT = pa.timestamp("us", tz="UTC")
F = FieldDescriptor
TYPES: Mapping[int, pa.DataType] = {
    F.TYPE_DOUBLE: pa.float64(),
    F.TYPE_FLOAT: pa.float32(),
    F.TYPE_INT32: pa.int32(),
    F.TYPE_SINT32: pa.int32(),
    F.TYPE_SFIXED32: pa.int32(),
    F.TYPE_UINT32: pa.int64(),
    F.TYPE_FIXED32: pa.int64(),
    F.TYPE_INT64: pa.int64(),
    F.TYPE_SINT64: pa.int64(),
    F.TYPE_SFIXED64: pa.int64(),
    F.TYPE_UINT64: pa.decimal128(20, 0),
    F.TYPE_FIXED64: pa.decimal128(20, 0),
    F.TYPE_BOOL: pa.bool_(),
    F.TYPE_STRING: pa.string(),
    F.TYPE_BYTES: pa.binary(),
    F.TYPE_ENUM: pa.string(),
}
"""Arrow types by protobuf type.

Spark has no unsigned numbers, so these get the next larger type; an enum becomes the name of its value.
"""
_UNSIGNED = (F.TYPE_UINT64, F.TYPE_FIXED64)
_TIMESTAMP = "google.protobuf.Timestamp"

Convert = Callable[[Any], Any]


class Typed(NamedTuple):
    """An Arrow type, and the conversion of a value for Arrow (None: none needed)."""

    kind: pa.DataType
    convert: Convert | None = None


def message_class(schema: bytes, name: str) -> Any:
    """Return the class of a message. Raises SchemaError."""
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(schema)
    except ProtobufError:
        raise SchemaError(
            "not a descriptor set: protoc --include_imports --descriptor_set_out=FILE"
        ) from None
    try:
        for file in files.file:
            pool.Add(file)
    except TypeError as error:
        raise SchemaError(
            f"{' '.join(str(error).split())} (protoc --include_imports adds imported files)"
        ) from None
    try:
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError:
        known = ", ".join(
            f"{file.package}.{one.name}".lstrip(".") for file in files.file for one in file.message_type
        )
        raise SchemaError(f"has no message {name}; it has {known or 'none'}") from None


def typed_message(descriptor: Descriptor, above: tuple[str, ...] = ()) -> Typed:
    """Return the type of a message. Raises SchemaError."""
    name = descriptor.full_name
    if name in above:
        raise SchemaError(f"message {name} contains itself: such a type has no columns")
    if not descriptor.fields:
        raise SchemaError(f"message {name} has no fields, so it has no columns")
    fields = {field: _typed(field, (*above, name)) for field in descriptor.fields}
    kind = pa.struct([pa.field(field.name, one.kind, not field.is_required) for field, one in fields.items()])
    return Typed(
        kind, partial(_values, [(one.name, one.has_presence, it.convert) for one, it in fields.items()])
    )


def _typed(field: Any, above: tuple[str, ...]) -> Typed:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        key, value = (_one(inner.fields_by_name[name], above) for name in ("key", "value"))
        return Typed(pa.map_(key.kind, value.kind), partial(_pairs, key.convert, value.convert))
    one = _one(field, above)
    return Typed(pa.list_(one.kind), partial(_each, one.convert)) if field.is_repeated else one


def _one(field: Any, above: tuple[str, ...]) -> Typed:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return Typed(MOMENT, _micros)
        return typed_message(field.message_type, above)
    if field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return Typed(TYPES[field.type], partial(_name, names))
    return Typed(TYPES[field.type], Decimal if field.type in _UNSIGNED else None)


def _values(fields: list[tuple[str, bool, Convert | None]], message: Any) -> dict[str, Any]:
    found = {}
    for name, has_presence, convert in fields:
        value = None if has_presence and not message.HasField(name) else getattr(message, name)
        found[name] = value if value is None or convert is None else convert(value)
    return found


def _each(convert: Convert | None, values: Any) -> list[Any]:
    return list(values) if convert is None else [convert(value) for value in values]


def _pairs(key: Convert | None, value: Convert | None, values: Any) -> list[tuple[Any, Any]]:
    return [
        (key(one) if key else one, value(values[one]) if value else values[one]) for one in sorted(values)
    ]


def _name(names: Mapping[int, str], number: int) -> str:
    return names.get(number) or str(number)


def _micros(moment: Any) -> int:
    return int(moment.seconds * 1_000_000 + moment.nanos // 1000)


# Bodies that are protobuf messages, parsed by Google's library, which bounds nesting (100 levels) and lengths.
#
# Fields that the descriptor does not have are ignored. An empty body is a message with no field set.


class ProtobufBodies:
    """The decoder for a message of a descriptor set."""

    def __init__(self, schema: bytes, name: str) -> None:
        self._message: Any = message_class(schema, name)
        found = typed_message(self._message.DESCRIPTOR)
        self.type = canonical(found.kind)
        self.required = frozenset(paths(found.kind, required=True))
        self._convert: Any = found.convert

    def parse(self, body: bytes) -> Any:
        message = self._message()
        try:
            message.ParseFromString(body)
        except (ProtobufError, UnicodeDecodeError):
            raise Undecodable("not a message of this type") from None
        if not message.IsInitialized():
            raise Undecodable("a required field is missing")
        return self._convert(message)

    def to_array(self, values: Sequence[Any]) -> Any:
        return array_of(values, self.type)
