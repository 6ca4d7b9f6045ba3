"""Addresses as RocketMQ writes them: "host:port", "[v6]:port", lists joined with `;` (commas and blanks are
accepted).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence

from codec import addresses
from codec.addresses import DEFAULT_NAMESRV_PORT, join_address, split_addresses
from rmqcli.client.errors import InvalidRequest, valid

_INSTANCE = re.compile(r"\s*(?:\w+://)?(MQ_INST_\w+_\w+)\.", re.ASCII)


def split_address(address: str, default_port: int | None = None) -> tuple[str, int]:
    """("host", port) of "host:port"; InvalidRequest when it is none."""
    return valid(addresses.split_address, address, default_port)


def name_servers(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return the name servers in order, each "host:port" (9876 when no port is given), without duplicates."""
    texts = [given] if isinstance(given, str) else list(given)
    parts = [part.removeprefix("http://") for text in texts for part in split_addresses(text)]
    found = [join_address(*split_address(part, DEFAULT_NAMESRV_PORT)) for part in parts]
    if not found:
        raise InvalidRequest("the list of name servers is empty")
    return tuple(dict.fromkeys(found))


def instance_of(name_servers: Sequence[str]) -> str:
    """Return the instance that the first address names, `http://MQ_INST_….host:port` with or without the
    scheme; "" for none (Java `NameServerAddressUtils.parseInstanceIdFromEndpoint`).
    """
    found = _INSTANCE.match(name_servers[0]) if name_servers else None
    return found[1] if found else ""


def local_ip() -> str:
    """Return the address of this machine as others see it, or 127.0.0.1. A UDP connect sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        address: tuple[str, int] = probe.getsockname()
        return address[0]
