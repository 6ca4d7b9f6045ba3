"""The gRPC front: what a call costs the broker, beside remoting and beside a bare server, and hostile clients."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import grpc_load
from benchmarks.broker import Address, address_of, cpu_of_one, pull_frame
from benchmarks.grpc_attacks import ATTACKS
from benchmarks.harness import ROOT, Measured, cluster, cpu_seconds, have_memory, median_of, process
from benchmarks.load import Rate, drive, first_reply, seconds_of_all, send_frames
from benchmarks.machines import place_client_and
from benchmarks.neighbours import under
from rmqcli.codec.codes import LanguageCode, RequestCode, SerializeType
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.pop import PopMessageRequestHeader
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame, encode_frame
from tests.foreign.install import CLIENTS, GRPC_PYTHON, install_grpc

GRPC = ("--grpc", "0")
ROUNDS = 5
OFFICIAL_SENDS, OFFICIAL_RECEIVES = 2000, 1000
POPS = 1024
IN_FLIGHT = {1: "4", 16: "", 64: ""}
"""Targets of the CPU of a call by that of a request of remoting, by calls in flight."""


def grpc() -> Iterator[Measured]:
    """Measure sends by gRPC against those by remoting, the official client against a bare server, and remoting
    beside a front that nobody uses."""
    have_memory()
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store", *GRPC) as up:
        yield from _sends(address_of(up["broker"]), address_of(up["grpc"]), up["pid"])
    yield from _official()
    yield from _idle()


def _sends(remoting: Address, grpc: Address, pid: int) -> Iterator[Measured]:
    """Measure what a send costs the broker, in alternating rounds."""
    frames = send_frames("Bench")
    assert decode_frame(first_reply(remoting, frames[0])).code == 0
    for in_flight, target in IN_FLIGHT.items():
        calls = _cpu(pid, partial(_drive, grpc, in_flight))
        least = cpu_of_one(remoting, frames, in_flight, pid)
        name = f"send 1 KB by gRPC, {in_flight} in flight, CPU"
        yield Measured(name, calls, "µs", calls / least, "remoting", target)


def _drive(grpc: Address, in_flight: int) -> Rate:
    return grpc_load.drive(grpc, grpc_load.sends("Bench"), in_flight, 1.0)


def _cpu(pid: int, run: Callable[[], Rate]) -> float:
    """Microseconds of CPU that the broker takes for one call."""

    def measure() -> float:
        started, used = time.perf_counter(), cpu_seconds(pid)
        rate = run().per_second
        return (cpu_seconds(pid) - used) / (rate * (time.perf_counter() - started)) * 1e6

    return median_of(measure, ROUNDS)


def _official() -> Iterator[Measured]:
    """Measure the official client for Python, in alternating rounds."""
    install_grpc()
    with (
        tempfile.TemporaryDirectory() as folder,
        process(sys.executable, "-m", "benchmarks.bare_grpc") as bare,
        cluster(Path(folder) / "store", *GRPC) as up,
    ):
        assert bare.stdout is not None
        ends = {"ours": up["grpc"], "bare": f"127.0.0.1:{bare.stdout.readline().strip()}"}
        for verb, count in (("timed", OFFICIAL_SENDS), ("drained", OFFICIAL_RECEIVES)):
            rates: dict[str, list[float]] = {name: [] for name in ends}
            for _ in range(ROUNDS):
                for name, end in ends.items():
                    rates[name].append(count / _seconds(verb, end, count))
            ours, most = (statistics.median(found) for found in rates.values())
            what = "sends 1 KB" if verb == "timed" else "receives and acknowledges 1 KB"
            yield Measured(
                f"the official client {what}", ours, "msg/s", ours / most, "bare h2 on trio", "0.6"
            )


def _seconds(verb: str, end: str, count: int) -> float:
    command = [str(GRPC_PYTHON), str(CLIENTS / "grpc_python.py"), verb, end, "Bench", "G", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return next(float(json.loads(line)["seconds"]) for line in done.stdout.splitlines() if "seconds" in line)


def _idle() -> Iterator[Measured]:
    """Measure remoting with and without a front that nobody uses."""
    frames = send_frames("Bench")
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder) / "without") as without,
        cluster(Path(folder) / "with", *GRPC) as beside,
    ):
        ends = [address_of(up["broker"]) for up in (without, beside)]
        for in_flight in (64, 1):
            rounds = [[drive(end, frames, in_flight, 1.0).per_second for end in ends] for _ in range(ROUNDS)]
            usual, found = (statistics.median(rates) for rates in zip(*rounds, strict=True))
            name = f"send 1 KB by remoting beside an idle front, {in_flight} in flight"
            yield Measured(name, found, "msg/s", found / usual, "without a front", "1")


def pops() -> Iterator[Measured]:
    """Measure the CPU of pops of 32 messages against that of pulls of the same."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        address, pid = address_of(up["broker"]), up["pid"]
        sends = send_frames("Bench", body=b"x" * 100) * (POPS * 32 // 64)
        seconds_of_all(address, sends, 64)
        places = [(n % 4, n // 4 * 32) for n in range(POPS)]
        pulls = [pull_frame(*place, SerializeType.JSON) for place in places]

        def cost(frames: list[bytes]) -> float:
            used = cpu_seconds(pid)
            seconds_of_all(address, frames, 4)
            return (cpu_seconds(pid) - used) / len(frames) * 1e6

        rounds = [
            (cost(pulls), cost([_pop(queue_id, f"G{number}") for queue_id, _ in places]))
            for number in range(ROUNDS)
        ]
        assert decode_frame(first_reply(address, _pop(0, "G0"))).code != 0, "all are in flight"
        pull, pop = (statistics.median(costs) for costs in zip(*rounds, strict=True))
        yield Measured("pull of 32, CPU", pull, "µs")
        yield Measured("pop of 32, CPU", pop, "µs", pull / pop, "pulls", "0.5")


def _pop(queue_id: int, group: str) -> bytes:
    header = PopMessageRequestHeader(
        consumer_group=group,
        topic="Bench",
        queue_id=queue_id,
        max_msg_nums=32,
        invisible_time=600_000,
        poll_time=0,
        born_time=int(time.time() * 1000),
        init_mode=0,
        exp_type="TAG",
        exp="*",
    )
    command = RemotingCommand(RequestCode.POP_MESSAGE, to_ext(header), opaque=1, language=LanguageCode.JAVA)
    return encode_frame(command)


def hostile() -> Iterator[Measured]:
    """Measure a gRPC client under attacks on the front, and the memory that is kept."""
    have_memory()
    for name in ATTACKS:
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store", *GRPC) as up:
            place_client_and(up["pid"])
            address = address_of(up["grpc"])
            yield from under(name, address, up["pid"], "benchmarks.grpc_attacks", grpc_load.round_trips)
