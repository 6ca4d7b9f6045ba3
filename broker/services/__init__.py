"""What a broker does without being asked: held pulls, delayed messages, saving, client liveness, statistics."""

from __future__ import annotations

from broker.services.announcer import Announcer
from broker.services.clients import client_closed, expire_clients, notify_group, watch_clients
from broker.services.holds import Hold, Holds
from broker.services.statistics import Statistics
from broker.services.store_rates import StoreRates
from broker.services.table_files import TableFiles

__all__ = [
    "Announcer",
    "Hold",
    "Holds",
    "Statistics",
    "StoreRates",
    "TableFiles",
    "client_closed",
    "expire_clients",
    "notify_group",
    "watch_clients",
]
