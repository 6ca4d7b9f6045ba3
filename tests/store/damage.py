"""Random damage of store files, and what a check said about it."""

from __future__ import annotations

import random
from pathlib import Path

from rmqcli.store.verify.store import StoreReport


def said(report: StoreReport) -> dict[str, object]:
    parts = {name: (part.items, part.damaged, part.findings) for name, part in report.parts.items()}
    return parts | {"remarks": report.remarks}


def used_bytes(path: Path) -> int:
    """Returns the bytes up to the last that is not zero."""
    return max(len(path.read_bytes().rstrip(b"\0")), 1)


def damage(path: Path, chance: random.Random) -> None:
    """Flips a bit, or writes noise, zeros or other bytes of the file, somewhere in its used bytes."""
    data = bytearray(path.read_bytes())
    begin = chance.randrange(used_bytes(path))
    size = min(int(2 ** chance.uniform(0, 11)), len(data) - begin)
    elsewhere = chance.randrange(len(data) - size + 1)
    flipped = bytes([data[begin] ^ 1 << chance.randrange(8)])
    kinds = (flipped, chance.randbytes(size), bytes(size), bytes(data[elsewhere : elsewhere + size]))
    chosen = chance.choice(kinds)
    data[begin : begin + len(chosen)] = chosen
    path.write_bytes(data)
