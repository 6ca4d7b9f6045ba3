"""Bodies that name their schema in a registry: what they become, and what a registry in trouble does."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export.errors import DecodeError, RegistryDenied, RegistryError, RegistryUnreachable, SchemaError
from rmqcli.export.transform import registry as client
from rmqcli.export.transform.decoding import COLUMN, FAIL, Decoding
from rmqcli.export.transform.registered import read_registry
from rmqcli.export.transform.registry import TRIES, registry_of
from tests.cli.conftest import Run
from tests.export.tables.conftest import lake
from tests.export.tables.support import Lake
from tests.export.transform.registry_server import Registry, registry_server

__all__ = ["lake"]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setattr(client, "FIRST_WAIT", 0)
    with registry_server() as found:
        yield found


def framed(number: int, rest: bytes) -> bytes:
    return b"\0" + number.to_bytes(4) + rest


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def avro(number: int, schema: Any, value: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return framed(number, stream.getvalue())


def decode(decoding: Decoding, *bodies: bytes) -> tuple[list[Any], dict[int, str]]:
    values, reasons = decoding.decoded(bodies)
    return [] if values is None else values.to_pylist(), reasons


SMALL = record(("id", "long"))
LARGE = record(("id", "long"), ("name", ["null", "string"]))


def test_types_grow_with_the_schemas_met(registry: Registry) -> None:
    registry.add(1, SMALL)
    registry.add(2, LARGE, "AVRO")
    registry.add(
        3, {"properties": {"id": {"type": "integer"}, "at": {"type": "string"}}, "required": ["id"]}, "JSON"
    )
    decoding = read_registry(registry.url + "/", None, COLUMN)
    assert decoding.fields[0].type == pa.null()
    assert decode(decoding, avro(1, SMALL, {"id": 7})) == ([{"id": 7}], {})
    bodies = [
        framed(3, b'{"id": 5, "at": "x"}'),
        avro(2, LARGE, {"id": 8, "name": "n"}),
        framed(9, b""),
        avro(1, SMALL, {"id": 9}),
        b"\1bad",
        framed(1, b""),
    ]
    values, reasons = decode(decoding, *bodies)
    assert values == [
        {"id": 5, "at": "x", "name": None},
        {"id": 8, "at": None, "name": "n"},
        None,
        {"id": 9, "at": None, "name": None},
        None,
        None,
    ]
    assert reasons == {
        2: "schema 9 is not in the registry",
        4: "without the header of a registry, 00 and four bytes",
        5: "not a record of this schema (EOFError)",
    }
    decode(decoding, *bodies)
    assert registry.asked == [f"/schemas/ids/{number}" for number in (1, 3, 2, 9)]  # each only once


def test_schemas_that_do_not_fit(registry: Registry) -> None:
    registry.add(1, LARGE)
    registry.add(2, record(("id", "string")))
    registry.add(3, record(("name", ["null", "string"])))
    registry.add(4, {"properties": {"id": {"not": {}}}}, "JSON")
    registry.add(5, "{}", "XML")
    registry.add(6, SMALL, references=[])
    registry.add(7, SMALL, references=[{"name": "o", "subject": "s", "version": 1}])
    registry.documents["/subjects/s/versions/1"] = {"schema": "{}"}
    decoding = read_registry(registry.url, None, COLUMN)
    good = avro(1, LARGE, {"id": 1, "name": "n"})
    wrong = [avro(2, record(("id", "string")), {"id": "x"}), framed(3, b"\0"), framed(4, b"{}")]
    values, reasons = decode(decoding, good, *wrong, framed(5, b""), framed(6, b"\2"), framed(7, b"\2"))
    assert values == [{"id": 1, "name": "n"}, None, None, None, None, {"id": 1, "name": None}, None]
    assert reasons == {
        1: "schema 2: value.id is int64 and would become string",
        2: "schema 3: value.id is required so far, and is not in the schema",
        3: "schema 4: #/properties/id: keyword not is not understood, only $defs, $ref, additionalProperties, anyOf, "
        "definitions, format, items, oneOf, properties, required, type",
        4: "schema 5: XML is none of AVRO, JSON, PROTOBUF",
        6: "schema 7: refers to o: only protobuf schemas may refer to others",
    }


def file_of(name: str, package: str, **fields: tuple[str, ...]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, names in fields.items():
        made = file.message_type.add(name=message)
        for number, field in enumerate(names, 1):
            added = made.field.add(name=field.rpartition(".")[2].lower(), number=number)
            added.type, added.label = kinds.TYPE_INT64, kinds.LABEL_OPTIONAL
            if "." in field:
                added.type, added.type_name = kinds.TYPE_MESSAGE, f".{field}"
    return file


def text_of(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def test_protobuf(registry: Registry) -> None:
    """The path of the message; what it imports from another subject, and from Google's files."""
    main = file_of("main.proto", "shop", A=("id",), B=("shop.Part", "google.protobuf.Timestamp", "n"))
    main.message_type[0].nested_type.add(name="In").CopyFrom(file_of("x", "", In=("n",)).message_type[0])
    main.dependency.extend(["part.proto", "google/protobuf/timestamp.proto"])
    reference = {"name": "part.proto", "subject": "a/b", "version": 3}
    registry.add(1, text_of(main), "PROTOBUF", references=[reference])
    registry.documents["/subjects/a%2Fb/versions/3?format=serialized"] = {
        "schema": text_of(file_of("other-name.proto", "shop", Part=("size",)))
    }
    decoding = read_registry(registry.url, None, COLUMN)
    values, reasons = decode(
        decoding,
        framed(1, b"\x00" + b"\x08\x05"),
        framed(1, b"\x02\x02" + b"\x0a\x02\x08\x07\x12\x02\x08\x01\x18\x05"),
        framed(1, b"\x04\x00\x00" + b"\x08\x06"),
        framed(1, b"\x02\x08"),
        framed(1, b"\x02"),
        framed(1, b"\x7f"),
        framed(1, b"\xff" * 20),
    )
    assert [value and {name: one for name, one in value.items() if one} for value in values[:3]] == [
        {"id": 5},
        {"part": {"size": 7}, "timestamp": values[1]["timestamp"], "n": 5},
        {"n": 6},
    ]
    assert (values[1]["timestamp"].timestamp(), values[3:]) == (1, [None] * 4)
    assert reasons == {
        3: "schema 1: has no message 4",
        4: "the path of its message is cut off",
        5: "the path of its message is none",
        6: "the path of its message is cut off",
    }


@pytest.mark.parametrize("code", [500, 503, 429])
def test_troubles_that_pass(registry: Registry, code: int) -> None:
    registry.add(1, SMALL)
    registry.script = [code] * (TRIES - 1)
    assert decode(read_registry(registry.url, None), avro(1, SMALL, {"id": 1})) == ([{"id": 1}], {})
    registry.script = [code] * TRIES
    with pytest.raises(RegistryUnreachable, match=f"HTTP {code}"):
        read_registry(registry.url, None).decoded([framed(1, b"")])
    assert len(registry.asked) == 2 * TRIES


def test_a_registry_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "FIRST_WAIT", 0)
    with registry_server() as gone:
        pass
    with pytest.raises(RegistryUnreachable, match=rf"registry {gone.url} does not respond: .*refused"):
        read_registry(gone.url, None).decoded([framed(1, b"")])


def test_a_server_that_is_no_registry(registry: Registry) -> None:
    for content in (b"<html>", b"[]"):
        registry.documents["/schemas/ids/1"] = content
        with pytest.raises(RegistryError, match="what answers is no schema registry"):
            read_registry(registry.url, None).decoded([framed(1, b"")])


@pytest.mark.parametrize(
    ("secret", "header"),
    [("user:pass word\n", "Basic dXNlcjpwYXNzIHdvcmQ="), ("to-ken\n", "Bearer to-ken")],
)
def test_credentials(registry: Registry, tmp_path: Path, secret: str, header: str) -> None:
    file = tmp_path / "auth"
    file.write_text(secret)
    registry.authorization = header
    registry.add(1, SMALL)
    assert decode(read_registry(registry.url, file), avro(1, SMALL, {"id": 1}))[1] == {}
    with pytest.raises(RegistryDenied, match=r"refuses access \(HTTP 401\): check --registry-auth"):
        read_registry(registry.url, None).decoded([framed(1, b"")])
    assert "pass" not in repr(read_registry(registry.url, file))


def test_addresses_and_files_that_are_refused(tmp_path: Path) -> None:
    for url in ("ftp://x", "http://", "x:80", "http://u:p@x", "http://x?a"):
        with pytest.raises(SchemaError, match="--registry"):
            registry_of(url, None)
    file = tmp_path / "auth"
    for content in ("", "\n", "a\x01b"):
        file.write_text(content)
        with pytest.raises(SchemaError, match="expected USER:PASSWORD, or a token"):
            registry_of("http://x", file)


@pytest.fixture
def send(rmq: Run, topic: str, tmp_path: Path) -> Callable[[bytes], None]:
    def send(body: bytes) -> None:
        file = tmp_path / "body"
        file.write_bytes(body)
        assert rmq("send", topic, "-q", "0", "--file", str(file)).code == 0

    return send


Send = Callable[[bytes], None]


