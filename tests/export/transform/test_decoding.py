"""`rmq export --decode`: the column `value`, what wrong bodies do, and what is refused before anything is read."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FieldDescriptor

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.export.support import manifest_of, write_log
from tests.export.transform.samples import BODIES, REASON, WRONG, rows, write_schema

AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
AVRO_BODY = b"\x0e"
AVRO_MARK = bytes.fromhex("6b57b91b27ffee9c")
EXPECTED = [{"id": n, "email": f"u{n}@example.org", "lines": [{"sku": "s"}]} for n in range(4)]


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return write_schema(tmp_path)


@pytest.fixture
def export(cli: Run, schema: str, tmp_path: Path) -> Run:
    """Of a store folder with a wrong body at offset 2, to `out`."""
    write_log(tmp_path / "store/commitlog", [*BODIES[:2], WRONG, *BODIES[2:]])
    command = ("export", "--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"))
    return lambda *arguments: cli(*command, "--decode", "json", "--schema", schema, *arguments)


def test_a_wrong_body_ends_the_export(export: Run, schema: str, tmp_path: Path) -> None:
    result = export()
    assert (result.code, result.out) == (ExitCode.CORRUPT, b"")
    assert result.err == (
        f"rmq: topic TopicA, queue 1, offset 2: the body is not json of {schema}: {REASON}; "
        "null or column keeps such rows (--on-error; decodeOnError of the data source)\n"
    )
    assert not (tmp_path / "out").exists()


def test_a_wrong_body_is_null(export: Run, tmp_path: Path) -> None:
    result = export("--on-error", "null", "--json")
    assert (result.code, result.json["undecoded"]) == (0, 1)
    assert result.err == "rmq: 1 body did not decode: value is null\n"
    assert [file.undecoded for file in manifest_of(tmp_path / "out").files] == [1]
    found = rows(tmp_path / "out")
    assert [row["value"] for row in found] == [*EXPECTED[:2], None, *EXPECTED[2:]]
    assert "value_error" not in found[0]
    assert [row["body"] for row in found] == [*BODIES[:2], WRONG, *BODIES[2:]]


def test_reasons_in_a_column(export: Run, tmp_path: Path) -> None:
    assert export("--on-error", "column", "--columns", "value,value_error,queue_id,queue_offset").code == 0
    found = rows(tmp_path / "out")
    assert list(found[0]) == ["queue_id", "queue_offset", "value", "value_error"]
    assert [row["value_error"] for row in found] == [None, None, REASON, None, None]


@pytest.mark.parametrize("layout", [["--partition-by", "topic"], ["--file-size", "1"], ["--body-text"]])
def test_layouts(export: Run, tmp_path: Path, layout: list[str]) -> None:
    assert export("--on-error", "null", *layout).code == 0
    assert [row["value"] for row in rows(tmp_path / "out")] == [*EXPECTED[:2], None, *EXPECTED[2:]]


def test_large_bodies_that_are_views(cli: Run, schema: str, tmp_path: Path) -> None:
    bodies = [b'{"id": %d, "email": "%s"}' % (number, b"x" * 2000) for number in range(9)]
    write_log(tmp_path / "store/commitlog", bodies)
    out = tmp_path / "out"
    cli(
        "export",
        "--store",
        str(tmp_path / "store"),
        "--out",
        str(out),
        "--decode",
        "json",
        "--schema",
        schema,
    )
    assert [(row["value"]["id"], len(row["value"]["email"])) for row in rows(out)] == [
        (n, 2000) for n in range(9)
    ]


def test_a_topic(rmq: Run, topic: str, schema: str, tmp_path: Path) -> None:
    rmq("send", topic, stdin=b"\n".join(BODIES))
    command = ("export", "--topic", topic, "--decode", "json", "--schema", schema, "--out")
    assert rmq(*command, str(tmp_path / "out")).code == 0
    found = rows(tmp_path / "out")
    assert sorted((row["value"] for row in found), key=lambda value: int(value["id"])) == EXPECTED
    rmq("send", topic, WRONG.decode())
    result = rmq(*command, str(tmp_path / "again"))
    assert result.code == ExitCode.CORRUPT
    assert f"rmq: topic {topic}, queue " in result.err and REASON in result.err
    assert not (tmp_path / "again").exists()


def test_an_export_is_continued_with_the_same_schema(export: Run, schema: str, tmp_path: Path) -> None:
    assert export("--on-error", "null").code == 0
    said = manifest_of(tmp_path / "out").decode
    assert said is not None and said.startswith("json (schema ") and said.endswith(", on error null)")
    assert export("--on-error", "null", "--resume").code == 0
    result = export("--on-error", "column", "--resume")
    assert (result.code, "was exported with --columns" in result.err) == (ExitCode.USAGE, True)
    path = Path(schema)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    result = export("--on-error", "null", "--resume")
    assert (result.code, f"was exported with --decode {said}" in result.err) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--schema", "FILE"], "--schema, --on-error and --quarantine require --decode or --registry"),
        (["--on-error", "null"], "--schema, --on-error and --quarantine require --decode or --registry"),
        (["--decode", "json"], "--decode requires --schema FILE"),
        (["--decode", "xml", "--schema", "FILE"], "decode xml: expected one of json"),
        (
            ["--decode", "json", "--schema", "FILE", "--on-error", "skip"],
            "on-error skip: expected one of fail, ",
        ),
        (["--decode", "json", "--schema", "FILE"], "FILE: #/type: is none: a column has one type"),
    ],
)
def test_what_is_refused(cli: Run, tmp_path: Path, arguments: list[str], said: str) -> None:
    """Nothing is read: there is no such store."""
    (tmp_path / "FILE").write_text("{}")
    words = [str(tmp_path / word) if word == "FILE" else word for word in arguments]
    result = cli("export", "--store", "S", "--out", str(tmp_path / "out"), *words)
    assert (result.code, result.out, result.err.count("\n")) == (ExitCode.USAGE, b"", 1)
    assert said in result.err.replace(str(tmp_path / "FILE"), "FILE")


@pytest.mark.parametrize(
    ("package", "format_"), [("fastavro", "avro"), ("google", "protobuf"), ("google.protobuf", "protobuf")]
)
def test_a_package_that_is_missing(
    cli: Run, monkeypatch: pytest.MonkeyPatch, package: str, format_: str, schema: str, tmp_path: Path
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == package else found(name, *rest)
    )
    command = (
        "export",
        "--store",
        "S",
        "--out",
        str(tmp_path / "out"),
        "--decode",
        format_,
        "--schema",
        schema,
    )
    result = cli(*command)
    name = "fastavro" if format_ == "avro" else "protobuf"
    assert (result.code, result.err) == (
        ExitCode.USAGE,
        f"rmq: package {name} is not installed: pip install 'rmqcli[decode]'\n",
    )


@pytest.mark.parametrize(
    ("format_", "body", "expected"),
    [
        ("avro", AVRO_BODY, {"id": 7}),
        ("avro-single-object", b"\xc3\x01" + AVRO_MARK + AVRO_BODY, {"id": 7}),
        ("avro-confluent", bytes(5) + AVRO_BODY, {"id": 7}),
    ],
)
def test_avro(cli: Run, tmp_path: Path, format_: str, body: bytes, expected: object) -> None:
    (tmp_path / "a.avsc").write_text(AVRO)
    write_log(tmp_path / "store/commitlog", [body])
    out = str(tmp_path / "out")
    command = ("export", "--store", str(tmp_path / "store"), "--out", out, "--decode", format_)
    assert cli(*command, "--schema", str(tmp_path / "a.avsc")).code == 0
    assert [row["value"] for row in rows(tmp_path / "out")] == [expected]


def test_protobuf(cli: Run, tmp_path: Path) -> None:
    files = descriptor_pb2.FileDescriptorSet()
    message = files.file.add(name="a.proto", package="shop").message_type.add(name="Order")
    message.field.add(
        name="id", number=1, type=FieldDescriptor.TYPE_INT64, label=FieldDescriptor.LABEL_OPTIONAL
    )
    path = tmp_path / "a.desc"
    path.write_bytes(files.SerializeToString())
    write_log(tmp_path / "store/commitlog", [b"\x08\x07", b""])
    command = (
        "export",
        "--store",
        str(tmp_path / "store"),
        "--decode",
        "protobuf",
        "--out",
        str(tmp_path / "out"),
    )
    result = cli(*command, "--schema", str(path))
    assert (result.code, "expected FILE#NAME, the name of a type in the file" in result.err) == (
        ExitCode.USAGE,
        True,
    )
    assert cli(*command, "--schema", f"{path}#shop.Order").code == 0
    assert [row["value"] for row in rows(tmp_path / "out")] == [{"id": 7}, {"id": None}]


def test_no_schema_file(cli: Run, tmp_path: Path) -> None:
    command = ("export", "--store", "S", "--out", str(tmp_path / "out"), "--decode", "json")
    result = cli(*command, "--schema", str(tmp_path / "none.json"))
    assert (result.code, result.err) == (
        ExitCode.NOT_FOUND,
        f"rmq: {tmp_path}/none.json: No such file or directory\n",
    )
