"""A process killed while it writes the index: what the next one completes equals a rebuild."""

from __future__ import annotations

import shutil
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.store import index_file
from tests.broker.store.support import SLOTS, Rebuild, killed, loaded, message, small_config

ITEMS = 15
"""One more than a file holds: three keys a message do not fill it evenly."""


def as_source(name: str) -> Any:
    """A module of the core that is not compiled, so that a test may patch it."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None
    path = Path(spec.origin).with_name(f"{name.rpartition('.')[2]}.py")
    source = spec_from_file_location("as_source", path)
    assert source is not None and source.loader is not None
    module = module_from_spec(source)
    source.loader.exec_module(module)
    return module


derived = as_source("rmqcli.codec.core.derived")


class Killed(Exception):
    """The end of the process."""


class Layout:
    """A layout whose writes are counted; the one after `left` does not happen."""

    left = 1 << 30

    def __init__(self, layout: Any) -> None:
        self._layout = layout
        self.size, self.unpack_from = layout.size, layout.unpack_from
        self.struct = self

    @classmethod
    def count(cls) -> None:
        if cls.left == 0:
            raise Killed
        cls.left -= 1

    def pack_into(self, *arguments: Any) -> None:
        Layout.count()
        self._layout.struct.pack_into(*arguments)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layout, "left", 1 << 30)
    for name in ("HEADER", "ITEM", "SLOT"):
        monkeypatch.setattr(index_file, name, Layout(getattr(index_file, name)))

    def counted_write(*arguments: Any) -> None:
        Layout.count()
        derived.SLOT.struct.pack_into(*arguments)

    def put(*arguments: Any) -> int:
        """End the process before the items are written, which is one write for all of them, or before a slot."""
        Layout.count()
        used: int = derived.put_items(*arguments)
        return used

    monkeypatch.setattr(derived, "_write_slot", counted_write)
    monkeypatch.setattr(index_file, "put_items", put)


def index_bytes(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


@pytest.mark.parametrize("before", [1, 4])
def test_killed_at_every_write_of_the_index(tmp_path: Path, counted: None, before: int) -> None:
    steps = 0
    while True:
        used, left = tmp_path / "used", tmp_path / "left"
        with loaded(small_config(used, max_index_num=ITEMS)) as store:
            for number in range(before):
                store.writer.append(message(number))
            store.query("TopicA", "all", 1, 0, 1 << 50)  # writes what was gathered
            for number in range(before, before + 5):
                store.writer.append(message(number))
            Layout.left = steps
            try:
                store.query("TopicA", "all", 1, 0, 1 << 50)
                break
            except Killed:
                killed(used, left)
            finally:
                Layout.left = 1 << 30
        for _ in range(2):
            with loaded(small_config(left, max_index_num=ITEMS)):
                pass
            assert index_bytes(left) == Rebuild(left).index_files(SLOTS, ITEMS), (
                f"killed before write {steps}"
            )
        shutil.rmtree(used)
        shutil.rmtree(left)
        steps += 1
    assert steps > 20
