"""The settings of the broker, its clock, and how a session goes and ends."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from rmqcli.broker.testing.in_memory import HOST
from rmqcli.broker.testing.power_cut import Journal
from tests.crash.image import Image

ROOT = Path("/store")
PORT = 10911
START_MS = 1_700_000_000_000
TOPICS = {"A": 2, "B": 1}
MOST_RETRIES = 2
"""The number of times that a consumer has a message delivered again before it is a dead letter."""
DELETED_TOPICS = ("C", "D")
GROUPS = ("G1", "G2")
PRODUCER_GROUP = "P"
HOUR_S, DAY_S = 3600, 86400
JUMPS_S = (HOUR_S, -HOUR_S, DAY_S, -DAY_S)
EXPIRY_S = 31 * DAY_S
"""After this time files of the log may be removed."""
PAUSES_S = (0.0, 0.0, 0.0, 0.01, 0.3, 1.0)
SAVE_S = 2.0
"""The interval at which committed offsets are saved; one save takes less than another `SAVE_S`."""
RESERVED_H = 30 * 24
"""Hours for which files of the log are kept."""
QUEUE_FILES = (400, 4100)
"""Sizes of queue files: 20 entries, so that they roll, or the smallest that a broker accepts."""
DELAYS = ("1s", "5s", "20s")
LEVELS = len(DELAYS)
SETTINGS: dict[str, Any] = {
    "broker_name": "broker-a",
    "bind_address": HOST,
    "broker_ip1": HOST,
    "listen_port": PORT,
    "store_path_root_dir": str(ROOT),
    "mapped_file_size_commit_log": 16 * 1024,
    "mapped_file_size_consume_queue": 4100,
    "max_hash_slot_num": 64,
    "max_index_num": 128,
    "message_delay_level": " ".join(DELAYS),
    "auto_create_topic_enable": False,
    "flush_consumer_offset_interval": int(SAVE_S * 1000),
    "flush_delay_offset_interval": 3000,
    "transaction_check_interval": 3000,
    "transaction_time_out": 1000,
    "transaction_check_max": 3,
    "file_reserved_time": RESERVED_H,
}


@dataclass(frozen=True)
class Plan:
    """How a session goes: broker starts in it, requests per client and start, and the disk call that ends it."""

    lives: int
    requests: int
    last_call: int
    journal: Journal | None
    """How the disk loses power; None: the process is killed, the disk lives."""
    sync: bool | None = None
    """SYNC_FLUSH or not; None draws for each start."""
    last_reply: int = 0
    """The number of the reply behind which it ends, before the next request; 0 for none."""

    @classmethod
    def draw(cls, rng: random.Random) -> Plan:
        lives = rng.choice((1, 1, 2, 3))
        last_call = int(rng.choice((60, 300, 600)) * rng.random()) + 1
        last_reply = rng.randint(1, 100) if rng.random() < 0.4 else 0
        return cls(
            lives,
            rng.randint(5, 25),
            0 if last_reply else last_call,
            rng.choice((None, *Journal)),
            last_reply=last_reply,
        )


@dataclass(frozen=True)
class Fault:
    """The disk refuses one call, with this errno."""

    call: int
    errno: int


def hour_of(milliseconds: int) -> int:
    """The hour of day, 0 to 23, in the zone of the machine."""
    return time.localtime(milliseconds // 1000).tm_hour


class Clock:
    """Wall-clock time, ms: trio's, set wrong by `jump`."""

    def __init__(self) -> None:
        self._wrong_s = 0
        self._jumps: list[tuple[float, int]] = [(0.0, 0)]
        """When it was set, on trio's clock, and how far it was ahead then, s."""

    def jump(self, seconds: int) -> None:
        self._wrong_s += seconds
        self._jumps.append((trio.current_time(), self._wrong_s))

    def _shown(self, since: float) -> list[float]:
        """The first and last times that it has shown since one on trio's clock, between any two settings, s."""
        ends = [*(moment for moment, _ in self._jumps[1:]), trio.current_time()]
        return [
            moment + wrong
            for (begin, wrong), end in zip(self._jumps, ends, strict=True)
            if end >= since
            for moment in (max(begin, since), end)
        ]

    def span_ms(self, since: float) -> int:
        """The difference between any two times that it has shown since a time on trio's clock, at most."""
        shown = self._shown(since)
        return round((max(shown) - min(shown)) * 1000)

    def hours(self, since: float) -> set[int]:
        """The hours of day that it has shown since a time on trio's clock, no longer than an hour ago."""
        return {hour_of(START_MS + round(shown * 1000)) for shown in self._shown(since)}

    def __call__(self) -> int:
        return START_MS + round((trio.current_time() + self._wrong_s) * 1000)


def image_of(contents: Mapping[Path, bytes]) -> Image:
    return Image(
        {str(path.relative_to(ROOT)): data for path, data in contents.items() if ROOT in path.parents}
    )
