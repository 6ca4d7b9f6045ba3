"""Bodies that name their schema in a registry: a zero byte, the number of the schema, and the record.

The column `value` begins with the type that it has in the table, and grows with every schema encountered. A
schema that does not fit, or has no columns, is an error of the bodies that name it.
"""

from __future__ import annotations

import base64
import importlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError as ProtobufError

from rmqcli.export.errors import SchemaError
from rmqcli.export.transform.avro import AvroBodies
from rmqcli.export.transform.columns import TypeConflict, canonical, fit, merged, paths
from rmqcli.export.transform.decoder import Decoder, Undecodable, decoded
from rmqcli.export.transform.decoding import (
    COLUMN,
    FAIL,
    ON_ERROR,
    VALUE,
    VALUE_ERROR,
    Decoding,
    require_known,
)
from rmqcli.export.transform.json import JsonBodies
from rmqcli.export.transform.protobuf import ProtobufBodies
from rmqcli.export.transform.registry import PROTOBUF, Registry, Schema, registry_of

_HEADER_BYTES = 5
_MAX_PATH = 32
"""The greatest depth of a protobuf message in others."""


class _Growing:
    """The type of `value` in a run, and the decoders by schema and message; a string is the reason why there
    is none.
    """

    def __init__(self, kind: Any = None, required: frozenset[str] | None = None) -> None:
        self.kind = kind
        self.required = required
        self.decoders: dict[tuple[int, tuple[int, ...]], Decoder | str] = {}

    def take(self, decoder: Decoder) -> None:
        """Add the fields of a schema. Raises TypeConflict."""
        grown = decoder.type if self.kind is None else merged(self.kind, decoder.type, VALUE)
        gone = (self.required or frozenset()).difference(paths(decoder.type))
        if gone:
            raise TypeConflict(f"{VALUE}.{min(gone)} is required so far, and is not in the schema")
        self.required = decoder.required & (decoder.required if self.required is None else self.required)
        self.kind = grown


@dataclass(frozen=True)
class RegistryDecoding(Decoding):
    """Bodies with schemas of a registry. Its state belongs to one run, its schemas to the process."""

    registry: Registry = field(default_factory=partial(Registry, ""))
    state: _Growing = field(default_factory=_Growing, compare=False, repr=False)
    schemas: dict[int, Schema] = field(default_factory=dict, compare=False, repr=False)

    def for_table(self, kind: Any, required: Sequence[str] | None) -> Decoding:
        known = None if required is None else frozenset(required)
        return replace(self, state=_Growing(None if kind is None else canonical(kind), known))

    @property
    def fields(self) -> list[Any]:
        more = [pa.field(VALUE_ERROR, pa.string())] if self.on_error == COLUMN else []
        return [pa.field(VALUE, pa.null() if self.state.kind is None else self.state.kind), *more]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(paths(self.state.kind or pa.null()))

    @property
    def required(self) -> frozenset[str] | None:
        return self.state.required

    @property
    def wanted(self) -> str:
        return f"of a schema of {self.source}"

    @property
    def summary(self) -> str:
        return f"registry {self.registry.url} (on error {self.on_error})"

    def decoded(self, bodies: Sequence[bytes]) -> tuple[Any, dict[int, str]]:
        reasons: dict[int, str] = {}
        by_decoder: dict[tuple[int, tuple[int, ...]], dict[int, bytes]] = defaultdict(dict)
        for row, body in enumerate(bodies):
            try:
                key, rest = self._framed(body)
            except Undecodable as error:
                reasons[row] = str(error)
                continue
            by_decoder[key][row] = rest
        rows: list[int] = []
        pieces: list[Any] = []
        for key, own in by_decoder.items():
            decoder = self._decoder(key)
            if isinstance(decoder, str):
                reasons |= dict.fromkeys(own, decoder)
                continue
            values, wrong = decoded(decoder, list(own.values()))
            places = list(own)
            reasons |= {places[number]: reason for number, reason in wrong.items()}
            pieces.append(values)
            rows += places
        return self._in_order(pieces, rows, len(bodies)), reasons

    def _in_order(self, pieces: Sequence[Any], rows: Sequence[int], count: int) -> Any:
        """Return the values of rows as one array; None if no schema was encountered yet."""
        kind = self.state.kind
        if kind is None:
            return None
        if not pieces:
            return pa.nulls(count, kind)
        numbers = {row: number for number, row in enumerate(rows)}
        whole = pa.concat_arrays([fit(piece, kind) for piece in pieces])
        return whole.take(pa.array([numbers.get(row) for row in range(count)], pa.int64()))

    def _framed(self, body: bytes) -> tuple[tuple[int, tuple[int, ...]], bytes]:
        """Return the schema and the message that a body names, and its rest. Raises Undecodable."""
        if len(body) < _HEADER_BYTES or body[0]:
            raise Undecodable("without the header of a registry, 00 and four bytes")
        number, rest = int.from_bytes(body[1:_HEADER_BYTES]), body[_HEADER_BYTES:]
        schema = self._schema(number)
        if schema.kind != PROTOBUF:
            return (number, ()), rest
        path, size = _message_path(rest)
        return (number, path), rest[size:]

    def _schema(self, number: int) -> Schema:
        unknown = self.state.decoders.get((number, ()))
        if number not in self.schemas:
            if isinstance(unknown, str):
                raise Undecodable(unknown)
            try:
                self.schemas[number] = self.registry.schema(number)
            except Undecodable as error:
                self.state.decoders[number, ()] = str(error)
                raise
        return self.schemas[number]

    def _decoder(self, key: tuple[int, tuple[int, ...]]) -> Decoder | str:
        known = self.state.decoders.get(key)
        if known is None:
            number, path = key
            try:
                known = _compiled(self.schemas[number], path)
                self.state.take(known)
            except (SchemaError, TypeConflict) as error:
                known = f"schema {number}: {error}"
            self.state.decoders[key] = known
        return known


