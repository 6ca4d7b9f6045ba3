"""The mappings of a long commit log: few at a time, and each as long as somebody holds it."""

from __future__ import annotations

from pathlib import Path

from rmqcli.codec.store.file_names import file_name
from rmqcli.store.read.commit_log import MOST_MAPPED, LogViews
from rmqcli.store.read.files import offset_files

FILES = MOST_MAPPED * 2


def of_log(folder: Path) -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if line.endswith(tuple(map(str, folder.iterdir())))]


def test_few_files_are_mapped_at_a_time(tmp_path: Path) -> None:
    for number in range(FILES):
        (tmp_path / file_name(number * 8)).write_bytes(bytes([number]) * 8)
    with LogViews(offset_files(tmp_path)) as views:
        held, second = views.view(0), views.view(1)
        for number in range(FILES):
            data, position = views.place(number * 8 + 1) or (b"", 0)
            assert (bytes(data), position) == (bytes([number]) * 8, 1)
            views.view(1)
        assert held == bytes(8)
        assert views.view(1) is second
        del data, second
        # The held one was left out, and the second was always among the last that were used.
        assert len(of_log(tmp_path)) == MOST_MAPPED + 1
    del held
    assert of_log(tmp_path) == []
