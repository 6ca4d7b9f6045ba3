"""Inspections of tables whose file is damaged and whose `.bak` is read instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support import JavaStore

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


def test_pending_work_of_an_older_version(cli: Run, copy_java_store: Callable[[str], JavaStore]) -> None:
    root = copy_java_store("store-killed").root
    sound = {
        command: cli("inspect", command, str(root), "--json")
        for command in ("delay", "transactions", "store")
    }
    assert [one.err for one in sound.values()] == ["", "", ""]
    for name in ("delayOffset.json", "consumerOffset.json"):
        file = root / "config" / name
        file.with_name(f"{name}.bak").write_bytes(file.read_bytes())
        file.write_bytes(b"{")
    for command, name in (("delay", "delayOffset.json"), ("transactions", "consumerOffset.json")):
        found = cli("inspect", command, str(root), "--json")
        assert found.json == [row | {"source": f"{name}.bak"} for row in sound[command].json]
        assert sound["delay"].json
        assert f"the rows are those of {name}.bak, an older version" in found.err
    assert "an older version" in cli("inspect", "delay", str(root), "--stats").err
    store = cli("inspect", "store", str(root), "--json")
    assert store.err.count("an older version") == 2
    assert sorted(store.json["sources"]) == ["consumerOffset.json", "delayOffset.json"]
