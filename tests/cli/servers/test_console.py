"""What keeps `rmq console` from starting."""

from __future__ import annotations

import socket

import pytest

from tests.cli.conftest import Run


def test_a_port_in_use(cli: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        found = cli("console", "-n", "127.0.0.1:1", "--port", str(port))
    assert (found.code, found.out) == (1, b"")
    assert f"cannot listen on 127.0.0.1:{port}: the port is in use; choose another" in found.err
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "70000"), "Invalid value for '--port': expected at most 65535"),
        (("--interval", "0"), "Invalid value for '--interval': expected at least 1"),
        (("--max-body", "x"), "--max-body x: expected a size such as 64M or 1G"),
    ],
)
def test_wrong_arguments(cli: Run, words: tuple[str, ...], message: str) -> None:
    found = cli("console", "-n", "127.0.0.1:1", *words)
    assert (found.code, found.out, found.err.count("\n")) == (2, b"", 1)
    assert found.err.startswith(f"rmq: {message}")
