"""The mappings of queue files: those that were not used lately make room for others.

Linux allows 65,530 mappings of a process (`vm.max_map_count`), and each queue has files of its own. A file is
mapped in a worker thread (`Readiness`) and unmapped by the event loop, the only user of its bytes then.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.store.segment import Segment

MOST_MAPPED = 32 * 1024


class Mappings:
    """At most `most` mapped files after `trim`: `Segment.used`, which is set whenever the residency of a file
    is asked for, decides by the clock algorithm.

    A running store trims once a second, and so may hold more for a while. Until `is_running`, while one
    thread loads the store, each new mapping makes room for itself.
    """

    most = MOST_MAPPED

    def __init__(self) -> None:
        self.is_running = False
        self._files: OrderedDict[Segment, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def add(self, file: Segment) -> None:
        if not self.is_running and len(self._files) >= self.most:
            self.trim(1)
        file.used = False
        self._files[file] = None

    def discard(self, file: Segment) -> None:
        self._files.pop(file, None)

    def trim(self, count: int) -> list[Segment]:
        """Unmap up to `count` of the files beyond the limit, and return them."""
        unmapped: list[Segment] = []
        while len(unmapped) < count and len(self._files) > self.most - (not self.is_running):
            file, _ = self._files.popitem(last=False)
            if file.used:
                file.used = False
                self._files[file] = None
            else:
                file.unmap()
                unmapped.append(file)
        return unmapped
