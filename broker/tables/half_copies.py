"""Half messages that were written again behind the others, and where they are now.

A half message that is checked, or put off, is copied to the end of the half queue; a producer may still end
the transaction by naming an earlier copy. All numbers are offsets of the half queue. The table is not saved:
after a restart only the copies made since are known.
"""

from __future__ import annotations


class HalfCopies:
    """Earlier offset → offset of the newest copy, as long as that one is open."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._earlier: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._newest)

    def moved(self, old: int, new: int) -> None:
        """The newest copy was at `old` and is at `new` now."""
        earlier = self._earlier.pop(old, [])
        earlier.append(old)
        self._earlier[new] = earlier
        for offset in earlier:
            self._newest[offset] = new

    def newest(self, offset: int) -> int:
        """Return the place of the message that stood at `offset`; `offset` itself when it was not copied."""
        return self._newest.get(offset, offset)

    def forget(self, newest: int) -> None:
        """The message whose newest copy is at `newest` is done with."""
        for offset in self._earlier.pop(newest, ()):
            del self._newest[offset]
