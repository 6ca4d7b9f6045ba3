"""The accounts of 4.9 in effect, which follow their files.

The files are read again every `WATCH_SECONDS` and compared by content. Each changed file is parsed in a
separate thread, so that a slow one does not delay the others. A change that cannot be used is logged, and the
accounts of that file stay as they were; a file that becomes empty, for example while an editor writes it,
keeps its accounts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from rmqcli.broker.auth.files import NOTHING, Loaded, loaded, read_by_others, read_files
from rmqcli.broker.disk import Disk
from rmqcli.broker.errors import ConfigError
from rmqcli.broker.store.readiness import InThread
from rmqcli.broker.system import NowMs
from rmqcli.codec.acl.account_file import AccountFile, parse_file
from rmqcli.codec.acl.errors import AclError

WATCH_SECONDS: Final = 0.4
TOGETHER_SECONDS: Final = 0.2
"""Time within which changed files take effect together, unless parsing one of them takes longer."""

_log = logging.getLogger("rmqcli.broker.auth")


class AccountFiles:
    """The files of accounts of one broker; `watch` is a service. `on_change` is called after each change."""

    def __init__(self, default: Path, disk: Disk, in_thread: InThread, now_ms: NowMs) -> None:
        self.default = default
        self.disk = disk
        self.in_thread = in_thread
        self.changing = trio.Lock()
        self.applying = trio.Lock()
        self._now_ms = now_ms
        self._loaded = NOTHING
        self._order: list[Path] = []
        self._reading: dict[Path, bytes] = {}
        self._ready: dict[Path, tuple[bytes, AccountFile]] = {}
        self._refused: dict[Path, bytes] = {}
        self.on_change: Callable[[], None] = _nothing

    @property
    def current(self) -> Loaded:
        return self._loaded

    async def load(self) -> None:
        """Read the files at startup. Raises ConfigError if one cannot be used."""
        try:
            contents = await self.in_thread(read_files, self.disk, self.default)
        except OSError as error:
            raise ConfigError(f"aclEnable=true: {error.filename}: {error.strerror}") from None
        if not any(content.strip() for content in contents.values()):
            _log.warning("%s is missing or empty: no account may use this broker", self.default)
        for path in await self.in_thread(read_by_others, self.disk, contents):
            _log.warning("others may read %s, which has secret keys: chmod 600", path)
        self.use(loaded(contents, self._now_ms()))

    def use(self, found: Loaded) -> None:
        """Make the accounts of files effective."""
        self._loaded = found
        self.on_change()

    async def watch(self) -> None:
        """Run the service that follows changes of the files. Raises OSError if they cannot be read."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(WATCH_SECONDS)
                await self._follow(nursery)

    async def _follow(self, nursery: trio.Nursery) -> None:
        """Read the files once; changed ones are parsed in the background. Raises OSError."""
        try:
            contents = await self.in_thread(read_files, self.disk, self.default)
        except ConfigError as error:
            _log.error("%s; the accounts stay as they were", error)
            return
        before = self._loaded.contents
        for path, content in contents.items():
            if not content.strip() and before.get(path):
                contents[path] = before[path]
        self._order = list(contents)
        for path in [path for path in self._reading if path not in contents]:
            del self._reading[path]
        found = False
        for path, content in contents.items():
            if content not in (before.get(path), self._refused.get(path), self._reading.get(path)):
                self._reading[path] = content
                nursery.start_soon(self._read, path, content, trio.current_time() + TOGETHER_SECONDS)
                found = True
        if found:
            await trio.sleep(TOGETHER_SECONDS)
        if self._ready or any(path not in contents for path in before):
            await self._apply()

    async def _read(self, path: Path, content: bytes, together_until: float) -> None:
        """Parse a changed file. A file that takes long becomes effective alone."""
        try:
            file = await self.in_thread(parse_file, str(path), content, self._now_ms())
        except AclError as error:
            if self._reading.get(path) is content:
                del self._reading[path]
                self._refused[path] = content
                _log.error("%s; its accounts stay as they were", error)
            return
        if self._reading.get(path) is not content:
            return  # changed again or removed in the meantime
        self._ready[path] = content, file
        if trio.current_time() >= together_until or len(self._ready) == len(self._reading):
            await self._apply()

    async def _apply(self) -> None:
        """Make the parsed files effective."""
        async with self.applying:
            ready, self._ready = self._ready, {}
            for path in ready:
                self._reading.pop(path, None)
                self._refused.pop(path, None)
            self.use(await self.in_thread(self._loaded.changed, self._order, ready))
        _log.info("%d accounts in %d files", len(self._loaded.rules.accounts), len(self._loaded.contents))

    async def put(self, path: Path, content: bytes, file: AccountFile) -> None:
        """Make one file effective, as changed by a request."""
        async with self.applying:
            self._reading.pop(path, None)
            self._ready.pop(path, None)
            self._refused.pop(path, None)
            order = sorted({*self._loaded.contents, path} - {self.default})
            order += [self.default] if self.default in self._loaded.contents or path == self.default else []
            self.use(await self.in_thread(self._loaded.changed, order, {path: (content, file)}))


def _nothing() -> None:
    """Do nothing: nobody needs to know about a change."""
