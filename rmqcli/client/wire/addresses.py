"""Addresses as RocketMQ writes them: "host:port", "[v6]:port", lists joined with `;` (commas and blanks are accepted)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence

from rmqcli.client.errors import InvalidRequest

__all__ = ["DEFAULT_NAMESRV_PORT", "instance_of", "local_ip", "name_servers", "split_address"]

DEFAULT_NAMESRV_PORT = 9876
MAX_PORT = 65535
_SEPARATORS = re.compile(r"[;,\s]+")
_INSTANCE = re.compile(r"\s*(?:\w+://)?(MQ_INST_\w+_\w+)\.", re.ASCII)


def split_address(address: str, default_port: int | None = None) -> tuple[str, int]:
    """("host", port) of "host:port"; InvalidRequest when it is none."""
    host, colon, port = address.rpartition(":")
    if default_port is not None and (not colon or address.endswith("]")):
        host, port = address, str(default_port)
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= MAX_PORT:
        raise InvalidRequest(f"{address!r} is not an address: host:port is expected")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def name_servers(addresses: str | Iterable[str]) -> tuple[str, ...]:
    """The list of name servers, each "host:port" (9876 when no port is given), duplicates removed, order kept."""
    texts = [addresses] if isinstance(addresses, str) else list(addresses)
    parts = [part.removeprefix("http://") for text in texts for part in _SEPARATORS.split(text) if part]
    found = [join_address(*split_address(part, DEFAULT_NAMESRV_PORT)) for part in parts]
    if not found:
        raise InvalidRequest("the list of name servers is empty")
    return tuple(dict.fromkeys(found))


def instance_of(addresses: Sequence[str]) -> str:
    """The instance that the first address names, `http://MQ_INST_….host:port` with or without the scheme; "" for none
    (Java `NameServerAddressUtils.parseInstanceIdFromEndpoint`)."""
    found = _INSTANCE.match(addresses[0]) if addresses else None
    return found[1] if found else ""


def local_ip() -> str:
    """This machine's address as others see it; 127.0.0.1 when it has none. Sends nothing (a UDP connect only routes)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        address: tuple[str, int] = probe.getsockname()
        return address[0]
