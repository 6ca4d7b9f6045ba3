"""Addresses as RocketMQ writes them: `host:port`, `[v6]:port`, and lists of them joined with `;`."""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from typing import Final

MAX_PORT: Final = 65535
MAX_DIGITS: Final = 5
DEFAULT_NAMESRV_PORT: Final = 9876
DEFAULT_NAMESRV: Final = f"127.0.0.1:{DEFAULT_NAMESRV_PORT}"
_SEPARATORS: Final = re.compile(r"[;,\s]+")


def join_address(host: str, port: int) -> str:
    """Return the text of an address; an IPv6 host gets brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str, default_port: int | None = None) -> tuple[str, int]:
    """Return the host, without brackets, and the port. Raises ValueError for any other form."""
    host, colon, port = address.rpartition(":")
    if default_port is not None and (not colon or address.endswith("]")):
        host, port = address, str(default_port)
    is_port = port.isascii() and port.isdigit() and len(port) <= MAX_DIGITS and 0 < int(port) <= MAX_PORT
    if not host or not is_port or not _is_host(host):
        raise ValueError(f"{address!r} is not an address: host:port is expected")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_host(host: str) -> bool:
    """Return True for a name and an IPv4 address, and for an IPv6 address, which may be in brackets."""
    if not set(":[]") & set(host):
        return True
    try:
        return bool(IPv6Address(host[1:-1] if host.startswith("[") and host.endswith("]") else host))
    except ValueError:
        return False


def split_addresses(text: str) -> list[str]:
    """Return the addresses of a list, unchecked. Commas and white space separate them, too."""
    return [part for part in _SEPARATORS.split(text) if part]
