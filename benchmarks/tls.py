"""TLS against plain connections of one broker, which accepts both: sends, handshakes, and what handshakes that
stop half-way cost the others.

The certificate has an RSA key of 2,048 bits, the most costly of the usual ones for a server.
"""

from __future__ import annotations

import multiprocessing
import signal
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import trustme

from benchmarks.broker import cpu_of_one
from benchmarks.harness import Measured, cluster, cpu_seconds, have_memory, median_of, resident_mib
from benchmarks.load import connect, drive, send_frames
from benchmarks.machines import place_attacker, place_client_and
from benchmarks.neighbours import BESIDE, computing, percentile, remoting_round_trips

ROUNDS = 5
HANDSHAKE_SECONDS = 3.0
HALF_OPEN = 2000
QUIET_SECONDS = 3.0
TARGET = "2 × quiet"

Address = tuple[str, int]


def tls() -> Iterator[Measured]:
    """Handshakes and sends a second, CPU of the broker, p99 of others beside half-open handshakes."""
    have_memory()
    with tempfile.TemporaryDirectory() as folder:
        settings, context = _certificate(Path(folder))
        with cluster(Path(folder) / "store", **settings) as up:
            host, _, port = up["broker"].rpartition(":")
            address, pid = (host, int(port)), up["pid"]
            yield from _sends(address, context, pid)
            yield from _handshakes(address, context, pid)
            yield from _half_open(address, context, pid)


def _certificate(folder: Path) -> tuple[dict[str, object], ssl.SSLContext]:
    """Return the properties of a server, and the context of a client that trusts it."""
    authority = trustme.CA(key_type=trustme.KeyType.RSA)
    issued = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)
    issued.private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    names = ("tls.server.certPath", "tls.server.keyPath")
    return dict.fromkeys(names, folder / "server.pem"), context


def _sends(address: Address, context: ssl.SSLContext, pid: int) -> Iterator[Measured]:
    frames = send_frames("Bench")
    for in_flight in (64, 1):
        name = f"send 1 KB, {in_flight} in flight"
        rates: dict[bool, list[float]] = {False: [], True: []}
        for _, secured in product(range(ROUNDS), rates):
            rates[secured].append(
                drive(address, frames, in_flight, 1.0, context if secured else None).per_second
            )
        plain, encrypted = (sorted(found)[ROUNDS // 2] for found in rates.values())
        yield Measured(f"plain, {name}", plain, "msg/s")
        yield Measured(f"TLS, {name}", encrypted, "msg/s", encrypted / plain, "plain")
        least = cpu_of_one(address, frames, in_flight, pid)
        most = cpu_of_one(address, frames, in_flight, pid, context)
        yield Measured(f"plain, {name}, CPU", least, "µs")
        yield Measured(f"TLS, {name}, CPU", most, "µs", most / least, "plain")


def _handshakes(address: Address, context: ssl.SSLContext, pid: int) -> Iterator[Measured]:
    """Measure connections a second of one client that resumes nothing, and what one costs the broker."""
    rates: dict[bool, float] = {}
    costs: dict[bool, float] = {}
    for secured in (False, True):
        used, started, count = cpu_seconds(pid), time.perf_counter(), 0
        while time.perf_counter() - started < HANDSHAKE_SECONDS:
            connect(address, context if secured else None).close()
            count += 1
        rates[secured] = count / (time.perf_counter() - started)
        costs[secured] = (cpu_seconds(pid) - used) / count * 1e6
    yield Measured("handshakes of one client", rates[True], "/s", rates[True] / rates[False], "plain")
    yield Measured("handshake, CPU", costs[True], "µs", costs[True] / costs[False], "plain connection")


def _half_open(address: Address, context: ssl.SSLContext, pid: int) -> Iterator[Measured]:
    """Round trips of a plain client while others begin handshakes and stop."""
    place_client_and(pid)
    before = resident_mib(pid)
    quiet = median_of(lambda: percentile(remoting_round_trips(address, QUIET_SECONDS), 99), 3)
    with computing():
        shared = percentile(remoting_round_trips(address, QUIET_SECONDS), 99)
    held = median_of(lambda: _beside_half_open(address, context), 3)
    name = f"p99 beside {HALF_OPEN:,} half-open handshakes"
    yield Measured(name, held, "ms", held / quiet, "quiet", TARGET)
    yield Measured(name, held, "ms", held / shared, BESIDE)
    yield Measured(f"memory after {HALF_OPEN:,} half-open handshakes", resident_mib(pid) - before, "MiB")


def _beside_half_open(address: Address, context: ssl.SSLContext) -> float:
    """Return the p99 while they are opened, in ms."""
    with stopped_handshakes(address, context):
        return percentile(remoting_round_trips(address, QUIET_SECONDS), 99)


@contextmanager
def stopped_handshakes(address: Address, context: ssl.SSLContext) -> Iterator[None]:
    """Has a process of low priority, as if on another machine, open connections and send the first message of a
    handshake on each, spread over the block."""
    arguments = address, client_hello(context)
    attacker = multiprocessing.get_context("fork").Process(target=_open, args=arguments, daemon=True)
    attacker.start()
    try:
        yield
    finally:
        attacker.kill()
        attacker.join()


def _open(address: Address, hello: bytes) -> None:
    place_attacker()
    connections = []
    for _ in range(HALF_OPEN):
        connections.append(socket.create_connection(address))
        connections[-1].sendall(hello)
        time.sleep(QUIET_SECONDS / HALF_OPEN / 2)
    signal.pause()


def client_hello(context: ssl.SSLContext) -> bytes:
    """Return the first message of a client."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake has an answer")
