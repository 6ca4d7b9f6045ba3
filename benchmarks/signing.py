"""Sends with and without signatures, in alternating rounds against one broker. Bodies of 1 KB."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clients import BODY_BYTES, create
from benchmarks.harness import Measured, cluster, cpu_seconds, process

SENDS = {1: 3_000, 64: 15_000}
ROUNDS = 5
MODES = ("plain", "signed")


class Took(NamedTuple):
    """Messages a second, and microseconds of CPU for one, of client and broker together."""

    rate: float
    cpu: float


def signing() -> Iterator[Measured]:
    """Messages a second and CPU with 1 and 64 in flight: the ratio of signed to plain."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        for in_flight, count in SENDS.items():
            create(up["namesrv"], f"Send{in_flight}")
            took: dict[str, list[Took]] = {mode: [] for mode in MODES}
            for _ in range(ROUNDS):
                for mode in MODES:
                    took[mode].append(_sends(up, mode, in_flight, count))
            plain, signed = (
                Took(*(statistics.median(column) for column in zip(*took[mode], strict=True)))
                for mode in MODES
            )
            name, target = f"signed sends, {in_flight} in flight", "at least 0.8"
            yield Measured(name, signed.rate, "msg/s", signed.rate / plain.rate, "plain", target)
            yield Measured(f"{name}, CPU", signed.cpu, "µs", signed.cpu / plain.cpu, "plain", "at most 1.25")


def _sends(up: dict[str, Any], mode: str, in_flight: int, count: int) -> Took:
    driver = (sys.executable, "-m", "benchmarks.our_client")
    words = ("send", up["namesrv"], f"Send{in_flight}", "G", str(count), "p", mode, str(in_flight))
    used = cpu_seconds(up["pid"])
    with process(*driver, *words, str(BODY_BYTES)) as child:
        said = json.loads(child.communicate(timeout=300)[0].splitlines()[-1])
    cpu = said["cpu"] + cpu_seconds(up["pid"]) - used
    return Took(count / said["seconds"], cpu / count * 1e6)
