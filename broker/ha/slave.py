"""The slave's side of replication (Java class `HAClient`): the commit log follows that of a master, and its
records are checked.

Beyond Java's slave: the first report is sent immediately; a master that is silent for haHousekeepingInterval
is abandoned; a new store gets the whole log of its master, not only the last file; before anything is copied,
the end of the log is compared with the master's (`agree`).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec
import trio

from rmqcli.broker.errors import BrokerError, ReplicaRefused, StoreDamaged
from rmqcli.broker.ha.peer import LogRange, MasterPeer
from rmqcli.broker.net.network import Network
from rmqcli.broker.net.peers import open_peer
from rmqcli.broker.store import MessageStore
from rmqcli.broker.supervisor import open_services
from rmqcli.codec.errors import CodecError
from rmqcli.codec.ha.frames import BlockReader, RecordStream, encode_report

_log = logging.getLogger(__name__)


# Comparison of the log of a slave with that of its master, of which it should be the beginning.
#
# A master that lost the end of its log, or a master that replaces it, writes other records where the slave
# already has some. Java's slave does not notice. Here, at each connection, the last record is compared byte
# by byte with the master's at the same offset; if they differ, earlier records are compared until two are
# identical. All later records are copied and then removed.


async def agree(store: MessageStore, master: MasterPeer, there: LogRange) -> None:
    """Cut the log of a slave at the first record that its master does not have.

    Raises ReplicaRefused if the logs have nothing in common, or if the master has deleted the next records;
    also BrokerError and OSError.
    """
    end = store.commit_log_max_offset
    if end == store.commit_log_min_offset:
        return
    if end < there.start:
        raise ReplicaRefused(
            f"this log ends at {end} and that of {master.address} begins at {there.start}: what is between "
            f"is deleted there. Begin with an empty store"
        )
    last = store.last_record_before(end)
    if last is None or (end <= there.end and await _is_same(store, master, last)):
        return
    common = await _common_end(store, master, min(end, there.end))
    if common is None:
        raise ReplicaRefused(
            f"this log has no record in common with that of {master.address}: it is no copy of it. "
            f"Begin with an empty store"
        )
    if common == end:
        return
    folder = await store.cut(common)
    _log.error(
        "the commit log ends at %d from now on, not at %d: %s has other records there, or none. A copy of the "
        "%d bytes that were removed is in %s",
        common,
        end,
        master.address,
        end - common,
        folder,
    )


async def _common_end(store: MessageStore, master: MasterPeer, end: int) -> int | None:
    """Return the end of the last common record of both logs before `end`; None if there is none.

    This is a binary search, because the logs are equal up to that record and differ from there on.
    """
    low, high = store.commit_log_min_offset, end + 1
    while high - low > 1:
        middle = (low + high) // 2
        place = store.last_record_before(middle)
        if place is None or await _is_same(store, master, place):
            low = middle
        else:
            high = middle
    place = store.last_record_before(low)
    return None if place is None else sum(place)


async def _is_same(store: MessageStore, master: MasterPeer, place: tuple[int, int]) -> bool:
    offset, size = place
    own = store.log_part(offset, size)
    return bytes(own) == await master.record(offset)


FIRST_RETRY_SECONDS = 0.5
RETRY_SECONDS = 5.0
REGISTERED_SECONDS = 15.0
"""Seconds after which a broker has registered, and knows of a master if there is one."""
RECEIVED_AT_ONCE = 256 * 1024
KNOWN_BEGIN = b"\0"
"""The first byte of every log, the highest of the record size: no record has 16 MiB."""


class Seat(msgspec.Struct, frozen=True):
    """The addresses ("host:port") of a master: for replication, and for requests if that is known."""

    ha_address: str
    address: str | None = None


@dataclass(slots=True)
class Progress:
    """The state of a slave, for display. `received` counts bytes since `begun`, when the last of
    `connections` was opened; `trouble` is the reason why nothing is copied, empty if all is well. Times are
    trio's.
    """

    ha_address: str = ""
    connections: int = 0
    received: int = 0
    begun: float = 0.0
    last_read: float = 0.0
    last_write: float = 0.0
    trouble: str = "it was not tried yet"


class Slave:
    """Copies the commit log of a master into a store. `seat` returns the addresses of the master, or None
    while they are unknown.
    """

    def __init__(
        self,
        store: MessageStore,
        seat: Callable[[], Seat | None],
        peer: Callable[[str], MasterPeer],
        network: Network,
        *,
        tls: Callable[[], ssl.SSLContext | None],
        report_ms: Callable[[], int],
        silence_ms: Callable[[], int],
        connected: Callable[[], object],
    ) -> None:
        """`tls` is for the connections that copy the log. `report_ms` returns the longest time between two
        reports, `silence_ms` that without a byte from the master. `connected` is called when a connection to
        a master was opened.
        """
        self._store = store
        self._seat = seat
        self._peer = peer
        self._network = network
        self._tls = tls
        self._report_ms = report_ms
        self._silence_ms = silence_ms
        self._connected = connected
        self._reporting = trio.Lock()
        self._moved = trio.Event()
        self._known = trio.Event()
        self._logged = ""
        self.progress = Progress()

    async def reached(self, end: int) -> None:
        """Return once the log has everything before `end`, and agrees with the master's."""
        while self.progress.trouble or self._end < end:
            await self._moved.wait()

    async def run(self) -> None:
        """Follow until cancelled. A failure is logged once and retried: soon after a connection, then with
        doubling pauses up to 5 s, and immediately when `look_again` is called.
        """
        pause = FIRST_RETRY_SECONDS
        begun = trio.current_time()
        while True:
            # Taken before the attempt: addresses that change during it end the pause after it.
            known, connections = self._known, self.progress.connections
            seat = self._seat()
            if seat is None:
                self._note("no master is known", quietly=trio.current_time() < begun + REGISTERED_SECONDS)
            else:
                with self._noting():
                    await self._follow(seat)
            is_new = self.progress.connections > connections
            pause = FIRST_RETRY_SECONDS if is_new else min(pause * 2, RETRY_SECONDS)
            with trio.move_on_after(pause):
                await known.wait()

    def look_again(self) -> None:
        """Look up the addresses of the master again now, because they may have changed."""
        known, self._known = self._known, trio.Event()
        known.set()

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except (BrokerError, CodecError, ReplicaRefused, StoreDamaged) as error:
            self._note(str(error))
        except trio.TooSlowError:
            self._note(f"{self.progress.ha_address} is silent")
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._note(f"{self.progress.ha_address}: {str(error) or type(error).__name__}")

    def _note(self, trouble: str, *, quietly: bool = False) -> None:
        if not quietly and trouble != self._logged:
            if trouble:
                _log.warning("replication: %s", trouble)
            self._logged = trouble
        self.progress.trouble = trouble
        self._move()

    def _move(self) -> None:
        moved, self._moved = self._moved, trio.Event()
        moved.set()

    async def _follow(self, seat: Seat) -> None:
        self.progress.ha_address = seat.ha_address
        there = None
        if seat.address is not None:
            master = self._peer(seat.address)
            there = await master.log_range()
            await agree(self._store, master, there)
        async with await open_peer(self._network, seat.ha_address, self._tls()) as stream:
            self.progress.connections += 1
            self._connected()
            self.progress.begun, self.progress.received = trio.current_time(), 0
            _log.info("replication: connected to %s, from offset %d on", seat.ha_address, self._end)
            await self._copy(stream, self._first_offset(there))

    @property
    def _end(self) -> int:
        return self._store.commit_log_max_offset

    def _first_offset(self, there: LogRange | None) -> int:
        """Return the offset of the first byte to request.

        A report of 0 would yield only the last file of the log, so a new store reports the start of the first
        file, or 1 if that is 0.
        """
        is_new = self._store.commit_log_min_offset == self._end
        if not is_new or there is None:
            return self._end
        return there.start or min(there.end, len(KNOWN_BEGIN))

    async def _copy(self, stream: trio.abc.Stream, first: int) -> None:
        """Read blocks until the connection ends, and raise the reason."""
        blocks, records = BlockReader(), None
        if first:
            # A new store that requests the log from offset 1 on supplies the first byte itself.
            known = KNOWN_BEGIN[:first] if first == len(KNOWN_BEGIN) else b""
            records = RecordStream(first - len(known), known)
        async with open_services() as services:
            await self._report(stream, first)
            self._note("")
            services.nursery.start_soon(self._report_at_times, stream)
            while True:
                with trio.fail_after(self._silence_ms() / 1000):
                    data = await stream.receive_some(RECEIVED_AT_ONCE)
                if not data:
                    raise BrokerError(f"{self.progress.ha_address} closed the connection")
                self.progress.last_read = trio.current_time()
                self.progress.received += len(data)
                before = self._end
                for part in blocks.feed(data):
                    records = records or RecordStream(part.offset)
                    for run in records.feed(*part):
                        await self._store.when_ready(self._store.replica.append_at, run.offset, run.data)
                if self._end != before:
                    self._move()
                    await self._report(stream, self._end)

    async def _report(self, stream: trio.abc.Stream, end: int) -> None:
        async with self._reporting:  # two tasks report, and a stream allows one sender at a time
            self.progress.last_write = trio.current_time()
            await stream.send_all(encode_report(end))

    async def _report_at_times(self, stream: trio.abc.Stream) -> None:
        while True:
            due = self.progress.last_write + self._report_ms() / 1000
            if trio.current_time() < due:
                await trio.sleep_until(due)
            else:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):  # the reader reports it
                    await self._report(stream, self._end)
