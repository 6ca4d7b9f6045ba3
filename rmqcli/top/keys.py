"""Bytes of a terminal in, names of keys out.

A key is named by its character, or `up`, `down`, `left`, `right`, `home`, `end`, `pageup`, `pagedown`,
`enter`, `backspace`, `tab`, `escape`. Sequences are those of xterm (ctlseqs); unknown ones are no key.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping

_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[ -~])")
_BEGUN = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|O)\Z")
_NAMED: Mapping[str, str] = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "pageup",
    "6~": "pagedown",
    "7~": "home",
    "8~": "end",
    "Z": "left",
}
_CONTROLS: Mapping[str, str] = {
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x08": "backspace",
    "\x7f": "backspace",
    "\x1b": "escape",
    "\x0c": "redraw",
    "\x15": "clear",
}


class Keys:
    """Decodes what was read so far. A lone ESC at the end of what was read is the key of this name."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """Return the keys; a sequence that has only begun waits for the next bytes."""
        text = self._rest + self._text.decode(data)
        begun = _BEGUN.search(text)
        self._rest = "" if begun is None else begun[0]
        return list(_keys(text[: len(text) - len(self._rest)]))


def _keys(text: str) -> Iterator[str]:
    while text:
        sequence = _SEQUENCE.match(text)
        if sequence is not None:
            key = _NAMED.get(sequence[0][2:], "")
            text = text[sequence.end() :]
        else:
            key = _CONTROLS.get(text[0], text[0] if text[0].isprintable() else "")
            text = text[1:]
        if key:
            yield key
