"""Inspections of tables whose file is damaged and whose `.bak` is read instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

TABLES = {
    "topics": ("topics.json", b'{"topicConfigTable":{"orders":{"topicName":"orders","perm":6}}}'),
    "groups": ("subscriptionGroup.json", b'{"subscriptionGroupTable":{"billing":{"groupName":"billing"}}}'),
    "offsets": ("consumerOffset.json", b'{"offsetTable":{"orders@billing":{0:7}}}'),
}


@pytest.mark.parametrize("command", TABLES)
@pytest.mark.parametrize("whole_store", [True, False], ids=["a store", "a file"])
def test_rows_of_an_older_version_are_named_as_such(
    cli: Run, tmp_path: Path, command: str, whole_store: bool
) -> None:
    name, content = TABLES[command]
    config = tmp_path / "config"
    config.mkdir()
    (tmp_path / "commitlog").mkdir()
    (config / name).write_bytes(content)
    (config / f"{name}.bak").write_bytes(content)
    path = str(tmp_path if whole_store else config / name)
    sound = cli("inspect", command, path, "--json")
    assert (sound.code, sound.err, "source" in sound.json[0]) == (0, "", False)
    (config / name).write_bytes(content[:-5])
    damaged = cli("inspect", command, path, "--json")
    assert [row["source"] for row in damaged.json] == [f"{name}.bak"]
    assert damaged.err.startswith(f"rmq: {config / name} cannot be used (")
    assert damaged.err.endswith(f"the rows are those of {name}.bak, an older version\n")
    assert cli("inspect", command, path).lines[0][-1] == f"{name}.bak"
