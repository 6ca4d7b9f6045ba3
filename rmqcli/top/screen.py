"""A terminal with an alternate screen and single keys, which is restored whatever happens.

Ctrl-C and Ctrl-Z stay signals; Ctrl-\\ is off, because it ends a process without restoring anything.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rmqcli.top.lines import Line

_LOCAL = 3  # place of the local modes in what tcgetattr returns
_CHARACTERS = 6


class Screen:
    """Shows lines between `with` and its end. `keys` is the file descriptor of the keys, None without a terminal."""

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
        """Restore the terminal and stop the process; return when it goes on, with the screen as before."""
        self._leave()
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
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _enter(self) -> None:
        if self.keys is not None:
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
