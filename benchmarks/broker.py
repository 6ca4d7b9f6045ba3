"""The broker over loopback: sends, pulls, memory, start."""

from __future__ import annotations

import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from benchmarks.attacks import topic_frame
from benchmarks.harness import Measured, cluster, cpu_seconds, have_memory, median_of, process, resident_mib
from benchmarks.load import Rate, drive, first_reply, seconds_of_all, send_frames
from rmqcli.codec.codes import LanguageCode, PullSysFlag, RequestCode, SerializeType
from rmqcli.codec.headers.base import to_ext
from rmqcli.codec.headers.pull import PullMessageRequestHeader
from rmqcli.codec.remoting.command import RemotingCommand
from rmqcli.codec.remoting.frame import decode_frame, encode_frame

SECONDS = 3.0
COLD_QUEUES = 1024
ROUNDS = 7
"""An odd number of rounds, one second each."""

TARGETS = {64: "0.15", 1: "0.7"}
"""Ratios to the bare loop, by requests in flight."""
HEADERS = {SerializeType.JSON: "JSON header", SerializeType.ROCKETMQ: "binary header"}

Address = tuple[str, int]


def address_of(text: str) -> Address:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def sends() -> Iterator[Measured]:
    """Pipelined sends, and one message at a time, with headers of both kinds, against servers that reply with
    fixed bytes."""
    have_memory()
    with (
        tempfile.TemporaryDirectory() as folder,
        process(sys.executable, "-m", "benchmarks.bare_loop", "count") as counting,
        process(sys.executable, "-m", "benchmarks.bare_loop", "take") as taking,
        cluster(Path(folder) / "store") as up,
    ):
        address = address_of(up["broker"])
        addresses = [*map(_port_of, (counting, taking)), address]
        for kind, in_flight in product(SerializeType, TARGETS):
            frames = send_frames("Bench", kind=kind)
            reply = decode_frame(first_reply(address, frames[0]))
            assert reply.code == 0, reply
            count, take, ours = _in_turns(addresses, frames, in_flight)
            name, rate = f"send 1 KB, {HEADERS[kind]}, {in_flight} in flight", ours.per_second
            yield Measured(name, rate, "msg/s", rate / count.per_second, "bare trio loop", TARGETS[in_flight])
            yield Measured(name, rate, "msg/s", rate / take.per_second, "one that takes the frames apart")
            if in_flight == 1:
                p50, least = ours.median_seconds * 1e6, count.median_seconds * 1e6
                yield Measured(f"{name}, p50", p50, "µs", p50 / least, "bare trio loop")
            yield Measured(f"{name}, CPU", cpu_of_one(address, frames, in_flight, up["pid"]), "µs")


def cpu_of_one(
    address: Address, frames: list[bytes], in_flight: int, pid: int, tls: ssl.SSLContext | None = None
) -> float:
    """Microseconds of CPU that the broker takes for one request."""

    def measure() -> float:
        started, used = time.perf_counter(), cpu_seconds(pid)
        rate = drive(address, frames, in_flight, 1.0, tls).per_second
        return (cpu_seconds(pid) - used) / (rate * (time.perf_counter() - started)) * 1e6

    return median_of(measure, 5)


def _port_of(bare: subprocess.Popen[str]) -> Address:
    assert bare.stdout is not None
    return "127.0.0.1", int(bare.stdout.readline())


def _in_turns(addresses: list[Address], frames: list[bytes], in_flight: int) -> list[Rate]:
    """Medians of alternating rounds, so that a slow second affects one round of both sides."""
    rounds = [[drive(address, frames, in_flight, 1.0) for address in addresses] for _ in range(ROUNDS)]
    return [_median(list(rates)) for rates in zip(*rounds, strict=True)]


def _median(rates: list[Rate]) -> Rate:
    return Rate(*(statistics.median(column) for column in zip(*rates, strict=True)))


