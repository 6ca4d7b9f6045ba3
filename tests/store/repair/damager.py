"""Random damages of every kind of file of a store, and a note of what they did to the commit log."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from rmqcli.codec.message import MessageExt

_PAGE = 4096
_DERIVED = ("consumequeue", "index", "batchconsumequeue")
_FLIPPED = 1 << 16
_UNCHECKED = ("timerlog", "timerwheel", "compaction")

Damaged = list[tuple[int, int]]
"""Damaged bytes [begin, end) of the commit log."""


class Damager:
    """Damages a copy of a store; `logged` are the commit-log offsets that are no longer as they were."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root = root
        self._chance = chance
        self._file_size = max(path.stat().st_size for path in self._files("commitlog"))
        self._bases = {path: int(path.name) for path in self._files("commitlog")}
        self.logged: Damaged = []
        self.done: list[str] = []

    def touches(self, message: MessageExt) -> bool:
        begin, end = message.commit_log_offset, message.commit_log_offset + message.store_size
        return any(first < end and begin < last for first, last in self.logged)

    def damage(self, kinds: Sequence[Kind]) -> None:
        kind = self._chance.choice(kinds)
        self.done.append(kind.__name__)
        kind(self)

    def _files(self, *folders: str) -> list[Path]:
        return [path for name in folders for path in sorted((self._root / name).rglob("*")) if path.is_file()]

    def _log_file(self) -> tuple[Path, int] | None:
        files = [path for path in self._files("commitlog") if path.stat().st_size]
        path = self._chance.choice(files) if len(files) > 1 else None
        return None if path is None else (path, self._bases[path])

    def _write(self, begin: int, piece: bytes, path: Path, base: int) -> None:
        with path.open("r+b") as file:
            file.seek(begin)
            before = file.read(len(piece))
            file.seek(begin)
            file.write(piece[: len(before)])
        if piece[: len(before)] != before:
            self.logged.append((base + begin, base + begin + len(before)))

    def flip_log(self) -> None:
        if found := self._log_file():
            path, base = found
            begin = self._chance.randrange(path.stat().st_size)
            with path.open("rb") as file:
                file.seek(begin)
                (byte,) = file.read(1)
            self._write(begin, bytes([byte ^ 1 << self._chance.randrange(8)]), path, base)

    def overwrite_log(self) -> None:
        if found := self._log_file():
            path, base = found
            begin, size = self._chance.randrange(path.stat().st_size), int(2 ** self._chance.uniform(0, 15))
            data = path.read_bytes()
            elsewhere = data[self._chance.randrange(len(data)) :][:size]
            piece = self._chance.choice((self._chance.randbytes(size), b"\xff" * size, elsewhere))
            self._write(begin, piece, path, base)

    def zero_pages_of_log(self) -> None:
        if found := self._log_file():
            path, base = found
            page = self._chance.randrange(path.stat().st_size // _PAGE + 1)
            self._write(page * _PAGE, bytes(_PAGE * self._chance.randint(1, 8)), path, base)

    def truncate_log(self) -> None:
        if found := self._log_file():
            path, base = found
            size = self._chance.randrange(path.stat().st_size)
            with path.open("r+b") as file:
                file.truncate(size)
            self.logged.append((base + size, base + self._file_size))

    def delete_log(self) -> None:
        if self._chance.random() < 0.3 and (found := self._log_file()):
            path, base = found
            path.unlink()
            self.logged.append((base, base + self._file_size))

    def _swap(self, files: list[Path]) -> tuple[Path, Path] | None:
        if len(files) < 2:
            return None
        one, other = self._chance.sample(files, 2)
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
        return one, other

    def swap_logs(self) -> None:
        """Costs nothing: the records state where they belong."""
        if swapped := self._swap(self._files("commitlog")):
            one, other = swapped
            self._bases[one], self._bases[other] = self._bases[other], self._bases[one]

    def swap_derived(self) -> None:
        self._swap(self._files(self._chance.choice(_DERIVED)))

    def _derived(self) -> Path | None:
        files = self._files(*_DERIVED)
        return self._chance.choice(files) if files else None

    def _change(self, path: Path | None, begin: int, piece: bytes) -> None:
        if path:
            with path.open("r+b") as file:
                file.seek(begin)
                file.write(piece[: max(path.stat().st_size - begin, 0)])

    def _flip(self, path: Path | None) -> None:
        """Flips a bit of a byte that is not zero, if there is one."""
        data = path.read_bytes() if path else b""
        if data:
            at = self._chance.choice([n for n, byte in enumerate(data[:_FLIPPED]) if byte] or [0])
            self._change(path, at, bytes([data[at] ^ 1 << self._chance.randrange(8)]))

    def flip_derived(self) -> None:
        self._flip(self._derived())

    def overwrite_derived(self) -> None:
        if path := self._derived():
            begin, size = (
                self._chance.randrange(path.stat().st_size + 1),
                int(2 ** self._chance.uniform(0, 12)),
            )
            self._change(path, begin, self._chance.choice((self._chance.randbytes(size), bytes(size))))

    def zero_pages_of_derived(self) -> None:
        if path := self._derived():
            page = self._chance.randrange(path.stat().st_size // _PAGE + 1)
            self._change(path, page * _PAGE, bytes(_PAGE))

    def delete_derived(self) -> None:
        if self._chance.random() < 0.1:
            shutil.rmtree(self._root / self._chance.choice(_DERIVED), ignore_errors=True)
        elif path := self._derived():
            path.unlink()

    def truncate_derived(self) -> None:
        if path := self._derived():
            with path.open("r+b") as file:
                file.truncate(self._chance.randrange(path.stat().st_size + 1))

    def _table(self) -> Path | None:
        files = self._files("config")
        return self._chance.choice(files) if files else None

    def damage_table(self) -> None:
        self._flip(self._table())

    def truncate_table(self) -> None:
        if path := self._table():
            os.truncate(path, self._chance.randrange(path.stat().st_size + 1))

    def delete_table(self) -> None:
        if path := self._table():
            path.unlink()

    def swap_tables(self) -> None:
        self._swap(self._files("config"))

    def damage_checkpoint(self) -> None:
        path = self._root / "checkpoint"
        if path.exists():
            self._chance.choice((self._flip, Path.unlink, self._cut, _empty))(path)

    def _cut(self, path: Path) -> None:
        os.truncate(path, self._chance.randrange(path.stat().st_size + 1))

    def damage_unchecked(self) -> None:
        files = [
            path for name in _UNCHECKED for path in (self._root / name, *self._files(name)) if path.is_file()
        ]
        if files:
            self._chance.choice((self._flip, self._cut))(self._chance.choice(files))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


Kind = Callable[[Damager], None]
DERIVED: tuple[Kind, ...] = (
    Damager.swap_derived,
    Damager.flip_derived,
    Damager.overwrite_derived,
    Damager.zero_pages_of_derived,
    Damager.delete_derived,
    Damager.truncate_derived,
    Damager.damage_checkpoint,
)
ALL: tuple[Kind, ...] = (
    *DERIVED,
    Damager.flip_log,
    Damager.overwrite_log,
    Damager.zero_pages_of_log,
    Damager.truncate_log,
    Damager.delete_log,
    Damager.swap_logs,
    Damager.damage_table,
    Damager.truncate_table,
    Damager.delete_table,
    Damager.swap_tables,
    Damager.damage_unchecked,
)
