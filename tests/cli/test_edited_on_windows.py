"""Files that people edit on Windows: a byte order mark before the text, and lines that end with CR LF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.profiles import load_profiles, profiles_path
from rmqcli.cli.tls import java_file
from rmqcli.codec.bodies.offsets import OffsetSerializeWrapper
from rmqcli.codec.bodies.tables import decode_table
from rmqcli.codec.edited import BYTE_ORDER_MARK
from rmqcli.codec.message import Message
from rmqcli.flows.errors import InvalidInput
from rmqcli.import_.rows import local_file
from rmqcli.import_.sources import read_rows
from rmqcli.plans.metadata.document import Metadata, encoded, read_metadata
from rmqcli.plans.settings import TOPICS, read_entries


def profiles(path: Path) -> Any:
    profiles_path().parent.mkdir(parents=True, exist_ok=True)
    profiles_path().write_bytes(path.read_bytes())
    return load_profiles()["prod"].namesrv


def offsets(path: Path) -> Any:
    table = decode_table(OffsetSerializeWrapper, path.read_bytes())
    return None if table is None else list(table.offset_table.values())


def bodies(path: Path) -> Any:
    rows = read_rows(local_file(path.name, path), "T")
    return [row.message.body if isinstance(row.message, Message) else row.message for row in rows]


READERS: dict[str, tuple[str, Callable[[Path], Any], Any]] = {
    "profiles": ('[profiles.prod]\nnamesrv = "a:1"\n', profiles, "a:1"),
    "topics.yaml": (
        "- topicName: T\n",
        lambda path: [entry.name for entry in read_entries(path, TOPICS)],
        ["T"],
    ),
    "topics.json": (
        '[{"topicName": "T"}]\n',
        lambda path: [entry.name for entry in read_entries(path, TOPICS)],
        ["T"],
    ),
    "dump.json": (encoded(Metadata({"kv": {"b": {}}})).decode(), read_metadata, Metadata({"kv": {"b": {}}})),
    "tls.properties": ("tls.enable=true\n", lambda path: java_file(str(path)), {"tls.enable": "true"}),
    "rows.jsonl": (
        '{"body": "one"}\n{"body": "two"}\n',
        bodies,
        [b"one", b"two"],
    ),
    "offsets.json": (
        '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:7}}',
        offsets,
        [7],
    ),
}


@pytest.mark.parametrize("mark", [b"", BYTE_ORDER_MARK], ids=["plain", "mark"])
@pytest.mark.parametrize("name", READERS)
def test_a_file_is_read_with_and_without_a_mark(tmp_path: Path, name: str, mark: bytes) -> None:
    text, read, expected = READERS[name]
    path = tmp_path / name
    path.write_bytes(mark + text.replace("\n", "\r\n").encode())
    assert read(path) == expected


@pytest.mark.parametrize("name", ["topics.yaml", "topics.json", "dump.json", "tls.properties"])
def test_another_encoding_is_named(tmp_path: Path, name: str) -> None:
    text, read, _ = READERS[name]
    path = tmp_path / name
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises((InvalidInput, CommandError), match="UTF-16: save it as UTF-8"):
        read(path)