def pulls() -> Iterator[Measured]:
    """Measure pulls of 1 KB messages, 32 a reply, as Java's pull consumers send them, against the sends that
    produced the messages."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        address = address_of(up["broker"])
        sent = drive(address, send_frames("Bench"), 64, SECONDS)
        per_queue = int(sent.per_second * SECONDS / 4) - 100
        for kind, in_flight in product(SerializeType, (1, 4)):
            frames = [pull_frame(n % 4, n // 4 * 32, kind) for n in range(per_queue // 32 * 4)]
            assert decode_frame(first_reply(address, frames[0])).code == 0
            rate = drive(address, frames, in_flight, SECONDS).per_second * 32
            name = f"pull 1 KB, 32 a reply, {HEADERS[kind]}, {in_flight} in flight"
            yield Measured(name, rate, "msg/s", rate / sent.per_second, "sends")
            yield Measured(f"{name}, CPU", cpu_of_one(address, frames, in_flight, up["pid"]), "µs")


def cold() -> Iterator[Measured]:
    """Measure the first message in each of 1,024 queues of a topic, which creates their files, against the second."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        address = address_of(up["broker"])
        assert decode_frame(first_reply(address, topic_frame("Cold", COLD_QUEUES))).code == 0
        frames = send_frames("Cold", COLD_QUEUES, queues=COLD_QUEUES)
        used = cpu_seconds(up["pid"])
        first = seconds_of_all(address, frames, 64)
        used = cpu_seconds(up["pid"]) - used
        second = seconds_of_all(address, frames, 64)
        name = f"first message in each of {COLD_QUEUES:,} queues"
        yield Measured(name, COLD_QUEUES / first, "msg/s", second / first, "the second in each")
        yield Measured(f"{name}, CPU", used / COLD_QUEUES * 1e6, "µs")


def syncs() -> Iterator[Measured]:
    """Measure sends with SYNC_FLUSH, where each waits for the disk, against as many fdatasync of one thread."""
    frames = send_frames("Bench")
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster(Path(folder) / "store", flushDiskType="SYNC_FLUSH") as up,
    ):
        address = address_of(up["broker"])
        assert decode_frame(first_reply(address, frames[0])).code == 0
        rounds = [
            (drive(address, frames, 64, 1.0), drive(address, frames, 1, 1.0), _raw_syncs(Path(folder), 1.0))
            for _ in range(ROUNDS)
        ]
    many, one, raw = zip(*rounds, strict=True)
    for in_flight, rates in ((64, many), (1, one)):
        rate = _median(list(rates)).per_second
        name = f"send 1 KB, SYNC_FLUSH, {in_flight} in flight"
        yield Measured(name, rate, "msg/s", rate / statistics.median(raw), "raw fdatasync")


def _raw_syncs(folder: Path, seconds: float) -> float:
    """Overwrite a page of a file that has its blocks and call fdatasync, per second."""
    descriptor = os.open(folder / "raw", os.O_RDWR | os.O_CREAT)
    try:
        os.pwrite(descriptor, bytes(1 << 20), 0)
        os.fsync(descriptor)
        count, started = 0, time.perf_counter()
        while time.perf_counter() - started < seconds:
            os.pwrite(descriptor, b"x" * 1024, count % 256 * 4096)
            os.fdatasync(descriptor)
            count += 1
        return count / (time.perf_counter() - started)
    finally:
        os.close(descriptor)


def pull_frame(queue_id: int, offset: int, kind: SerializeType) -> bytes:
    header = PullMessageRequestHeader(
        consumer_group="TOOLS_CONSUMER",
        topic="Bench",
        queue_id=queue_id,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=int(PullSysFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
        bname="broker-a",
        request_type="0",
    )
    command = RemotingCommand(
        RequestCode.PULL_MESSAGE, to_ext(header), opaque=1, language=LanguageCode.JAVA, serialize_type=kind
    )
    return encode_frame(command)


def memory() -> Iterator[Measured]:
    """Measure the broker's own memory, idle and after a million messages."""
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
        idle = resident_mib(up["pid"])
        yield Measured("memory, idle", idle, "MiB", target="80 MiB")
        frames = send_frames("Bench", body=b"x" * 100)
        sent = 0.0
        while sent < 1_000_000:
            sent += drive(address_of(up["broker"]), frames, 64, 2.0).per_second * 2
        after = resident_mib(up["pid"])
        yield Measured(
            f"memory, after {sent / 1e6:.1f} million messages", after, "MiB", after / idle, "idle", "flat"
        )


def start() -> Iterator[Measured]:
    """Time from process start to the first accepted message, against a bare Python that imports trio."""
    frame = send_frames("Bench", 1)[0]

    def to_first_message() -> float:
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder) / "store") as up:
            assert decode_frame(first_reply(address_of(up["broker"]), frame)).code == 0
            return time.perf_counter() - started

    def python() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import trio, msgspec, construct"], check=True)
        return time.perf_counter() - started

    ours, bare = min(to_first_message() for _ in range(3)), min(python() for _ in range(3))
    yield Measured(
        "start to first accepted message",
        ours,
        "s",
        ours / bare,
        "python importing trio, msgspec, construct",
        "1 s",
    )


if __name__ == "__main__":
    for benchmark in (sends, pulls, memory, start):
        for measured in benchmark():
            print(json.dumps(measured.__dict__))
