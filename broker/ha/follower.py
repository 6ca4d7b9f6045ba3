"""A slave broker: the addresses of its master, and the services that copy it (Java `BrokerController`, role
SLAVE).

The name server reports the addresses of the master with each registration; haMasterAddress overrides the
replication address. A master that disappears is still followed until another one is reported: the slave keeps
serving its data, and resumes copying when the master is back.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

from rmqcli.broker.config.inner_account import own_signer
from rmqcli.broker.context import BrokerContext
from rmqcli.broker.ha.deletions import Deletions
from rmqcli.broker.ha.peer import MasterPeer
from rmqcli.broker.ha.slave import Seat, Slave
from rmqcli.broker.ha.tables import TableCopies
from rmqcli.broker.net.network import Network
from rmqcli.broker.net.peers import Peers
from rmqcli.broker.supervisor import Services, Supervisor
from rmqcli.codec.headers.routes import RegisterBrokerResponseHeader

SHORTEST_ADDRESS: Final = 6
"""Minimum length of haMasterAddress; Java ignores a shorter one."""


class Follower:
    """Copies the master of `broker` while its services run."""

    def __init__(
        self,
        broker: BrokerContext,
        network: Network,
        supervisor: Supervisor | None,
        tls: Callable[[], ssl.SSLContext | None],
    ) -> None:
        self._broker = broker
        signer = own_signer(broker.config)
        self._peers = Peers("replication", network=network, supervisor=supervisor, tls=tls, signer=signer)
        self._ha_address: str | None = None
        self._address: str | None = None
        self.tables = TableCopies(
            broker.topics,
            broker.groups,
            broker.offsets,
            broker.delay_offsets,
            broker.files,
            lambda: None if self._address is None else MasterPeer(self._peers, self._address),
            Deletions(broker.store, broker.offsets, lambda: not self.slave.progress.trouble),
            broker.timers,
        )
        self.slave = broker.slave = Slave(
            broker.store,
            self._seat,
            lambda address: MasterPeer(self._peers, address),
            network,
            tls=lambda: tls() if broker.config.ha_tls_enable else None,
            report_ms=lambda: broker.config.ha_send_heartbeat_interval,
            silence_ms=lambda: broker.config.ha_housekeeping_interval,
            connected=self.tables.want,
        )

    def learn(self, told: RegisterBrokerResponseHeader) -> None:
        """Adopt the addresses in the reply of a name server, if it knows a master."""
        before = self._ha_address, self._address
        self._ha_address = told.ha_server_addr or self._ha_address
        self._address = told.master_addr or self._address
        if before != (self._ha_address, self._address):
            self.slave.look_again()

    def _seat(self) -> Seat | None:
        given = self._broker.config.ha_master_address or ""
        address = given if len(given) >= SHORTEST_ADDRESS else self._ha_address
        return None if address is None else Seat(address, self._address)

    async def start(self, services: Services) -> None:
        """Start the services."""
        self._broker.store.add_arrival_listener(self.tables.arrived)
        await services.nursery.start(self._peers.run)
        services.start("copy of the log", self.slave.run)
        services.start("copy of the tables", self.tables.run)
