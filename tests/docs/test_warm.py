"""A copy of a process that has imported what commands need behaves as a process that starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rmqcli.broker.testing.embedded import Cluster
from tests.docs.warm import Server
from tests.support import PATIENCE, RMQ

ABSENT = ("-n", "127.0.0.1:1")


def both(programs: Path, *arguments: str, **options: Any) -> list[subprocess.CompletedProcess[bytes]]:
    """Runs a command by a copy, and in a process of its own."""
    return [
        subprocess.run([*rmq, *arguments], check=False, capture_output=True, timeout=PATIENCE, **options)
        for rmq in ([str(programs / "rmq")], RMQ)
    ]


@pytest.mark.parametrize(
    "arguments", [("help",), (*ABSENT, "topic", "list"), ("id", "none"), ("pull", "--nope")]
)
def test_the_same_output_and_exit_code(programs: Path, arguments: tuple[str, ...]) -> None:
    copy, process = both(programs, *arguments)
    assert (copy.returncode, copy.stdout, copy.stderr) == (process.returncode, process.stdout, process.stderr)


def test_folder_and_environment(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text('[profiles.here]\nnamesrv = "10.0.0.1:9876"\n')
    options = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "RMQ_CONFIG_DIR": "."}}
    copy, process = both(programs, "profile", "list", "--json", **options)
    assert copy.stdout == process.stdout and b"10.0.0.1" in copy.stdout, copy.stderr


def test_standard_input(programs: Path, rmq_cluster: Cluster) -> None:
    copy, process = both(programs, "-n", rmq_cluster.namesrv, "send", "lines", input=b"1\n2\n3\n")
    assert len(copy.stdout.splitlines()) == len(process.stdout.splitlines()) == 3
    assert copy.stdout != process.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_copy(programs: Path, rmq_cluster: Cluster, number: signal.Signals) -> None:
    """The end of the pipe, which only the copy holds then, tells that it has ended."""
    command = [
        str(programs / "rmq"),
        "-n",
        rmq_cluster.namesrv,
        "tail",
        "signals",
        "--json",
        "-o",
        "-1",
        "-v",
    ]
    subprocess.run([*RMQ, "-n", rmq_cluster.namesrv, "send", "signals", "1"], check=True, timeout=PATIENCE)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None and client.stdout.readline()
        client.send_signal(number)
        assert client.stdout.read() == b""
        assert client.wait(PATIENCE) == (-number if number == signal.SIGKILL else 128 + number)


def test_clients_that_are_killed_at_any_time(programs: Path) -> None:
    """Many are killed as their copies end, some before they have asked; the server serves the next."""
    for turn in range(60):
        client = subprocess.Popen([str(programs / "python"), "-c", ""], stdout=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            client.wait(turn / 600)
        client.kill()
        client.wait(PATIENCE)
    for asked in (b"", b"\0\0", b"\0\0\1\0", b"\0\0\0\1?"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(programs / "warm"))
            connection.sendall(asked)
    subprocess.run([str(programs / "python"), "-c", ""], check=True, timeout=PATIENCE)


@pytest.mark.parametrize("reused", [False, True])
def test_an_event_of_a_file_that_was_closed_meanwhile(tmp_path: Path, reused: bool) -> None:
    """Both events are of one look; whichever is first closes the file of the other."""
    files, called = [socket.socketpair() for _ in range(2)], list[int]()
    starter, lifeline = socket.socketpair()
    server = Server(str(tmp_path / "address"), starter)

    def close_other(number: int) -> None:
        called.append(number)
        other = files[1 - number][0]
        server._events.unregister(other)
        other.close()
        if reused:
            newcomer, _ = pair = socket.socketpair()
            files.append(pair)
            server.when_readable(newcomer, lambda: called.append(2))

    for number, (ours, theirs) in enumerate(files):
        theirs.send(b"x")
        server.when_readable(ours, partial(close_other, number))
    server.turn()
    assert called in ([0], [1])
    for one in (starter, lifeline, *(one for pair in files for one in pair)):
        one.close()


def test_python_runs_a_text_and_a_file(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("word = 'beside'")
    (tmp_path / "program.py").write_text("import sys, other; print(other.word, sys.argv); sys.exit(3)")
    commands = (
        ("-c", "import sys, other; print(other.word, sys.argv, __name__)", "a", "b"),
        ("-c", "print('before'); raise ValueError('wrong')"),
        ("program.py", "a"),
    )
    for command in commands:
        copy, process = (
            subprocess.run(
                [python, *command], check=False, capture_output=True, timeout=PATIENCE, cwd=tmp_path
            )
            for python in (programs / "python", sys.executable)
        )
        assert (copy.returncode, copy.stdout) == (process.returncode, process.stdout), copy.stderr
        assert copy.stderr.splitlines()[-1:] == process.stderr.splitlines()[-1:]


def test_a_server_ends_with_a_signal(programs: Path) -> None:
    command = [str(programs / "rmq"), "up", "--port", "0", "--namesrv-port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None and b"namesrv" in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        assert (server.stdout.read(), server.wait(PATIENCE)) == (b"", 0)
