r"""A terminal with an alternate screen and single keys, which is always restored.

Ctrl-C and Ctrl-Z remain signals; Ctrl-\ is off, because it ends a process without restoring anything.
"""

from __future__ import annotations

import codecs
import os
import re
import signal
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rmqcli.top.table import Line

# Bytes of a terminal in, names of keys out.
#
# A key is named by its character, or `up`, `down`, `left`, `right`, `home`, `end`, `pageup`, `pagedown`,
# `enter`, `backspace`, `tab`, `escape`. Sequences are those of xterm (ctlseqs); unknown ones are not keys.

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
    """Decodes the bytes read so far. A lone ESC at their end is the Escape key."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, data: bytes) -> list[str]:
        """Return the keys; an incomplete sequence waits for the next bytes."""
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


_LOCAL = 3  # index of the local modes in the result of tcgetattr
_CHARACTERS = 6


class Screen:
    """Shows lines inside a `with` block. `keys` is the file descriptor to read keys from, None without a
    terminal.
    """

    def __init__(self, *, color: bool) -> None:
        self._color = color
        self._console = Console(no_color=not color, highlight=False)
        self._live: Live | None = None
        self._former: list[Any] | None = None
        self.keys = 0 if sys.stdin is not None and sys.stdin.isatty() else None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.size

    def paint(self, lines: Sequence[Line]) -> None:
        if self._live is not None:
            texts = [Text(one.text, one.style if self._color else "", no_wrap=True) for one in lines]
            self._live.update(Group(*texts), refresh=True)

    def suspend(self) -> None:
        """Restore the terminal and stop the process; return when it is continued, with the screen as before."""
        self._leave()
        # With the default action, the signal stops the process at once; the next line runs after SIGCONT.
        former = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, former)
        self._enter()

    def resume(self) -> None:
        """Take the terminal again: another process may have changed it while this one was stopped."""
        self._leave()
        self._enter()

    def __enter__(self) -> Screen:
        try:
            self._enter()
        except BaseException:
            # `__exit__` does not run if `__enter__` raises.
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _enter(self) -> None:
        if self.keys is not None:
            # Only the first modes are restored: after a stop, those in effect may be of another process.
            self._former = self._former or termios.tcgetattr(self.keys)
            modes = termios.tcgetattr(self.keys)
            modes[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
            modes[_CHARACTERS][termios.VMIN], modes[_CHARACTERS][termios.VTIME] = 1, 0
            modes[_CHARACTERS][termios.VQUIT] = b"\0"
            termios.tcsetattr(self.keys, termios.TCSADRAIN, modes)
        self._live = Live(
            console=self._console,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()

    def _leave(self) -> None:
        live, self._live = self._live, None
        try:
            if live is not None:
                live.stop()
        finally:
            if self.keys is not None and self._former is not None:
                termios.tcsetattr(self.keys, termios.TCSADRAIN, self._former)
