"""Sends with and without signatures, and signed ones to a broker that checks them, in alternating rounds.
Bodies of 1 KB."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.clients import BODY_BYTES
from benchmarks.harness import Measured, cluster, cpu_seconds, process
from benchmarks.our_client import ACCOUNT

SENDS = {1: 3_000, 64: 15_000}
ROUNDS = 5
ACCOUNTS = f"""\
accounts:
- accessKey: {ACCOUNT.access_key}
  secretKey: {ACCOUNT.secret_key}
  defaultTopicPerm: PUB
"""


class Took(NamedTuple):
    """Messages a second, and microseconds of CPU for one, of client and broker together."""

    rate: float
    cpu: float


def signing() -> Iterator[Measured]:
    """Messages a second and CPU with 1 and 64 in flight: the ratios of signed and of checked to plain."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "plain_acl.yml").write_text(ACCOUNTS)
        (home / "plain_acl.yml").chmod(0o600)
        guarded = {"aclEnable": "true", "plainAclFile": str(home / "plain_acl.yml")}
        with cluster(home / "open") as up, cluster(home / "guarded", **guarded) as checking:
            modes = {"plain": (up, "plain"), "signed": (up, "signed"), "checked": (checking, "signed")}
            for in_flight, count in SENDS.items():
                took = _in_turns(modes, in_flight, count)
                for mode in ("signed", "checked"):
                    yield from _compared(f"{mode} sends, {in_flight} in flight", took[mode], took["plain"])


def _in_turns(modes: dict[str, tuple[dict[str, Any], str]], in_flight: int, count: int) -> dict[str, Took]:
    took: dict[str, list[Took]] = {mode: [] for mode in modes}
    for up, mode in modes.values():
        _sends(up, mode, in_flight, in_flight)  # creates the topic
    for _ in range(ROUNDS):
        for name, (up, mode) in modes.items():
            took[name].append(_sends(up, mode, in_flight, count))
    return {
        mode: Took(*(statistics.median(column) for column in zip(*rounds, strict=True)))
        for mode, rounds in took.items()
    }


def _compared(name: str, took: Took, plain: Took) -> Iterator[Measured]:
    yield Measured(name, took.rate, "msg/s", took.rate / plain.rate, "plain", "at least 0.8")
    yield Measured(f"{name}, CPU", took.cpu, "µs", took.cpu / plain.cpu, "plain", "at most 1.25")


def _sends(up: dict[str, Any], mode: str, in_flight: int, count: int) -> Took:
    driver = (sys.executable, "-m", "benchmarks.our_client")
    words = ("send", up["namesrv"], f"Send{in_flight}", "G", str(count), "p", mode, str(in_flight))
    used = cpu_seconds(up["pid"])
    with process(*driver, *words, str(BODY_BYTES)) as child:
        said = json.loads(child.communicate(timeout=300)[0].splitlines()[-1])
    cpu = said["cpu"] + cpu_seconds(up["pid"]) - used
    return Took(count / said["seconds"], cpu / count * 1e6)
