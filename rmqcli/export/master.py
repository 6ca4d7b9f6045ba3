"""Where a Spark master is, and the address of this machine that its executors can reach."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from rmqcli.export.errors import ExportError

__all__ = ["LOOPBACK", "driver_address", "is_local"]

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 10
"""Spark itself waits a minute for a master that is not there, and then does not say so."""


def is_local(master: str) -> bool:
    """Driver and executors are one process."""
    return re.match(r"local(\[|$)", master) is not None


def driver_address(master: str) -> str | None:
    """The loopback address for `local…`; for `spark://…` the address that this machine has towards the master; None: Spark finds one.

    ExportError when no master can be connected to.
    """
    if is_local(master):
        return LOOPBACK
    if not master.startswith("spark://"):
        return None
    reasons = []
    for host, port in _addresses(master):
        try:
            with socket.create_connection((host, port), CONNECT_SECONDS) as connection:
                address: str = connection.getsockname()[0]
                return address
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    raise ExportError(f"no Spark master at {master} ({', '.join(reasons)}): is it running?")


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    for one in master.removeprefix("spark://").split(","):
        try:
            parts = urlsplit(f"spark://{one}")
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port:
            raise ExportError(f"--master {master}: spark://HOST:PORT is expected")
        yield host, port
