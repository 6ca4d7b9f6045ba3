"""Message ids and host addresses.

A packed host is the address (4 or 16 bytes) and the port as int32: 8 or 20 bytes. An offset message id is
the upper-case hex of the packed store host and the commit-log offset (int64), 32 or 56 characters (Java
class `MessageDecoder.createMessageId`). A unique id (property UNIQ_KEY, class `MessageClientIDSetter`) is
the hex of the address (4 or 16 bytes), the process id (2), a number of the process (4), the milliseconds
since the first of the local month (4), and a counter (2).
"""

from __future__ import annotations

import ipaddress
import itertools
import re
import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from rmqcli.codec.errors import CorruptionError, HeaderError, LocalProtocolError

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
    """Return True for a name, an IPv4 address, or an IPv6 address, which may be in brackets."""
    if not set(":[]") & set(host):
        return True
    try:
        return bool(IPv6Address(host[1:-1] if host.startswith("[") and host.endswith("]") else host))
    except ValueError:
        return False


def split_addresses(text: str) -> list[str]:
    """Return the addresses of a list, unchecked. Semicolons, commas and white space separate them."""
    return [part for part in _SEPARATORS.split(text) if part]


CLOCK_STEP = 1_000_000
"""A clock that was set back by less than this (ms) counts as stopped."""
ID_LENGTHS = frozenset((32, 56))
_OFFSET_SIZE = 8
_HEX = tuple(f"{byte:02X}" for byte in range(256))
"""A lookup here takes a third of the time of formatting a number."""
CACHED_HOSTS = 1024
"""The number of host addresses that each of these functions remembers, at 400 bytes each."""


def pack_host(host: str, port: int) -> bytes:
    """Pack an address and an int32 port. Raises LocalProtocolError if one of them is invalid."""
    try:
        return ipaddress.ip_address(host).packed + struct.pack(">i", port)
    except (ValueError, struct.error) as error:
        raise LocalProtocolError(f"cannot pack the host {host!r} port {port}: {error}") from None


@lru_cache(maxsize=CACHED_HOSTS)
def unpack_host(packed: bytes) -> tuple[str, int]:
    """Return the address as text, and the port. Raises CorruptionError unless there are 8 or 20 bytes."""
    if len(packed) not in (8, 20):
        raise CorruptionError(f"a packed host has 8 or 20 bytes, not {len(packed)}")
    address = ipaddress.ip_address(packed[:-4])
    return str(address), int.from_bytes(packed[-4:], "big", signed=True)


@lru_cache(maxsize=CACHED_HOSTS)
def host_text(packed: bytes) -> str:
    """Return the text of a packed host, `ip:port` or `[v6]:port`."""
    return join_address(*unpack_host(packed))


@lru_cache(maxsize=CACHED_HOSTS)
def pack_host_text(text: str) -> bytes:
    """Pack `ip:port` or `[v6]:port`. Raises LocalProtocolError for any other text."""
    host, _, port = text.rpartition(":")
    try:
        return pack_host(host.strip("[]"), int(port))
    except ValueError:
        raise LocalProtocolError(f"not an ip:port: {text!r}") from None


def offset_msg_id(host: bytes, port: int, offset: int) -> str:
    """Return the id of the record at a commit-log offset; `host` is the store address in 4 or 16 bytes."""
    return f"{host.hex().upper()}{port & 0xFFFFFFFF:08X}{offset & 0xFFFFFFFFFFFFFFFF:016X}"


def joined_offset_msg_ids(packed_host: bytes, offsets: Sequence[int]) -> str:
    """Return the comma-separated ids of the records at some commit-log offsets of a store."""
    if not offsets:
        return ""
    host = packed_host.hex().upper()
    ends = struct.pack(f">{len(offsets)}q", *offsets).hex(",", _OFFSET_SIZE).upper()
    return host + ends.replace(",", f",{host}")


def parse_offset_msg_id(text: str) -> tuple[str, int, int]:
    """Return the address, port and commit-log offset of an id. Raises HeaderError for any other text."""
    data = _id_bytes(text)
    host, port = unpack_host(data[:-8])
    return host, port, int.from_bytes(data[-8:], "big", signed=True)


class UniqIdFactory:
    """Creates the UNIQ_KEYs of one process; safe to use from several threads.

    `ip` has 4 or 16 bytes, `identity` is any number for the process, `now_ms` is the clock, and `tz` the zone
    whose month counts (None: this machine's).
    """

    def __init__(
        self, ip: bytes, pid: int, identity: int, now_ms: Callable[[], int], tz: tzinfo | None = None
    ) -> None:
        self._prefix = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{identity & 0xFFFFFFFF:08X}"
        self._now_ms = now_ms
        self._tz = tz
        self._counter = itertools.count()
        self._start, self._end = _month(now_ms(), tz)
        self._moment = -1
        self._stem = ""

    def next(self) -> str:
        """Return a new id."""
        now = self._now_ms()
        if now != self._moment:
            # The stem is assigned first: a thread that sees the new moment must find its stem, too.
            self._stem, self._moment = self._stem_at(now), now
        # `next` on itertools.count is atomic, so threads need no lock to get different numbers.
        count = next(self._counter)
        return f"{self._stem}{_HEX[count >> 8 & 0xFF]}{_HEX[count & 0xFF]}"

    def _stem_at(self, now: int) -> str:
        """Return the common beginning of the ids of one millisecond."""
        if now >= self._end:
            self._start, self._end = _month(now, self._tz)
        span = now - self._start
        if -CLOCK_STEP < span < 0:
            span = 0
        return f"{self._prefix}{span & 0xFFFFFFFF:08X}"


class UniqId(NamedTuple):
    """The parts of a UNIQ_KEY. `pid` is the lower half of the process id, `identity` distinguishes processes
    (in Java the hash of a class loader), `span` is in ms since the first of the month, `counter` wraps at
    65536.
    """

    address: str
    pid: int
    identity: int
    span: int
    counter: int


def parse_uniq_id(text: str) -> UniqId:
    """Return the parts of a UNIQ_KEY. Raises HeaderError for any other text; an offset message id looks the
    same.
    """
    data = _id_bytes(text)
    pid, identity, span, counter = struct.unpack(">HIIH", data[-12:])
    return UniqId(str(ipaddress.ip_address(data[:-12])), pid, identity, span, counter)


def time_of_uniq_id(uniq_id: str, now_ms: int, tz: tzinfo | None = None) -> int:
    """Return the latest time (ms) up to `now_ms` at which a UNIQ_KEY can have been created. Raises
    HeaderError for any other text.
    """
    # 31 days of milliseconds need the sign bit, so it is read as unsigned.
    span = int.from_bytes(_id_bytes(uniq_id)[-6:-2], "big")
    start, _ = _month(now_ms, tz)
    # The id does not name its month: a time in the future means the month before.
    if start + span >= now_ms:
        start, _ = _month(start - 1, tz)
    return start + span


def _id_bytes(text: str) -> bytes:
    try:
        # `bytes.fromhex` alone would accept spaces between bytes.
        if len(text) in ID_LENGTHS and text.isalnum():
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise HeaderError(f"not a message id: {text[:64]!r}", "msgId")


def _month(moment_ms: int, tz: tzinfo | None) -> tuple[int, int]:
    """Return the first millisecond of the month that contains a moment, and of the month after it."""
    moment = datetime.fromtimestamp(moment_ms / 1000, tz)
    first = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    # No month has 32 days, so this is in the next one.
    following = (first + timedelta(days=32)).replace(day=1)
    return int(first.timestamp()) * 1000, int(following.timestamp()) * 1000
