"""Tells which clients can reach the address that a broker announces."""

from __future__ import annotations

from ipaddress import ip_address

from codec.addresses import split_address

_ANNOUNCE = "set brokerIP1 of the broker to an address that clients reach"


def kind_of(address: str) -> str:
    """Return `unspecified`, `loopback`, `private` or `public`; names of hosts count as public."""
    try:
        host = split_address(address)[0]
        found = ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        return "public"
    kinds = {"unspecified": found.is_unspecified, "loopback": found.is_loopback, "private": found.is_private}
    return next((kind for kind, holds in kinds.items() if holds), "public")


def advice(address: str) -> str:
    """Return what to do about an address that did not answer."""
    mapped = f"--map {address}=HOST:PORT"
    texts = {
        "unspecified": f"0.0.0.0 is no address to connect to: {_ANNOUNCE}, or use {mapped}",
        "loopback": f"only clients on the broker's machine reach this: {_ANNOUNCE}, or use {mapped}",
        "private": (
            f"a private address: if the broker runs, in a container or behind a port forward, use {mapped}, "
            f"or {_ANNOUNCE}"
        ),
        "public": f"is the broker running, and does a firewall let its port pass? else use {mapped}",
    }
    return texts[kind_of(address)]


def is_local(address: str) -> bool:
    """Return whether an address is one of this machine only."""
    return kind_of(address) == "loopback"
