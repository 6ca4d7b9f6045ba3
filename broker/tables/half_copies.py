"""Half messages that were copied to the end of their queue, and the offsets of their newest copies.

A half message that is checked or postponed is copied to the end of the half queue; a producer may still end
the transaction by naming an earlier copy. All numbers are offsets of the half queue. The table is not saved:
after a restart, only the copies made since are known.
"""

from __future__ import annotations


class HalfCopies:
    """Earlier offset → offset of the newest copy, as long as that is pending."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._earlier: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._newest)

    def moved(self, old: int, new: int) -> None:
        """Note that the newest copy was at `old` and is now at `new`."""
        earlier = self._earlier.pop(old, [])
        earlier.append(old)
        self._earlier[new] = earlier
        for offset in earlier:
            self._newest[offset] = new

    def newest(self, offset: int) -> int:
        """Return the offset of the newest copy of the message at `offset`; `offset` if it was not copied."""
        return self._newest.get(offset, offset)

    def forget(self, newest: int) -> None:
        """Forget the message whose newest copy is at `newest`."""
        for offset in self._earlier.pop(newest, ()):
            del self._newest[offset]
