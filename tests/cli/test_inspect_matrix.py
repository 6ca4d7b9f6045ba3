"""Every inspection with every option: those in docs/inspect.md work, an error names who has others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from rmqcli.cli.exit_codes import ExitCode
from tests.cli.conftest import Run
from tests.support import JavaStore

Copy = Callable[[str], JavaStore]

_PAGE = (Path(__file__).parents[2] / "docs" / "inspect.md").read_text()
_TABLE = _PAGE[_PAGE.index("| inspection") :].partition("\n\n")[0]
_HEAD, *_ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|").split("|")]
    for line in _TABLE.splitlines()
    if line.startswith(("| inspection", "| `"))
]
OPTIONS = _HEAD[1:]
HAS = {row[0]: {name for name, cell in zip(OPTIONS, row[1:], strict=True) if cell == "yes"} for row in _ROWS}

VALUES = {
    "--topic": ["SeedNormal"],
    "--queue": ["1"],
    "--key": ["key-0"],
    "--tag": ["TagA || TagB"],
    "--group": ["load_group"],
    "--where": ["{column} > 0"],
    "-o": ["0:1000"],
    "-c": ["1"],
    "-f": [r"%t\n"],
    "--stats": [],
    "--explain": [],
}
COLUMN = {
    "store": "messages",
    "commitlog": "store_size",
    "consumequeue": "size",
    "index": "items",
    "offsets": "offset",
    "topics": "perm",
    "groups": "broker_id",
    "delay": "pending",
    "timers": "queue_id",
    "transactions": "queue_offset",
}
TOGETHER = {("index", "--key"): ["--topic", "SeedNormal"], ("index", "--topic"): ["--key", "key-0"]}
TOGETHER["index", "-f"] = [*TOGETHER["index", "--key"], *TOGETHER["index", "--topic"]]


def given(inspection: str, option: str) -> list[str]:
    values = [value.format(column=COLUMN.get(inspection, "size")) for value in VALUES[option]]
    return [option, *values, *TOGETHER.get((inspection, option), [])]


@pytest.fixture
def store(copy_java_store: Copy, request: pytest.FixtureRequest) -> JavaStore:
    """With half messages that no group is known to be through with; for timers, that of a broker of 5.x."""
    if getattr(request.node, "callspec", None) and request.node.callspec.params.get("inspection") == "timers":
        return copy_java_store("store-five")
    found = copy_java_store("store-clean")
    (found.root / "config/consumerOffset.json").write_text(
        '{"offsetTable":{"SeedNormal@load_group":{0:5,1:375}}}'
    )
    (found.root / "config/consumerOffset.json.bak").unlink()
    return found


def test_the_table_is_read() -> None:
    assert len(HAS) == 11
    assert set(OPTIONS) == set(VALUES)
    assert "-f" in HAS["commitlog"] and "-f" not in HAS["store"]


@pytest.mark.parametrize("inspection", HAS)
def test_a_row_of_the_table(cli: Run, store: JavaStore, inspection: str) -> None:
    for option in OPTIONS:
        result = cli("inspect", inspection, str(store.root), *given(inspection, option))
        if option in HAS[inspection]:
            assert (result.code, result.err) == (ExitCode.DONE, ""), option
            continue
        assert (result.code, result.out) == (ExitCode.USAGE, b""), option
        named = re.search(r"No such option: (\S+); (.*) ha(?:s|ve) it", result.err)
        assert named is not None and named[1] == option, option
        assert set(re.split(", | and ", named[2])) >= {one for one in HAS if option in HAS[one]}, option


@pytest.mark.parametrize("inspection", HAS)
def test_every_inspection_in_json(cli: Run, store: JavaStore, inspection: str) -> None:
    for option in ([], ["--stats"], ["--explain"]):
        if not option or option[0] in HAS[inspection]:
            lines = cli("inspect", inspection, str(store.root), *option, "--json").out.splitlines()
            assert lines or inspection == "delay"
            for line in lines:
                json.loads(line)


def test_what_excludes_each_other(cli: Run, store: JavaStore) -> None:
    several = ["--stats", "--explain", "-f"]
    for inspection, options in HAS.items():
        both = [given(inspection, option) for option in several if option in options]
        for first, second in pairwise(both):
            result = cli("inspect", inspection, str(store.root), *first, *second)
            assert (result.code, result.out) == (ExitCode.USAGE, b"")
            assert "cannot be combined" in result.err