def test_a_table_that_grows_while_it_is_fed(
    rmq: Run, topic: str, lake: Lake, registry: Registry, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new schema adds a column; one that does not fit fills the quarantine; an outage ends nothing."""
    from rmqcli.export.tables import run as feeding

    registry.add(1, SMALL)
    send(avro(1, SMALL, {"id": 1}))

    def grow() -> None:
        registry.add(2, LARGE)
        send(avro(2, LARGE, {"id": 2, "name": "b"}))
        send(avro(1, SMALL, {"id": 4}))

    def change() -> None:
        registry.add(3, record(("id", "string")))
        send(avro(3, record(("id", "string")), {"id": "x"}))
        registry.script = [503] * TRIES

    steps: list[Callable[[], None]] = [grow, change, lambda: None]

    def sleep(seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(feeding, "feed", partial(feeding.feed, sleep=sleep))
    words = ["export", "--topic", topic, "--table", lake.name, "--registry", registry.url]
    words += ["--quarantine", str(lake.folder / "bad")]
    done = rmq(*words, "--follow")
    assert done.code == ExitCode.INTERRUPTED
    outage, wrong, _ = done.err.splitlines()
    assert outage == f"rmq: registry {registry.url}: HTTP 503 Service Unavailable; trying again"
    assert wrong == "rmq: 1 body did not decode: added to the quarantine"
    assert [row["value"] for row in lake.rows()] == [
        {"id": 1, "name": None},
        {"id": 2, "name": "b"},
        {"id": 4, "name": None},
    ]
    from pyarrow import parquet

    (bad,) = (lake.folder / "bad").glob("*.parquet")
    assert parquet.read_table(bad)["reason"].to_pylist() == [
        "schema 3: value.id is int64 and would become string"
    ]


def test_the_first_schema_of_a_table_stays(
    rmq: Run, topic: str, registry: Registry, send: Send, lake: Lake
) -> None:
    """A later run knows the types and the required fields of the table."""
    registry.add(1, SMALL)
    registry.add(2, record(("id", "string")))
    registry.add(3, record(("name", ["null", "string"])))
    words = ["export", "--topic", topic, "--table", lake.name, "--registry", registry.url, "--resume"]
    words += ["--on-error", "column"]
    for body in (
        b"x",
        avro(1, SMALL, {"id": 1}),
        avro(2, record(("id", "string")), {"id": "a"}),
        framed(3, b"\0"),
    ):
        send(body)
        assert rmq(*words).code == 0
    assert [(row["value"], row["value_error"]) for row in lake.rows()] == [
        (None, "without the header of a registry, 00 and four bytes"),
        ({"id": 1}, None),
        (None, "schema 2: value.id is int64 and would become string"),
        (None, "schema 3: value.id is required so far, and is not in the schema"),
    ]


def test_parquet_files(rmq: Run, topic: str, registry: Registry, send: Send, tmp_path: Path) -> None:
    registry.add(1, SMALL)
    send(avro(1, SMALL, {"id": 1}))
    out = str(tmp_path / "out")
    words = ["export", "--topic", topic, "--registry", registry.url]
    assert rmq(*words, "--out", out).code == 0
    from pyarrow import parquet

    assert parquet.read_table(out)["value"].to_pylist() == [{"id": 1}]
    send(b"x")
    done = rmq(*words, "--out", str(tmp_path / "other"))
    assert done.code == ExitCode.CORRUPT
    assert f"the body is not of a schema of {registry.url}: without the header" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--registry", "http://x", "--decode", "json"), "--registry replaces --decode and --schema"),
        (("--registry-auth", "f"), "--registry-auth requires --registry"),
        (("--registry", "http://x", "--spark"), "--registry cannot be combined with --spark or --jobs"),
        (("--registry", "http://x", "--resume"), "--registry with --resume requires --table"),
        (("--registry", "http://x", "--mask", "value.a:drop"), "--mask of value requires --schema"),
        (("--registry", "x"), "--registry x: expected http://HOST:PORT"),
    ],
)
def test_usage(cli: Run, words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = cli("export", "--topic", "t", "--out", str(tmp_path / "o"), *words)
    assert (done.code, done.err.count("\n")) == (ExitCode.USAGE, 1)
    assert said in done.err


def test_the_first_body_that_does_not_decode_ends_an_export(registry: Registry) -> None:
    decoding = read_registry(registry.url, None, FAIL)
    batch = pa.RecordBatch.from_pydict(
        {"body": [b"x"], "topic": ["t"], "queue_id": [0], "queue_offset": [4], "broker_name": ["b"]}
    )
    with pytest.raises(
        DecodeError, match="topic t, queue 0 of b, offset 4: the body is not of a schema of http"
    ):
        decoding.apply(batch)
