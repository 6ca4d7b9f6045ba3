"""The recorded frames of `tests/data/wire-*`, and small builders of raw frames."""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support import DATA

KINDS = ("json", "rocketmq")


@dataclass(frozen=True)
class Wire:
    """The frames of one run of the Java client and servers: `data` is all of them, `index` has an entry for
    each."""

    kind: str
    data: bytes
    index: list[dict[str, Any]]

    @property
    def frames(self) -> list[bytes]:
        """Every frame with its length field."""
        return [self.data[row["offset"] : row["offset"] + row["length"]] for row in self.index]

    def header_of(self, row: dict[str, Any]) -> bytes:
        start = row["offset"] + 8
        return self.data[start : start + row["headerLen"]]


@cache
def load_wire(kind: str) -> Wire:
    rows = lzma.decompress((DATA / f"wire-{kind}.index.jsonl.xz").read_bytes()).splitlines()
    data = lzma.decompress((DATA / f"wire-{kind}.frames.xz").read_bytes())
    return Wire(kind, data, [json.loads(row) for row in rows])


def raw_frame(header: bytes, body: bytes = b"", *, kind: int = 0) -> bytes:
    """A frame without its length field, whatever the header is."""
    return bytes([kind]) + len(header).to_bytes(3, "big") + header + body


def with_length(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame
