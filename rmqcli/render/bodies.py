"""The part of a body that is shown, and its form."""

from __future__ import annotations

from dataclasses import dataclass

_LEAD = 0xC0  # from here on, a byte begins a character of several bytes
_LENGTHS = ((0xF0, 4), (0xE0, 3), (0xC0, 2))


@dataclass(frozen=True, slots=True)
class Bodies:
    """The form of bodies. `limit`: bytes. `screen`: columns and rows to fill at most on a terminal.

    `raw`: bodies as they are, and nothing else without a format. `meta_only`: no bodies.
    """

    raw: bool = False
    meta_only: bool = False
    limit: int | None = None
    screen: tuple[int, int] | None = None

    def cut(self, body: bytes) -> bytes:
        """Return the part to show; text is not cut inside a character."""
        if self.limit is None or len(body) <= self.limit:
            return body
        return _whole_characters(body[: self.limit])


WHOLE = Bodies()


def _whole_characters(part: bytes) -> bytes:
    for place, byte in enumerate(reversed(part[-3:]), 1):
        if byte >= _LEAD:
            length = next(length for lead, length in _LENGTHS if byte >= lead)
            return part[:-place] if length > place else part
        if byte < 0x80:
            break
    return part


def screenful(text: str, columns: int, rows: int) -> str:
    """Return the beginning of a text that takes at most so many rows of a terminal."""
    shown: list[str] = []
    for line in text[: columns * rows + rows].split("\n"):
        taken = max(1, -(-len(line) // columns))
        if taken >= rows:
            shown.append(line[: rows * columns])
            break
        shown.append(line)
        rows -= taken
    return "\n".join(shown)
