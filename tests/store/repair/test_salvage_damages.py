"""Salvage after random damages of every kind of file: every record of the log that is whole is kept, and the new
store is sound.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from codec.message import MessageExt
from codec.store.record import decode_record
from rmqcli.store import CommitLogFiles
from rmqcli.store.repair.salvage import salvage
from rmqcli.store.verify.store import verify_store
from tests.support import COMMIT_LOG_FILE_SIZE, JavaStore

SEEDS = 40
_BLOCK = 10
_MOST = 6
_PAGE = 4096

Damaged = list[tuple[int, int]]
"""Damaged bytes [begin, end) of the commit log."""


class Damager:
    """Damages a copy of a store; `logged` are the commit-log offsets that are no longer as they were."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root = root
        self._chance = chance
        self.logged: Damaged = []

    def damage(self) -> None:
        self._chance.choice(
            (
                self.flip_log,
                self.overwrite_log,
                self.zero_pages_of_log,
                self.truncate_log,
                self.delete_log,
                self.swap_queues,
                self.overwrite_derived,
                self.delete_derived,
                self.truncate_derived,
                self.damage_table,
                self.delete_table,
                self.flip_checkpoint,
            )
        )()

    def _files(self, *folders: str) -> list[Path]:
        return [path for name in folders for path in sorted((self._root / name).rglob("*")) if path.is_file()]

    def _log_file(self) -> tuple[Path, int] | None:
        files = [path for path in self._files("commitlog") if path.stat().st_size]
        path = self._chance.choice(files) if len(files) > 1 else None
        return None if path is None else (path, int(path.name))

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
            self.logged.append((base + size, base + COMMIT_LOG_FILE_SIZE))

    def delete_log(self) -> None:
        if self._chance.random() < 0.3 and (found := self._log_file()):
            path, base = found
            path.unlink()
            self.logged.append((base, base + COMMIT_LOG_FILE_SIZE))

    def swap_queues(self) -> None:
        files = self._files("consumequeue")
        if len(files) > 1:
            one, other = self._chance.sample(files, 2)
            first, second = one.read_bytes(), other.read_bytes()
            one.write_bytes(second)
            other.write_bytes(first)

    def _derived(self) -> Path | None:
        files = self._files("consumequeue", "index")
        return self._chance.choice(files) if files else None

    def overwrite_derived(self) -> None:
        if path := self._derived():
            data = bytearray(path.read_bytes())
            begin = self._chance.randrange(len(data) + 1)
            size = min(int(2 ** self._chance.uniform(0, 12)), len(data) - begin)
            data[begin : begin + size] = self._chance.choice((self._chance.randbytes(size), bytes(size)))
            path.write_bytes(data)

    def delete_derived(self) -> None:
        if self._chance.random() < 0.1:
            shutil.rmtree(self._root / self._chance.choice(("consumequeue", "index")), ignore_errors=True)
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
        if path := self._table():
            data = bytearray(path.read_bytes())
            if self._chance.random() < 0.5:
                del data[self._chance.randrange(len(data) + 1) :]
            elif data:
                data[self._chance.randrange(len(data))] ^= 1 << self._chance.randrange(8)
            path.write_bytes(data)

    def delete_table(self) -> None:
        if path := self._table():
            path.unlink()

    def flip_checkpoint(self) -> None:
        path = self._root / "checkpoint"
        if path.exists():
            data = bytearray(path.read_bytes())
            data[self._chance.randrange(40)] ^= 1 << self._chance.randrange(8)
            path.write_bytes(data)


def messages_of(store: Path) -> Iterator[MessageExt]:
    for place, data in CommitLogFiles(store).records():
        yield decode_record(data, place.position)


def salvage_damaged(java: JavaStore, folder: Path, seed: int, before: dict[int, MessageExt]) -> Counter[str]:
    """Damages a copy as a seed says, and salvages it; returns what the result lacks."""
    source, out = folder / "damaged", folder / "salvaged"
    shutil.copytree(java.root, source)
    chance = random.Random(seed)
    damager = Damager(source, chance)
    for _ in range(chance.randint(1, _MOST)):
        damager.damage()
    salvage(source, out)
    report = verify_store(out)
    after = {message.commit_log_offset: message for message in messages_of(out)}
    whole = [
        message
        for offset, message in before.items()
        if not any(begin < offset + message.store_size and offset < end for begin, end in damager.logged)
    ]
    lost = [message for message in whole if after.get(message.commit_log_offset) != message]
    for path in (source, out):
        shutil.rmtree(path)
    return Counter(lost=len(lost), findings=report.damaged, whole=len(whole))


@pytest.mark.parametrize("block", range(SEEDS // _BLOCK))
def test_no_whole_record_is_lost_and_the_new_store_is_sound(
    request: pytest.FixtureRequest, tmp_path: Path, block: int
) -> None:
    java: JavaStore = request.getfixturevalue("store_killed" if block % 2 else "store_clean")
    before = {message.commit_log_offset: message for message in messages_of(java.root)}
    for seed in range(block * _BLOCK, (block + 1) * _BLOCK):
        found = salvage_damaged(java, tmp_path, seed, before)
        assert (found["lost"], found["findings"]) == (0, 0), seed
