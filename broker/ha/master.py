"""The master's side of replication (Java classes `HAService`, `HAConnection`).

A slave connects and reports the end of its log. From there on it receives everything written, in blocks of at
most haTransferBatchSize bytes that never cross a file boundary, and a heartbeat if nothing was sent for
haSendHeartbeatInterval. A slave that reports 0 receives the last file of the log, as from Java's master. The
connection is closed if no report arrives for haHousekeepingInterval, or if a report is past the end of the
log: that slave has records that this broker never had, or has lost.

Java's replication has neither TLS nor access control. Here haWhiteRemoteAddresses limits who may connect, and
a slave of this implementation may speak TLS, which its first byte shows; with haTlsRequired it must.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import trio

from rmqcli.broker.config import BrokerConfig
from rmqcli.broker.errors import RemoteClosed
from rmqcli.broker.net.limits import Newcomers
from rmqcli.broker.net.tls.acceptor import TLS_HANDSHAKE, TlsAcceptor
from rmqcli.broker.net.transport import Buffer, StreamTransport, Transport
from rmqcli.broker.store import MessageStore
from rmqcli.broker.supervisor import Services, Supervisor, open_services
from rmqcli.codec.acl.addresses import parse_rules, read_address
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.core.record_writer import QueueRun
from rmqcli.codec.errors import RemoteProtocolError
from rmqcli.codec.ha.frames import ReportReader, encode_block_header
from rmqcli.codec.ids import join_address

# The ends of the logs of slaves, and the wait of a send for them (Java `HAConnection`, `GroupTransferService`).
#
# By default one slave is enough, as in 4.9: the high-water mark is the highest end that any of them ever
# reported. The properties of 5.x require more: inSyncReplicas counts copies, including the master's; with
# allAckInSyncStateSet, the mark is that of the slowest slave in sync, that is, connected and less than
# haSlaveFallbehindMax behind; with fewer copies than minInSyncReplicas, a send does not wait at all.


@dataclass(slots=True, eq=False)
class Slave:
    """A connection of a slave. `acknowledged` is the last reported end of its log, -1 before a report; `sent`
    is the offset of the next byte to send; `total` counts the bytes sent since `begun`, in trio's time.
    """

    address: str
    transport: Transport
    acknowledged: int = -1
    sent: int = -1
    total: int = 0
    begun: float = field(default_factory=trio.current_time)
    reported: trio.Event = field(default_factory=trio.Event)

    @property
    def rate(self) -> int:
        """Bytes per second sent to the slave since it connected."""
        return round(self.total / max(trio.current_time() - self.begun, 1.0))


class Replicas:
    """The connected slaves. `highest` is the highest end that any slave has ever reported."""

    def __init__(self, config: Callable[[], BrokerConfig], store: MessageStore) -> None:
        self._config = config
        self._store = store
        self._progress = trio.Event()
        self.slaves: list[Slave] = []
        self.highest = 0

    def add(self, slave: Slave) -> None:
        self.slaves.append(slave)

    def remove(self, slave: Slave) -> None:
        """Remove a slave that has disconnected, if present, and wake the sends that wait for slaves."""
        if slave in self.slaves:
            self.slaves.remove(slave)
            self._wake()

    def note(self, slave: Slave, end: int) -> None:
        """Note the end of a slave's log."""
        slave.acknowledged = end
        self.highest = max(self.highest, end)
        self._wake()

    def in_sync(self) -> list[Slave]:
        """Return the slaves that have reported and lag by less than haSlaveFallbehindMax."""
        least = max(self._store.commit_log_max_offset - self._config().ha_slave_fallbehind_max, -1)
        return [slave for slave in self.slaves if slave.acknowledged > least]

    async def replicated(self, end: int) -> ResponseCode:
        """Return SUCCESS once as many slaves as the configuration requires have the log up to `end`.

        Return FLUSH_SLAVE_TIMEOUT after slaveTimeout, and SLAVE_NOT_AVAILABLE immediately if too few slaves
        are in sync.
        """
        if not self._are_enough():
            return ResponseCode.SLAVE_NOT_AVAILABLE
        with trio.move_on_after(self._config().slave_timeout / 1000):
            while not self._has(end):
                await self._progress.wait()
        return ResponseCode.SUCCESS if self._has(end) else ResponseCode.FLUSH_SLAVE_TIMEOUT

    def _are_enough(self) -> bool:
        config = self._config()
        if config.all_ack_in_sync_state_set or config.min_in_sync_replicas > 2:
            return len(self.in_sync()) >= max(config.min_in_sync_replicas - 1, 1)
        behind = self._store.commit_log_max_offset - self.highest
        return bool(self.slaves) and behind < config.ha_slave_fallbehind_max

    def _has(self, end: int) -> bool:
        config = self._config()
        if config.all_ack_in_sync_state_set:
            ends = [slave.acknowledged for slave in self.in_sync()]
            return bool(ends) and min(ends) >= end
        if config.in_sync_replicas > 2:
            return sum(slave.acknowledged >= end for slave in self.slaves) >= config.in_sync_replicas - 1
        return self.highest >= end

    def _wake(self) -> None:
        progress, self._progress = self._progress, trio.Event()
        progress.set()


