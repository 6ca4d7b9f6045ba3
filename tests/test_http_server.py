"""Peers that do not finish their request, or are too many, keep no scrape out."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

import pytest

from rmqcli.http_server import Handler, Listener


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def page(_environ: Any, start: Any) -> list[bytes]:
    start("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@contextmanager
def listening(clock: Clock, most: int, app: Any = page) -> Iterator[Listener]:
    server = Listener(("127.0.0.1", 0), most=most, now=clock)
    server.set_app(app)
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


def test_a_port_is_free_again_at_once() -> None:
    with listening(Clock(), most=4) as server:
        port = server.server_port
        with half_request(server) as peer:
            peer.sendall(b"\r\n")
            assert peer.recv(1 << 16)
            while peer.recv(1 << 16):  # the server closes the connection first
                pass
    Listener(("127.0.0.1", port)).server_close()


def test_a_request_has_a_time_to_arrive() -> None:
    clock = Clock()
    with listening(clock, most=4) as server, half_request(server) as half:
        assert scrape(server) == b"ok"
        half.sendall(b"A: b\r\n")  # a peer that goes on slowly gains no time
        clock.now = 11.0
        assert half.recv(1) == b""
        assert scrape(server) == b"ok"


def test_a_peer_that_takes_no_answer_is_let_go_silently(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def large(_environ: Any, start: Any) -> Iterator[bytes]:
        start("200 OK", [])
        yield from itertools.repeat(bytes(1 << 20))

    monkeypatch.setattr(Handler, "timeout", 0.1)
    with listening(Clock(), 4, large) as server, half_request(server) as peer:
        peer.sendall(b"\r\n")
        assert peer.recv(1)
        while server._open:
            time.sleep(0.01)  # another thread, with a real socket
    assert capsys.readouterr() == ("", "")
