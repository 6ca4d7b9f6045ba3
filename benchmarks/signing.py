"""Sends with and without signatures, in alternating rounds against one broker. Bodies of 1 KB."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clients import BODY_BYTES, create
from benchmarks.harness import Measured, cluster, process

SENDS = {1: 3_000, 64: 15_000}
ROUNDS = 5
MODES = ("plain", "signed")


def signing() -> Iterator[Measured]:
    """Messages a second with 1 and 64 in flight: the ratio of signed to plain."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        for in_flight, count in SENDS.items():
            create(up["namesrv"], f"Send{in_flight}")
            rates: dict[str, list[float]] = {mode: [] for mode in MODES}
            for _ in range(ROUNDS):
                for mode in MODES:
                    rates[mode].append(_rate(up["namesrv"], mode, in_flight, count))
            plain, signed = (statistics.median(rates[mode]) for mode in MODES)
            name = f"signed sends, {in_flight} in flight"
            yield Measured(name, signed, "msg/s", signed / plain, "plain", "at least 0.8")


def _rate(namesrv: str, mode: str, in_flight: int, count: int) -> float:
    driver = (sys.executable, "-m", "benchmarks.our_client")
    words = ("send", namesrv, f"Send{in_flight}", "G", str(count), "p", mode, str(in_flight), str(BODY_BYTES))
    with process(*driver, *words) as child:
        said = json.loads(child.communicate(timeout=300)[0].splitlines()[-1])
    return float(count / said["seconds"])
