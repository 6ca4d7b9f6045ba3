"""Schemas of bodies that change between two exports: what the table becomes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.errors import TableMismatch
from rmqcli.export.tables.table import added_fields
from rmqcli.export.transform.columns import fit, paths
from tests.cli.conftest import Run
from tests.export.tables.support import Lake


def write_json(path: Path, required: str = "id", **properties: Any) -> str:
    file = path / "schema.json"
    file.write_text(json.dumps({"properties": properties, "required": [required]}))
    return str(file)


INTEGER, TEXT = {"type": "integer"}, {"type": "string"}
LINE = {"properties": {"sku": TEXT}}


def test_new_fields_of_json(rmq: Run, topic: str, lake: Lake, tmp_path: Path) -> None:
    """Also in an object and in the objects of a list; rows before have null there."""
    export = ("export", "--topic", topic, "--table", lake.name, "--decode", "json", "--schema")
    first = write_json(tmp_path, id=INTEGER, lines={"type": "array", "items": LINE}, to=LINE)
    rmq("send", topic, "-q", "0", stdin=b'{"id": 1, "lines": [{"sku": "a"}], "to": {"sku": "t"}}\n')
    assert rmq(*export, first).code == 0
    wider = {"properties": {"sku": TEXT, "count": INTEGER}}
    second = write_json(tmp_path, id=INTEGER, lines={"type": "array", "items": wider}, to=wider, note=TEXT)
    sent = {"id": 2, "lines": [{"sku": "b", "count": 3}], "to": {"sku": "u", "count": 4}, "note": "n"}
    rmq("send", topic, "-q", "0", stdin=json.dumps(sent).encode() + b"\n")
    assert rmq(*export, second, "--resume").code == 0
    # A field that was optional may go.
    third = write_json(tmp_path, id=INTEGER, note=TEXT)
    rmq("send", topic, "-q", "0", stdin=b'{"id": 3}\n')
    assert rmq(*export, third, "--resume").code == 0
    assert [row["value"] for row in lake.rows()] == [
        {"id": 1, "lines": [{"sku": "a", "count": None}], "to": {"sku": "t", "count": None}, "note": None},
        sent,
        {"id": 3, "lines": None, "to": None, "note": None},
    ]


def test_a_required_field(rmq: Run, topic: str, lake: Lake, tmp_path: Path) -> None:
    """It may go once a schema had it as an optional one."""
    export = ("export", "--topic", topic, "--table", lake.name, "--resume", "--decode", "json", "--schema")
    rmq("send", topic, stdin=b'{"id": 1, "name": "a"}\n')
    assert rmq(*export, write_json(tmp_path, id=INTEGER, name=TEXT)).code == 0
    rmq("send", topic, stdin=b'{"name": "b"}\n')
    gone = rmq(*export, write_json(tmp_path, "name", name=TEXT))
    assert (gone.code, gone.err) == (
        ExitCode.USAGE,
        f"rmq: {lake.name}: {tmp_path}/schema.json has no field id, which the schema before required; "
        "keep the field, make it optional for a while, or name a new table\n",
    )
    assert rmq(*export, write_json(tmp_path, "name", id=INTEGER, name=TEXT)).code == 0
    rmq("send", topic, stdin=b'{"name": "c"}\n')
    assert rmq(*export, write_json(tmp_path, "name", name=TEXT)).code == 0
    assert {(row["value"]["id"], row["value"]["name"]) for row in lake.rows()} == {
        (1, "a"),
        (None, "b"),
        (None, "c"),
    }


def avro_body(schema: Any, value: Any) -> bytes:
    from io import BytesIO

    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def test_new_fields_of_avro(rmq: Run, topic: str, lake: Lake, tmp_path: Path) -> None:
    export = ("export", "--topic", topic, "--table", lake.name, "--decode", "avro", "--schema")
    fields: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
    file, body = tmp_path / "schema.avsc", tmp_path / "body"
    for resume, value in (([], {"id": 1}), (["--resume"], {"id": 2, "tags": {"a": {"n": 7}}})):
        schema = {"type": "record", "name": "R", "fields": list(fields)}
        file.write_text(json.dumps(schema))
        body.write_bytes(avro_body(schema, value))
        rmq("send", topic, "-q", "0", "--file", str(body))
        assert rmq(*export, str(file), *resume).code == 0
        inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "long"}]}
        fields.append({"name": "tags", "type": ["null", {"type": "map", "values": inner}], "default": None})
    assert [row["value"] for row in lake.rows()] == [
        {"id": 1, "tags": None},
        {"id": 2, "tags": [("a", {"n": 7})]},
    ]
    file.write_text(json.dumps({"type": "record", "name": "R", "fields": fields[1:2]}))
    assert "has no field id, which the schema before required" in rmq(*export, str(file), "--resume").err


def test_new_fields_of_protobuf(rmq: Run, topic: str, lake: Lake, tmp_path: Path) -> None:
    export = ("export", "--topic", topic, "--table", lake.name, "--decode", "protobuf", "--schema")
    files = descriptor_pb2.FileDescriptorSet()
    message = files.file.add(name="a.proto", syntax="proto3").message_type.add(name="M")
    path, body = tmp_path / "m.desc", tmp_path / "body"
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (resume, data) in enumerate((([], b"\x08\x05"), (["--resume"], b"\x08\x06\x12\x01x")), 1):
        kind = kinds.TYPE_INT64 if number == 1 else kinds.TYPE_STRING
        message.field.add(name=f"f{number}", number=number, type=kind, label=kinds.LABEL_OPTIONAL)
        path.write_bytes(files.SerializeToString())
        body.write_bytes(data)
        rmq("send", topic, "-q", "0", "--file", str(body))
        assert rmq(*export, f"{path}#M", *resume).code == 0
    assert [row["value"] for row in lake.rows()] == [{"f1": 5, "f2": None}, {"f1": 6, "f2": "x"}]


def test_other_types_within() -> None:
    """Structs in lists and maps are compared by their fields."""

    def fields(kind: Any) -> Any:
        return pa.schema(
            [("value", pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.struct([("a", kind)]))))]))]
        )

    assert added_fields(fields(pa.large_string()), fields(pa.string()), "t") == []
    with pytest.raises(
        TableMismatch, match=r"t: column value\.m\.a is int32 and would become int64; columns"
    ):
        added_fields(fields(pa.int32()), fields(pa.int64()), "t")


def test_arrays_get_the_fields_that_they_lack() -> None:
    """Whatever is null, and in slices."""
    small = pa.struct([("a", pa.int64()), ("l", pa.list_(pa.struct([("x", pa.int64())])))])
    rows = [{"a": 1, "l": [{"x": 1}]}, None, {"a": None, "l": None}, {"a": 4, "l": [None, {"x": 2}]}]
    grown = [
        {"a": 1, "l": [{"x": 1, "y": None}], "m": None},
        None,
        {"a": None, "l": None, "m": None},
        {"a": 4, "l": [None, {"x": 2, "y": None}], "m": None},
    ]
    inner = pa.struct([("x", pa.int64()), ("y", pa.string())])
    large = pa.struct([("a", pa.int64()), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner))])
    for begin in range(4):
        found = fit(pa.array(rows, small).slice(begin), large)
        found.validate(full=True)
        assert found.type == large
        assert found.to_pylist() == grown[begin:]
    maps = pa.array([[("k", {"x": 1})], None, []], pa.map_(pa.string(), pa.struct([("x", pa.int64())])))
    assert fit(maps, pa.map_(pa.string(), inner)).to_pylist() == [[("k", {"x": 1, "y": None})], None, []]
    assert list(paths(large)) == ["a", "l", "l.x", "l.y", "m", "m.x", "m.y"]
