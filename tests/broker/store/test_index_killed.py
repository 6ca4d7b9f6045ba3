"""A process killed while it writes the index: what the next one completes equals a rebuild."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from broker.store import index_file
from codec.core.derived import chain_items
from tests.broker.store.support import SLOTS, Rebuild, killed, loaded, message, small_config

ITEMS = 15
"""One more than a file holds: three keys a message do not fill it evenly."""


class Killed(Exception):
    """The end of the process."""


class Layout:
    """A layout whose writes are counted; the one after `left` does not happen."""

    left = 1 << 30

    def __init__(self, layout: Any) -> None:
        self._layout = layout
        self.size, self.unpack_from = layout.size, layout.unpack_from
        self.struct = self

    def pack_into(self, *arguments: Any) -> None:
        if Layout.left == 0:
            raise Killed
        Layout.left -= 1
        self._layout.struct.pack_into(*arguments)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Layout, "left", 1 << 30)
    for name in ("HEADER", "ITEM", "SLOT"):
        monkeypatch.setattr(index_file, name, Layout(getattr(index_file, name)))

    def chained(*arguments: Any) -> Any:
        """End the process before the items are written, which is one write for all of them."""
        if Layout.left == 0:
            raise Killed
        Layout.left -= 1
        return chain_items(*arguments)

    monkeypatch.setattr(index_file, "chain_items", chained)


def index_bytes(root: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((root / "index").iterdir())]


@pytest.mark.parametrize("before", [1, 4])
def test_killed_at_every_write_of_the_index(tmp_path: Path, counted: None, before: int) -> None:
    steps = 0
    while True:
        used, left = tmp_path / "used", tmp_path / "left"
        with loaded(small_config(used, max_index_num=ITEMS)) as store:
            for number in range(before):
                store.append(message(number))
            store.query("TopicA", "all", 1, 0, 1 << 50)  # writes what was gathered
            for number in range(before, before + 5):
                store.append(message(number))
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
