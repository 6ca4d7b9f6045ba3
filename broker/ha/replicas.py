"""The ends of the logs of slaves, and the wait of a send for them (Java `HAConnection`, `GroupTransferService`).

By default one slave is enough, as in 4.9: the high-water mark is the highest end that any of them ever
reported. The properties of 5.x ask for more: inSyncReplicas counts copies, the master's included; with
allAckInSyncStateSet the mark is that of the slowest slave in sync, that is connected and less than
haSlaveFallbehindMax behind; with fewer copies than minInSyncReplicas a send does not wait at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from broker.config import BrokerConfig
from broker.net.transport import Transport
from broker.store import MessageStore
from codec.codes import ResponseCode


@dataclass(slots=True, eq=False)
class Slave:
    """A connection of a slave. `acknowledged` is the end of its log as it was last reported, -1 before;
    `sent` the offset of the next byte to send, `total` all bytes that were sent since `begun`, trio's
    time.
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
        """Bytes a second that it got since it connected."""
        return round(self.total / max(trio.current_time() - self.begun, 1.0))


class Replicas:
    """The connected slaves. `highest` is the highest end that any of them has reported, ever."""

    def __init__(self, config: Callable[[], BrokerConfig], store: MessageStore) -> None:
        self._config = config
        self._store = store
        self._progress = trio.Event()
        self.slaves: list[Slave] = []
        self.highest = 0

    def add(self, slave: Slave) -> None:
        self.slaves.append(slave)

    def remove(self, slave: Slave) -> None:
        """Forget a slave that is gone, if it was there: nobody waits for it any more."""
        if slave in self.slaves:
            self.slaves.remove(slave)
            self._wake()

    def note(self, slave: Slave, end: int) -> None:
        """Note the end of a slave's log."""
        slave.acknowledged = end
        self.highest = max(self.highest, end)
        self._wake()

    def in_sync(self) -> list[Slave]:
        """Return the slaves that have reported, and are less than haSlaveFallbehindMax behind."""
        least = max(self._store.commit_log_max_offset - self._config().ha_slave_fallbehind_max, -1)
        return [slave for slave in self.slaves if slave.acknowledged > least]

    async def replicated(self, end: int) -> ResponseCode:
        """SUCCESS once as many slaves as the configuration asks for have the log up to `end`.

        FLUSH_SLAVE_TIMEOUT after slaveTimeout; SLAVE_NOT_AVAILABLE at once without enough slaves in sync.
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
