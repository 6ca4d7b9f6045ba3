"""Field name to Java property name: camel case, but for the names in which Java keeps an abbreviation in capitals."""

from __future__ import annotations

__all__ = ["java_name"]

_CAPITALS = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "use_tls": "useTLS",
    "check_crc_on_recover": "checkCRCOnRecover",
}


def java_name(field: str) -> str:
    """`broker_ip1` is `brokerIP1`, `listen_port` is `listenPort`."""
    first, *rest = field.split("_")
    return _CAPITALS.get(field) or first + "".join(word[:1].upper() + word[1:] for word in rest)
