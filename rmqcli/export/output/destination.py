"""The destination of a run of an export: files are written to its place, and then become visible together.

An `ExportFolder` is one, and a run on a table of a lakehouse is another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rmqcli.export.output.layout import Layout
from rmqcli.export.output.manifest import FileEntry, Manifest
from rmqcli.export.output.places import Place
from rmqcli.export.output.spans import QueueSpan


class Destination(Protocol):
    """Write files to `place` with `layout`, then call `commit(measure(names))`."""

    @property
    def shown(self) -> str:
        """The name of the destination, as the user gave it."""

    @property
    def place(self) -> Place: ...

    @property
    def layout(self) -> Layout: ...

    @property
    def previous(self) -> Manifest | None:
        """The content of the destination; None: it is new."""

    @property
    def prefix(self) -> str:
        """The begin of names of files in the place."""

    def measure(self, names: Iterable[str]) -> list[FileEntry]:
        """Return entries of files in the place."""

    def commit(
        self,
        files: Sequence[FileEntry],
        reached: Sequence[QueueSpan] = ...,
        ends: Mapping[str, int | None] = ...,
    ) -> list[FileEntry]:
        """Make measured files and the ends of queues and store visible together; return what was added.

        `reached` are spans without rows, as far as queues were read; the next export of a store continues at
        its commit-log offset in `ends`, or where that is None at the end of each queue.
        """
