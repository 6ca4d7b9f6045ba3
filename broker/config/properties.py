"""Property names, and files of properties (broker.conf, namesrv.conf) in UTF-8."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from broker.disk import REAL, Disk, save_table
from broker.errors import ConfigError
from codec.bodies.properties import format_properties, parse_properties

_CAPITALS = {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "use_tls": "useTLS",
    "check_crc_on_recover": "checkCRCOnRecover",
}


def java_name(field: str) -> str:
    """The Java property of a field in camel case: `listen_port` is `listenPort`, but `broker_ip1` is
    `brokerIP1`.
    """
    first, *rest = field.split("_")
    return _CAPITALS.get(field) or first + "".join(word[:1].upper() + word[1:] for word in rest)


def read_properties(path: Path, disk: Disk = REAL) -> dict[str, str]:
    """The entries of a file. Raises ConfigError when it cannot be read or is not UTF-8. Blocks."""
    try:
        return parse_properties(disk.read(path).decode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from error


def write_properties(path: Path, entries: Mapping[str, str], disk: Disk = REAL) -> None:
    """Replaces a file in one step and keeps its previous content beside it as `.bak`. Blocks; OSError."""
    save_table(disk, path, format_properties(entries).encode())
