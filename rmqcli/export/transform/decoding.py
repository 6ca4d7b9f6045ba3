"""Bodies as typed columns: the struct `value` and, with `column`, the string `value_error`.

The error is that of a body that does not decode. The schema is passed on as the bytes of its file, so
executors need not see the file. Each process compiles it once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from rmqcli.export.errors import DecodeError, SchemaError
from rmqcli.export.transform.decoder import Decoder, decoded
from rmqcli.extras import require

VALUE = "value"
VALUE_ERROR = "value_error"
REASON = "reason"
FAIL, NULL, COLUMN = ON_ERROR = ("fail", "null", "column")
"""A body that does not decode ends the export, becomes null, or becomes null with the reason in a column."""
QUARANTINE = "quarantine"
"""A row whose body does not decode is set aside with the reason."""
MAX_SCHEMA_BYTES = 16 * 1024 * 1024
_KEEPS = "null or column keeps such rows (--on-error; decodeOnError of the data source)"


def _json(schema: bytes, name: str) -> Decoder:
    from rmqcli.export.transform.json import JsonBodies

    return JsonBodies(schema)


def _avro(schema: bytes, name: str, framing: str = "") -> Decoder:
    from rmqcli.export.transform.avro import AvroBodies

    return AvroBodies(schema, framing)


def _protobuf(schema: bytes, name: str) -> Decoder:
    from rmqcli.export.transform.protobuf import ProtobufBodies

    return ProtobufBodies(schema, name)


class _Format(NamedTuple):
    package: str
    make: Callable[[bytes, str], Decoder]
    has_name: bool = False
    """The schema file contains several types, one of which is named: FILE#NAME."""


FORMATS: Mapping[str, _Format] = {
    "json": _Format("pyarrow", _json),
    "avro": _Format("fastavro", _avro),
    "avro-single-object": _Format("fastavro", partial(_avro, framing="single")),
    "avro-confluent": _Format("fastavro", partial(_avro, framing="confluent")),
    "protobuf": _Format("google.protobuf", _protobuf, has_name=True),
}


@dataclass(frozen=True, slots=True)
class Decoding:
    """Bodies of `format`.

    `schema` is the content of the file `source`, as the user named it, `name` a type in it.
    """

    format: str
    schema: bytes = field(repr=False)
    name: str = ""
    on_error: str = FAIL
    source: str = field(default="", compare=False)

    @property
    def decoder(self) -> Decoder:
        """The compiled schema. Raises SchemaError."""
        try:
            return _compiled(self.format, self.schema, self.name)
        except SchemaError as error:
            raise SchemaError(f"{self.source}: {error}") from None

    @property
    def fields(self) -> list[Any]:
        import pyarrow as pa

        more = [pa.field(VALUE_ERROR, pa.string())] if self.on_error == COLUMN else []
        return [pa.field(VALUE, self.decoder.type), *more]

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the fields of `value`."""
        from rmqcli.export.transform.columns import paths

        return frozenset(paths(self.decoder.type))

    @property
    def required(self) -> frozenset[str] | None:
        """The paths of those that the schema requires; None if it is not known yet."""
        return self.decoder.required

    def for_table(self, kind: Any, required: Sequence[str] | None) -> Decoding:
        """Return the decoding for a table in which `value` has this type, None if it has no such column."""
        return self

    def decoded(self, bodies: Sequence[bytes]) -> tuple[Any, dict[int, str]]:
        """Return an array, null where a body does not decode, and the reasons by row."""
        return decoded(self.decoder, bodies)

    @property
    def wanted(self) -> str:
        return f"{self.format} of {self.source}"

    @property
    def summary(self) -> str:
        """A string that must be the same when an export is continued.

        It has the beginning of the schema's SHA-256.
        """
        schema = sha256(self.schema).hexdigest()[:16]
        return f"{self.format} (schema {schema}{self.name and '#'}{self.name}, on error {self.on_error})"

    def apply(self, batch: Any) -> Any:
        """Return the batch with `fields`. Raises DecodeError for the first body that does not decode."""
        import pyarrow as pa

        values, reasons = self.decoded(batch["body"].to_pylist())
        if reasons and self.on_error == FAIL:
            raise DecodeError(self._complaint(batch, *min(reasons.items())))
        if values is not None:
            batch = batch.append_column(VALUE, values)
        if self.on_error in (COLUMN, QUARANTINE):
            texts = [reasons.get(row) for row in range(batch.num_rows)]
            batch = batch.append_column(VALUE_ERROR, pa.array(texts, pa.string()))
        return batch

    def _complaint(self, batch: Any, row: int, reason: str) -> str:
        names = ("topic", "queue_id", "queue_offset", "broker_name")
        topic, queue, offset, broker = (batch[name][row].as_py() for name in names)
        of = f" of {broker}" if broker else ""
        place = f"topic {topic}, queue {queue}{of}, offset {offset}"
        return f"{place}: the body is not {self.wanted}: {reason}; {_KEEPS}"


@lru_cache(maxsize=8)
def _compiled(format_: str, schema: bytes, name: str) -> Decoder:
    return FORMATS[format_].make(schema, name)


def read_decoding(format_: str, schema: str, on_error: str = FAIL) -> Decoding:
    """Return the decoding of a schema file, FILE or FILE#NAME.

    Raises SchemaError, MissingPackage and OSError.
    """
    require_known("decode", format_, tuple(FORMATS))
    require_known("on-error", on_error, ON_ERROR)
    made = FORMATS[format_]
    require("decode", made.package)
    file, name = _named(schema) if made.has_name else (schema, "")
    path = Path(file)
    if path.stat().st_size > MAX_SCHEMA_BYTES:
        raise SchemaError(f"{file}: larger than {MAX_SCHEMA_BYTES >> 20} MiB: is it a schema?")
    found = Decoding(format_, path.read_bytes(), name, on_error, schema)
    _ = found.decoder
    return found


def require_known(option: str, given: str, there: Sequence[str]) -> None:
    if given not in there:
        raise SchemaError(f"{option} {given}: expected one of {', '.join(there)}")


def _named(schema: str) -> tuple[str, str]:
    file, _, name = schema.rpartition("#")
    if not file or not name:
        raise SchemaError(f"{schema}: expected FILE#NAME, the name of a type in the file, as shop.Order")
    return file, name