def read_registry(url: str, auth: Path | None, on_error: str = FAIL) -> Decoding:
    """Return the decoding by a schema registry. Raises SchemaError and OSError."""
    require_known("on-error", on_error, ON_ERROR)
    registry = registry_of(url, auth)
    return RegistryDecoding("registry", b"", on_error=on_error, source=registry.url, registry=registry)


def _message_path(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the path of a message in its file, and the bytes that it takes. Raises Undecodable.

    It is a count and as many indexes, as zigzag varints; a count of 0 means the first message.
    """
    numbers = _varints(data)
    count, size = next(numbers)
    if not 0 <= count <= _MAX_PATH:
        raise Undecodable("the path of its message is none")
    path = []
    for _ in range(count):
        number, size = next(numbers)
        path.append(number)
    return tuple(path) or (0,), size


def _varints(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield numbers, and the position after each. Raises Undecodable."""
    value = shift = 0
    for place, byte in enumerate(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield (value >> 1) ^ -(value & 1), place + 1
            value = shift = 0
        elif shift > 63:
            break
    raise Undecodable("the path of its message is cut off")


def _compiled(schema: Schema, path: tuple[int, ...]) -> Decoder:
    """Return the decoder of a schema. Raises SchemaError."""
    if schema.kind == PROTOBUF:
        return _protobuf(schema, path)
    if schema.files:
        raise SchemaError(f"refers to {next(iter(schema.files))}: only protobuf schemas may refer to others")
    if schema.kind == "JSON":
        return JsonBodies(schema.text.encode())
    if schema.kind == "AVRO":
        return AvroBodies(schema.text.encode())
    raise SchemaError(f"{schema.kind} is none of AVRO, JSON, PROTOBUF")


def _protobuf(schema: Schema, path: tuple[int, ...]) -> Decoder:
    files = {name: _descriptor(name, text) for name, text in schema.files.items()}
    main = _descriptor("the schema", schema.text)
    files[main.name] = main
    ordered: dict[str, Any] = {}
    _add_in_order(main, files, ordered)
    found = descriptor_pb2.FileDescriptorSet(file=ordered.values())
    return ProtobufBodies(found.SerializeToString(), _name_at(main, path))


def _descriptor(name: str, text: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto()
    try:
        file.ParseFromString(base64.b64decode(text, validate=True))
    except (ValueError, ProtobufError):
        raise SchemaError(f"{name}: the registry does not give descriptors (?format=serialized)") from None
    if name != "the schema":
        file.name = name
    return file


def _add_in_order(file: Any, files: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Add a file after those that it imports. Raises SchemaError."""
    for name in file.dependency:
        if name in found or name == file.name:
            continue
        _add_in_order(files[name] if name in files else _well_known(name), files, found)
    found[file.name] = file


def _well_known(name: str) -> Any:
    """Return a file of google.protobuf, which registries do not list."""
    folder, _, stem = name.removesuffix(".proto").rpartition("/")
    found = descriptor_pb2.FileDescriptorProto()
    try:
        if folder != "google/protobuf":
            raise ImportError
        importlib.import_module(f"google.protobuf.{stem}_pb2").DESCRIPTOR.CopyToProto(found)
    except ImportError:
        raise SchemaError(f"imports {name}, which is not among its references") from None
    return found


def _name_at(file: Any, path: tuple[int, ...]) -> str:
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in path:
        if not 0 <= index < len(messages):
            raise SchemaError(f"has no message {'.'.join(map(str, path))}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)
