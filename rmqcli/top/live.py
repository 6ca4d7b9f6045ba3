"""The live view: reads the cluster, the keys and the signals of the terminal, and paints after each of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import trio

from rmqcli.client import Admin, ClientError
from rmqcli.top.board import Board, Row, chosen
from rmqcli.top.loads import KINDS
from rmqcli.top.table import Facts, screenful
from rmqcli.top.terminal import Keys, Screen
from rmqcli.top.view import View, press

_SIGNALS = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_AGE_S = 1.0  # seconds between two paintings, because the shown ages increase


class Options(NamedTuple):
    """`where` names the cluster, `most` limits the rows."""

    where: str
    interval: float
    most: int | None = None


class _Session:
    """The view, a board for each kind, and the last problem: the time since which nothing can be read, and
    the reason.
    """

    def __init__(self, admin: Admin, screen: Screen, view: View, options: Options) -> None:
        self._admin, self._screen, self._view, self._options = admin, screen, view, options
        self._boards = {what: Board() for what in KINDS}
        self._read: dict[str, str] = {}  # local time of the last reading, by kind
        self._trouble: tuple[float, str] | None = None
        self._page = 1
        self._reading = trio.CancelScope()

    @property
    def _rows(self) -> list[Row]:
        view = self._view
        rows = chosen(self._boards[view.what].rows, view.sort, view.text, backwards=view.backwards)
        return rows[: self._options.most]

    def paint(self) -> None:
        view, now = self._view, time.monotonic()
        board = self._boards[view.what]
        facts = Facts(
            self._options.where,
            self._read.get(view.what, time.strftime("%H:%M:%S")),
            self._options.interval,
            len({row.name for row in board.rows}),
            board.losses,
            None if self._trouble is None else (now - self._trouble[0], self._trouble[1]),
            view.what in self._read,
        )
        shown = screenful(view, self._rows, facts, now, *self._screen.size)
        self._page = shown.rows
        self._screen.paint(shown.lines)

    def press(self, key: str) -> bool:
        """Apply a key to the view; return False to end it."""
        former, rows = self._view, self._rows
        self._view = press(former, key, rows=len(rows), page=self._page)
        if self._view.forgets != former.forgets:
            self._boards[former.what].forget()
        if self._view.what != former.what:
            # Ends the wait, or the reading of the former kind, so that the new one is read at once.
            self._reading.cancel()
        if key == "redraw":
            self._screen.resume()
        self.paint()
        return not self._view.ended

    async def read_on(self) -> None:
        """Read every interval, and at once when another kind is shown. Raise the error of the first reading."""
        while True:
            begin = trio.current_time()
            with trio.CancelScope() as self._reading:
                await self._take(self._view.what)
                self.paint()
                await trio.sleep_until(begin + self._options.interval)

    async def _take(self, what: str) -> None:
        try:
            reading = await KINDS[what](self._admin)
        except ClientError as error:
            if not self._read:
                raise
            since = time.monotonic() if self._trouble is None else self._trouble[0]
            self._trouble = since, str(error)
            return
        self._boards[what].update(reading, time.monotonic())
        self._read[what] = time.strftime("%H:%M:%S")
        self._trouble = None

    async def age(self) -> None:
        while True:
            await trio.sleep(_AGE_S)
            self.paint()

    async def obey(self, signals: AsyncIterator[int]) -> None:
        async for one in signals:
            if one == signal.SIGTSTP:
                self._screen.suspend()
            elif one == signal.SIGCONT:
                self._screen.resume()
            self.paint()

    async def listen(self, keys: int) -> None:
        """Handle keys; return after the key that ends the view, or when the terminal is gone."""
        decoder = Keys()
        while True:
            await trio.lowlevel.wait_readable(keys)
            data = os.read(keys, 1024)
            if not data or not all(self.press(key) for key in decoder.feed(data)):
                return


async def show_live(admin: Admin, view: View, options: Options, *, color: bool) -> None:
    """Show the view until its end. Raise ClientError if the cluster does not respond to the first reading."""
    screen = Screen(color=color)
    session = _Session(admin, screen, view, options)
    # Signals are caught before the terminal is changed, and until it is restored.
    with trio.open_signal_receiver(*_SIGNALS) as signals, screen:
        session.paint()
        async with trio.open_nursery() as nursery:
            for work in (session.read_on, session.age):
                nursery.start_soon(work)
            nursery.start_soon(session.obey, signals)
            if screen.keys is None:
                await trio.sleep_forever()
            else:
                await session.listen(screen.keys)
            nursery.cancel_scope.cancel()
