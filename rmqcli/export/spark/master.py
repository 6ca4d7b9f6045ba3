"""Addresses of Spark masters, and the address of this machine that their executors can reach."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from rmqcli.export.errors import ExportError, MasterError

LOOPBACK = "127.0.0.1"
CONNECT_SECONDS = 10
"""Spark itself waits a minute for a missing master, and then does not say so."""


_NUMBER = r"[1-9][0-9]{0,8}"
_FORMS = re.compile(
    rf"local(\[(\*|{_NUMBER})( *, *{_NUMBER})?\])?"
    rf"|local-cluster\[ *{_NUMBER} *, *{_NUMBER} *, *{_NUMBER} *\]|spark://.*|k8s://.+|yarn"
)


def check_master(master: str) -> None:
    """Raise MasterError, before Spark is started, for an address that Spark does not support."""
    if not _FORMS.fullmatch(master):
        raise MasterError(
            f"--master {master}: expected local[N], spark://HOST:PORT, k8s://https://HOST:PORT or yarn"
        )


def is_local(master: str) -> bool:
    """Return True if driver and executors are one process."""
    return re.match(r"local(\[|$)", master) is not None


def driver_address(master: str) -> str | None:
    """Return this machine's address: loopback for `local…`, towards the master for `spark://…`, else None.

    Raises ExportError if no master accepts a connection.
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
            raise MasterError(f"--master {master}: expected spark://HOST:PORT")
        yield host, port
