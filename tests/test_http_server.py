"""Peers that do not finish their request, or are too many, keep no scrape out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

from rmqcli.http_server import Listener


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def page(_environ: Any, start: Any) -> list[bytes]:
    start("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@contextmanager
def listening(clock: Clock, most: int) -> Iterator[Listener]:
    server = Listener(("127.0.0.1", 0), most=most, now=clock)
    server.set_app(page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def half_request(server: Listener) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.server_port))
    sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")
    sock.settimeout(10)
    return sock


def scrape(server: Listener) -> bytes:
    with urlopen(f"http://127.0.0.1:{server.server_port}/metrics", timeout=10) as answer:
        found: bytes = answer.read()
        return found


def test_half_requests_make_room() -> None:
    with listening(Clock(), most=4) as server:
        halves = [half_request(server) for _ in range(20)]
        assert scrape(server) == b"ok"
        assert all(half.recv(1) == b"" for half in halves[:16])
        assert len(server._open) <= 4
        for half in halves:
            half.close()


def test_a_request_has_a_time_to_arrive() -> None:
    clock = Clock()
    with listening(clock, most=4) as server, half_request(server) as half:
        assert scrape(server) == b"ok"
        half.sendall(b"A: b\r\n")  # a peer that goes on slowly gains no time
        clock.now = 11.0
        assert half.recv(1) == b""
        assert scrape(server) == b"ok"