BLOCKS_AT_ONCE = 8
MOST_SLAVES = 64
MOST_SILENT = 64
"""Maximum number of connections that have reported nothing yet."""
_log = logging.getLogger(__name__)
_BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class Master:
    """Serves slaves while `run` runs; `replicas` has the connected ones."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        store: MessageStore,
        supervisor: Supervisor | None = None,
        tls: TlsAcceptor | None = None,
    ) -> None:
        self._config = config
        self._store = store
        self._supervisor = supervisor
        self._tls = tls or TlsAcceptor()
        self._services: Services | None = None
        self._written = trio.Event()
        self._silent = Newcomers(MOST_SILENT, trio.CancelScope.cancel)
        self.replicas = Replicas(config, store)

    async def run(
        self,
        listeners: Sequence[trio.SocketListener] = (),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept and serve slaves until cancelled, then close their connections."""
        try:
            async with open_services(self._supervisor) as services:
                self._services = services
                for listener in listeners:
                    services.start("replication accept", partial(self._accept, listener, services))
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._services = None

    def arrived(self, _stored: QueueRun) -> None:
        """Wake the tasks that send to slaves. This is an arrival listener of the store."""
        if self.replicas.slaves:
            self.wake()

    def wake(self) -> None:
        """Make the tasks send everything that was written."""
        written, self._written = self._written, trio.Event()
        written.set()

    # --- connections

    async def _accept(self, listener: trio.SocketListener, services: Services) -> None:
        while True:
            stream = await listener.accept()
            try:
                peer = stream.socket.getpeername()[:2]
            except OSError:  # already disconnected
                await trio.aclose_forcefully(stream)
                continue
            services.nursery.start_soon(self.serve, stream, peer)

    async def adopt(self, stream: trio.abc.Stream, peer: tuple[str, int]) -> None:
        """Serve, in the background, a connection that was accepted elsewhere. Raises RemoteClosed unless
        `run` runs."""
        if self._services is None:
            await trio.aclose_forcefully(stream)
            raise RemoteClosed("replication is not running")
        self._services.nursery.start_soon(self.serve, stream, peer)

    async def serve(self, stream: trio.abc.Stream, peer: tuple[str, int]) -> None:
        """Serve a slave until its connection ends."""
        slave = Slave(join_address(*peer), StreamTransport(stream))
        try:
            if refusal := self._refusal(peer[0]):
                _log.warning("slave %s: not served, %s", slave.address, refusal)
                return
            why = "the connection ended"
            try:
                await self._converse(slave)
            except RemoteProtocolError as error:
                why = str(error)
            except _BROKEN:
                why = "the connection broke"
            finally:
                self.replicas.remove(slave)
                _log.info("slave %s disconnected: %s", slave.address, why)
        finally:
            with trio.CancelScope(shield=True):
                await slave.transport.close()

    def _refusal(self, host: str) -> str:
        """Return the reason why a slave from this address is not served; empty if it is."""
        rules = parse_rules(self._config().ha_white_remote_addresses or "")
        address = read_address(host)
        if rules and not any(address is not None and rule.matches(address) for rule in rules):
            return "haWhiteRemoteAddresses does not have its address"
        return ""

    async def _converse(self, slave: Slave) -> None:
        """Serve a slave; raise RemoteProtocolError with the reason when that ends."""
        reader = ReportReader()
        end: int | None = None
        with trio.CancelScope() as scope, self._silent.counting(scope):
            end = await self._first_report(slave, reader)
        if end is None:
            raise RemoteProtocolError(f"it made room: {MOST_SILENT} connections had reported nothing")
        if len(self.replicas.slaves) >= MOST_SLAVES:
            raise RemoteProtocolError(f"it is not served: {MOST_SLAVES} others are")
        self.replicas.add(slave)
        _log.info("slave %s connected", slave.address)
        self._note(slave, end)
        ending: RemoteProtocolError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._send, slave, nursery.cancel_scope)
            try:
                await self._receive(slave, reader)
            except RemoteProtocolError as error:
                ending = error  # raised below, outside the nursery, which would wrap it in a group
            nursery.cancel_scope.cancel()
        raise ending or RemoteProtocolError("the connection broke")

    async def _first_report(self, slave: Slave, reader: ReportReader) -> int:
        """Return the first report of a slave, after a TLS handshake if it opens one. Raises
        RemoteProtocolError."""
        data = await self._received(slave)
        if data[:1] == TLS_HANDSHAKE:
            slave.transport = await self._tls.secured(slave.transport, data)
            data = await self._received(slave)
        elif self._config().ha_tls_required:
            raise RemoteProtocolError("it does not speak TLS, which is required (haTlsRequired)")
        while (end := reader.feed(data)) is None:
            data = await self._received(slave)
        return end

    async def _received(self, slave: Slave) -> bytes:
        limit = self._config().ha_housekeeping_interval / 1000
        with trio.move_on_after(limit):
            if data := await slave.transport.receive():
                return data
            raise RemoteProtocolError("it closed the connection")
        raise RemoteProtocolError(f"it reported nothing for {limit:g} s")

    async def _receive(self, slave: Slave, reader: ReportReader) -> None:
        """Read reports until the connection breaks or RemoteProtocolError is raised."""
        with suppress(*_BROKEN):
            while True:
                end = reader.feed(await self._received(slave))
                if end is not None:
                    self._note(slave, end)

    def _note(self, slave: Slave, end: int) -> None:
        """Note the end of a slave's log. Raises RemoteProtocolError if it is past the end of this log."""
        own = self._store.commit_log_max_offset
        if end > own:
            raise RemoteProtocolError(
                f"its log ends at {end} and the own at {own}: it has to remove what is behind"
            )
        self.replicas.note(slave, end)
        slave.reported.set()

    # --- sending

    async def _send(self, slave: Slave, connection: trio.CancelScope) -> None:
        await slave.reported.wait()
        slave.sent = slave.acknowledged or self._last_file()
        if slave.sent < self._store.commit_log_min_offset:
            _log.warning(
                "slave %s continues at %d, which is deleted: the log begins at %d. It needs an empty store",
                slave.address,
                slave.sent,
                self._store.commit_log_min_offset,
            )
        try:
            while True:
                # Taken before the log is read: bytes written after that set it.
                written = self._written
                blocks = await self._blocks(slave)
                if blocks:
                    await _send_all(slave.transport, blocks)
                    continue
                with trio.move_on_after(self._config().ha_send_heartbeat_interval / 1000) as pause:
                    await written.wait()
                if pause.cancelled_caught:
                    await _send_all(slave.transport, [encode_block_header(slave.sent, 0)])
        except _BROKEN:
            connection.cancel()

    def _last_file(self) -> int:
        end = self._store.commit_log_max_offset
        return max(end - end % self._store.commit_log_file_size, self._store.commit_log_min_offset)

    async def _blocks(self, slave: Slave) -> list[Buffer]:
        """Return some blocks with their headers, which then count as sent; empty if everything is sent."""
        blocks: list[Buffer] = []
        size = max(1, self._config().ha_transfer_batch_size)
        while len(blocks) < BLOCKS_AT_ONCE * 2:
            part = await self._store.when_ready(self._store.log_part, slave.sent, size)
            if not part:
                break
            blocks += encode_block_header(slave.sent, len(part)), bytes(part)
            slave.sent += len(part)
            slave.total += len(part)
        return blocks


async def _send_all(transport: Transport, buffers: list[Buffer]) -> None:
    while buffers:
        await transport.send_some(buffers)
