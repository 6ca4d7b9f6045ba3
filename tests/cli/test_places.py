"""Paths as typed: of this machine, also as `file:` URIs; nothing is written under the name of another place."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqcli.grammar.values import GrammarError, local_path
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/store", "/data/store"),
        ("store", "store"),
        ("-", "-"),
        ("copy:1", "copy:1"),
        ("C:store", "C:store"),
        ("./s3:/x", "s3:/x"),
        ("file:///data/a%20store", "/data/a store"),
        ("file://localhost/data", "/data"),
        ("file:/data/store", "/data/store"),
        ("file:store", "store"),
        ("FILE:/data", "/data"),
    ],
)
def test_paths_and_file_uris(text: str, path: str) -> None:
    assert local_path(text) == Path(path)


@pytest.mark.parametrize(
    "text",
    ["s3://bucket/a", "gs:a", "S3:/a", "hdfs://name/a", "x-y://a", "file://host/a", "file:", "file:a%00"],
)
def test_other_places(text: str) -> None:
    with pytest.raises(GrammarError, match=f"^{text}: expected "):
        local_path(text)


@pytest.mark.parametrize(
    "words",
    [
        ["sql", "select 1", "--out", "ftp://b/a.parquet"],
        ["report", "--out", "gs:a.html"],
        ["export", "--topic", "t", "--out", "ftp://b/a"],
        ["export", "--topic", "t", "--table", "delta:file://host/a"],
        ["export", "--store", "s3://b/a", "--out", "a"],
        ["mirror", "b", "--store", "s3://b/a"],
        ["mirror", "b", "--store", "a", "--parquet", "ftp://b/a"],
        ["inspect", "store", "s3://b/a"],
        ["inspect", "rebuild", "a", "--out", "s3://b/a"],
        ["spark", "package", "--out", "s3://b/a.zip"],
        ["send", "t", "--file", "https://host/a"],
        ["import", "ftp://b/a", "--topic", "t"],
        ["up", "--store", "hdfs://b/a"],
        ["bench", "send", "--compare", "s3://b/a"],
    ],
)
def test_every_option_that_names_a_path_refuses_other_places(
    cli: Run, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli(*words)
    assert done.code == 2, done.err
    assert "expected a path of this machine" in done.err or "expected file:///PATH" in done.err, done.err
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
