"""Commands run on a terminal, for transcripts of the pages and the picture of the README."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from pathlib import Path

from tests.support import PATIENCE

CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def run_on_terminal(command: str, environment: dict[str, str], folder: Path, columns: int = 80) -> str:
    """Runs `command` with bash; standard output is a terminal. Returns what it printed, standard error last.

    Control sequences stay in the text.
    """
    terminal, child_side = pty.openpty()
    fcntl.ioctl(child_side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=child_side,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=folder,
        process_group=0,
    )
    os.close(child_side)
    chunks: list[bytes] = []

    def read() -> None:
        try:
            while chunk := os.read(terminal, 65536):
                chunks.append(chunk)
        except OSError:  # the other side is closed
            return

    reader = threading.Thread(target=read)
    reader.start()
    errors = _errors_of(process)
    reader.join(PATIENCE)
    os.close(terminal)
    return b"".join(chunks).decode().replace("\r\n", "\n") + errors.decode()


def _errors_of(process: subprocess.Popen[bytes]) -> bytes:
    """Waits for the process and returns its standard error. After 3 * PATIENCE, it is killed with its group.

    A command may start Spark, which takes a minute on a busy machine.
    """
    try:
        return process.communicate(timeout=3 * PATIENCE)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[1] + b"(did not end in time)\n"
