"""Masks: no byte of an output has masked text, the rest stays, and a hash is the same for the same text."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rmqcli.cli.exit_codes import ExitCode
from rmqcli.export import Layout, RowFilter, export_store
from rmqcli.export.errors import MaskError
from rmqcli.export.transform.masking import Place, masked, parse_masks, read_key
from rmqcli.export.transform.transform import Transform
from tests.cli.conftest import Run
from tests.codec.samples import make_record
from tests.export.support import manifest_of
from tests.export.transform.samples import rows

KEY = b"0123456789abcdef-key"
TAG, WORD, UID, EMAIL, CARD = "SecretTag", "secretkey", "5EC2E7AAAAAAAA", "ann@secret.org", "4000123412345678"
ROWS = 6
SCHEMA = {
    "properties": {
        "email": {"type": "string"},
        "card": {"type": "integer"},
        "lines": {
            "type": "array",
            "items": {"properties": {"to": {"type": "string"}, "n": {"type": "integer"}}},
        },
        "ok": {"type": "boolean"},
    }
}


def body(number: int, filling: int) -> bytes:
    value = {
        "email": EMAIL,
        "card": int(CARD),
        "lines": [{"to": EMAIL, "n": number}],
        "ok": True,
        "x": "y" * filling,
    }
    return json.dumps(value).encode()


def write_store(folder: Path, filling: int = 0) -> Path:
    """Writes messages whose tag, key, id, property and body have secrets; the last one has a body that is wrong."""
    data = bytearray()
    for number in range(ROWS):
        found = {
            "TAGS": TAG,
            "KEYS": f"{WORD} k{number}",
            "UNIQ_KEY": f"{UID}{number}",
            "email": EMAIL,
            "n": str(number),
        }
        properties = "\2".join(f"{name}\1{value}" for name, value in found.items()).encode()
        data += make_record(
            physical_offset=len(data),
            queue_offset=number,
            properties=properties,
            body=body(number, filling) if number < ROWS - 1 else EMAIL.encode(),
        )
    (folder / "store/commitlog").mkdir(parents=True)
    (folder / "store/commitlog" / f"{0:020d}").write_bytes(data)
    (folder / "value.json").write_text(json.dumps(SCHEMA))
    (folder / "key").write_bytes(KEY + b"\n")
    return folder / "store"


def hashed(text: str) -> str:
    return hmac.digest(KEY, text.encode(), "sha256").hex()


def everything(out: Path) -> bytes:
    """Returns the bytes of all files, and their names."""
    files = sorted(path for path in out.rglob("*") if path.is_file())
    return b"".join(str(path).encode() + path.read_bytes() for path in files)


DECODE = ("--decode", "json", "--on-error", "column")


@pytest.fixture
def filling() -> int:
    """Bytes that make bodies longer."""
    return 0


@pytest.fixture
def export(filling: int, cli: Run, tmp_path: Path) -> Run:
    """Of a store, uncompressed, to `out`."""
    store = write_store(tmp_path, filling)
    decode = (*DECODE, "--schema", str(tmp_path / "value.json"))
    layout = ("--compression", "none", "--body-text", "--out", str(tmp_path / "out"))
    key = ("--mask-key-file", str(tmp_path / "key"))

    def run(*masks: str) -> Any:
        words = [word for mask in masks for word in ("--mask", mask)]
        hashes = any(mask.endswith(":hash") for mask in masks)
        return cli("export", "--store", str(store), *decode, *layout, *words, *(key if hashes else ()))

    return run


def test_the_secrets_are_there_without_masks(export: Run, tmp_path: Path) -> None:
    assert export().code == 0
    found = everything(tmp_path / "out")
    assert [one for one in (TAG, WORD, UID, EMAIL, CARD) if one.encode() not in found] == []


@pytest.mark.parametrize(
    ("masks", "gone"),
    [
        (["tags:drop"], [TAG]),
        (["properties.TAGS:hash"], [TAG]),
        (["keys:hash"], [WORD]),
        (["properties.KEYS:drop"], [WORD]),
        (["offset_msg_id:keep-last-4"], [UID]),
        (["msg_id:drop"], [UID]),
        (["properties:hash"], [TAG, WORD, UID]),
        (["properties:drop"], [TAG, WORD, UID]),
        (["body:drop", "properties.email:drop"], [EMAIL, CARD]),
        (["body:hash", "properties.email:hash"], [EMAIL, CARD]),
        (["value:drop", "properties.email:keep-last-4"], [EMAIL, CARD]),
        (["value.card:keep-last-4"], [CARD]),
        (["value.email:hash", "value.lines.to:hash", "properties.email:drop"], [EMAIL]),
        (["value.lines:drop", "value.email:drop", "properties:drop"], [TAG, WORD, UID, EMAIL]),
    ],
    ids=",".join,
)
def test_no_byte_has_masked_text(export: Run, tmp_path: Path, masks: list[str], gone: list[str]) -> None:
    assert export(*masks).code == 0
    found = everything(tmp_path / "out")
    assert [one for one in gone if one.encode() in found] == []
    assert CARD not in gone or int(CARD).to_bytes(8, "little") not in found
    assert len(rows(tmp_path / "out")) == ROWS
    assert [one for one in (TAG, WORD, UID) if one not in gone and one.encode() not in found] == []


@pytest.mark.parametrize("filling", [2000])
@pytest.mark.parametrize("mask", ["body:drop", "body:hash", "value.email:hash", "value:drop"])
def test_large_bodies_that_are_views(export: Run, tmp_path: Path, mask: str) -> None:
    assert (
        export(
            mask, "properties.email:drop", "value.lines:drop" if mask.startswith("value.") else "tags:drop"
        ).code
        == 0
    )
    assert EMAIL.encode() not in everything(tmp_path / "out")
    assert len(rows(tmp_path / "out")) == ROWS


def test_what_the_columns_are(export: Run, tmp_path: Path) -> None:
    masks = ("tags:hash", "keys:keep-last-4", "properties.email:hash", "value.email:hash", "value.card:hash")
    assert export(*masks, "value.lines.to:drop").code == 0
    found = rows(tmp_path / "out")
    row = found[1]
    assert row["tags"] == dict(row["properties"])["TAGS"] == hashed(TAG)
    assert row["keys"] == ["****tkey", "****"]
    names = dict(row["properties"])
    assert (names["KEYS"], names["n"], names["email"]) == ("****tkey ****", "1", hashed(EMAIL))
    assert row["value"] == {
        "email": hashed(EMAIL),
        "card": hashed(CARD),
        "lines": [{"to": None, "n": 1}],
        "ok": True,
    }
    assert (row["body"], row["body_text"], row["body_crc"], row["value_error"]) == (None, None, None, None)
    assert row["msg_id"] == f"{UID}1"
    last = found[-1]
    assert (last["value"], last["body"], last["value_error"]) == (
        None,
        None,
        "not JSON: JSON is malformed: invalid character (byte 0)",
    )


def test_a_hashed_body(export: Run, tmp_path: Path) -> None:
    assert export("body:hash").code == 0
    row = rows(tmp_path / "out")[-1]
    assert (row["body"], row["body_text"]) == (hashed(EMAIL).encode(), hashed(EMAIL))
    assert (row["body_crc"], row["value"], row["value_error"]) == (None, None, None)
    assert manifest_of(tmp_path / "out").files[0].undecoded == 0


def test_in_partitions(tmp_path: Path) -> None:
    """Also without a key, and with one that is said to nobody."""
    store = write_store(tmp_path)
    masks = parse_masks(["properties:hash", "body:drop", "born_host:drop", "store_host:hash"], KEY)
    layout = Layout(("topic", "queue"), compression="none", transform=Transform(masks=masks))
    export_store(store, tmp_path / "out", RowFilter(), layout=layout)
    found = everything(tmp_path / "out")
    assert [one for one in (TAG, WORD, UID, EMAIL, "127.0.0.1") if one.encode() in found] == []
    assert KEY not in found and KEY.decode() not in repr(layout)
    assert hashed(EMAIL).encode() in found
    plain = masked(pa.array(["a"]), Place("tags"), "hash", b"")
    assert plain.to_pylist() == [sha256(b"a").hexdigest()]


def test_a_topic(rmq: Run, topic: str, tmp_path: Path) -> None:
    rmq("send", topic, EMAIL, "--tag", TAG, "--key", WORD, "-p", f"email={EMAIL}")
    masks = ("--mask", "body:drop", "--mask", "tags:drop", "--mask", "properties.email:hash")
    assert (
        rmq("export", "--topic", topic, "--out", str(tmp_path / "out"), "--compression", "none", *masks).code
        == 0
    )
    found = everything(tmp_path / "out")
    assert (EMAIL.encode() in found, TAG.encode() in found, WORD.encode() in found) == (False, False, True)
    (row,) = rows(tmp_path / "out")
    assert dict(row["properties"])["email"] == sha256(EMAIL.encode()).hexdigest()


def test_a_table_has_the_same_masks_in_every_run(cli: Run, tmp_path: Path) -> None:
    store, table = write_store(tmp_path), tmp_path / "table"
    decode = (*DECODE, "--schema", str(tmp_path / "value.json"))
    export = ("export", "--store", str(store), "--broker-name", "b", "--table", f"delta:{table}", *decode)
    masks = ("--mask", "value.email:drop", "--mask", "value.lines:drop", "--mask", "properties:drop")
    assert cli(*export, *masks, "--compression", "none").code == 0
    found = everything(table)
    assert [one for one in (TAG, WORD, UID, EMAIL) if one.encode() in found] == []
    assert cli(*export, *masks, "--resume").lines[0][2] == "0"
    result = cli(*export, *masks[2:], "--resume")
    given = "properties:drop || value.email:drop || value.lines:drop"
    said = f"was exported with --mask {given}, not properties:drop || value.lines:drop; specify the same"
    assert (result.code, said in result.err) == (ExitCode.USAGE, True), result.err
    result = cli(*export, *masks, "--sample", "5%", "--resume")
    assert (result.code, "with --sample none, not 5%" in result.err) == (ExitCode.USAGE, True)


def test_an_export_is_continued_with_the_same_masks_and_key(cli: Run, tmp_path: Path) -> None:
    store = write_store(tmp_path)
    command = (
        "export",
        "--store",
        str(store),
        "--out",
        str(tmp_path / "out"),
        "--resume",
        "--mask",
        "body:drop",
        "--mask",
    )
    key = ("--mask-key-file", str(tmp_path / "key"))
    assert cli(*command, "tags:hash", *key).code == 0
    assert manifest_of(tmp_path / "out").masks == ["body:drop", "tags:hash"]
    assert cli(*command, "tags:hash", *key).code == 0
    result = cli(*command, "tags:drop")
    assert (result.code, "with --mask body:drop,tags:hash, not body:drop,tags:drop" in result.err) == (
        ExitCode.USAGE,
        True,
    )
    (tmp_path / "key").write_bytes(b"another key of enough bytes")
    result = cli(*command, "tags:hash", *key)
    assert (result.code, "was exported with --mask-key-file " in result.err) == (ExitCode.USAGE, True)


def test_slices_and_nulls() -> None:
    """Batches may be slices, and structs and lists have nulls."""
    kind = pa.struct([("a", pa.list_(pa.struct([("b", pa.string())]))), ("c", pa.int32())])
    whole = [
        {"a": [{"b": "x"}], "c": 1},
        None,
        {"a": None, "c": 2},
        {"a": [None, {"b": "12345678"}, {"b": None}], "c": 3},
    ]
    column = pa.array(whole, kind)
    for begin in range(len(whole)):
        found = masked(column.slice(begin), Place("value", "a.b"), "keep-last-4", b"")
        found.validate(full=True)
        expected = [
            *[{"a": [{"b": "****"}], "c": 1}, None, {"a": None, "c": 2}],
            {"a": [None, {"b": "****5678"}, {"b": None}], "c": 3},
        ]
        assert found.to_pylist() == expected[begin:]
    dropped = masked(column, Place("value", "a"), "drop", b"")
    assert dropped.to_pylist() == [one and {"a": None, "c": one["c"]} for one in whole]
    names = pa.array(
        [[("a", "1"), ("b", "2")], [], [("b", "3"), ("c", "4")]], pa.map_(pa.string(), pa.string())
    )
    for begin in range(3):
        found = masked(names.slice(begin), Place("properties", "b"), "drop", b"")
        found.validate(full=True)
        assert found.to_pylist() == [[("a", "1")], [], [("c", "4")]][begin:]
        found = masked(names.slice(begin), Place("properties", "b"), "keep-last-4", b"")
        assert found.to_pylist() == [[("a", "1"), ("b", "****")], [], [("b", "****"), ("c", "4")]][begin:]


@pytest.mark.parametrize(
    ("masks", "said"),
    [
        (["body"], "--mask body: expected FIELD:ACTION, with the action drop, hash, keep-last-4"),
        (["body:erase"], "--mask body:erase: expected FIELD:ACTION"),
        ([""], "--mask : expected FIELD:ACTION"),
        (
            ["topic:drop"],
            "--mask topic:drop: topic cannot be masked, only tags, keys, msg_id, offset_msg_id, ",
        ),
        (["tags.a:drop"], "--mask tags.a:drop: tags.a cannot be masked"),
        (["properties.:drop"], "--mask properties.:drop: properties. cannot be masked"),
        (
            ["tags:drop", "properties.TAGS:hash"],
            "--mask tags:drop and properties.TAGS:hash: they mask the same text",
        ),
        (
            ["properties:drop", "properties.email:hash"],
            "--mask properties:drop and properties.email:hash: they mask",
        ),
        (["body:drop", "value.email:hash"], "--mask body:drop and value.email:hash: they mask the same text"),
        (
            ["value.none:drop"],
            "--mask value.none: there is no field none; fields there: email, card, lines, ok",
        ),
        (["value.email.x:drop"], "--mask value.email.x: there is no field x; fields there: none"),
        (
            ["value.ok:hash"],
            "--mask value.ok:hash: it is bool: only texts, bytes and whole numbers; use drop",
        ),
        (["value:hash"], "--mask value:hash: it is struct<"),
    ],
    ids=str,
)
def test_refused_masks(cli: Run, tmp_path: Path, masks: list[str], said: str) -> None:
    (tmp_path / "value.json").write_text(json.dumps(SCHEMA))
    words = [word for mask in masks for word in ("--mask", mask)]
    decode = (*DECODE, "--schema", str(tmp_path / "value.json"))
    result = cli("export", "--store", "S", "--out", str(tmp_path / "out"), *decode, *words)
    assert (result.code, result.err.count("\n")) == (ExitCode.USAGE, 1)
    assert result.err.startswith(f"rmq: {said}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mask", "value.email:drop"], "--mask value.email:drop: value is a column of --decode"),
        (["--mask-key-file", "key"], "--mask-key-file requires --mask FIELD:hash"),
        (["--mask", "tags:drop", "--mask-key-file", "key"], "--mask-key-file requires a mask FIELD:hash"),
        (["--mask", "tags:hash", "--mask-key-file", "short"], "short: a key has 16 bytes or more"),
    ],
)
def test_refused_options(
    cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key").write_bytes(KEY)
    Path("short").write_bytes(b"0123456789abcde\n")
    result = cli("export", "--store", "S", "--out", "out", *arguments)
    assert (result.code, result.err.startswith(f"rmq: {said}")) == (ExitCode.USAGE, True), result.err


def test_line_ends_are_no_part_of_a_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY + b"\r\n")
    assert read_key(tmp_path / "key") == KEY
    (tmp_path / "key").write_bytes(bytes(1 << 17))
    with pytest.raises(MaskError, match="at most 64 KiB"):
        read_key(tmp_path / "key")
