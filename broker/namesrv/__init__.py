"""The name server: brokers, the routes of their topics, and key-value entries."""

from __future__ import annotations

from rmqcli.broker.namesrv.node import NameServer, open_name_server

__all__ = ["NameServer", "open_name_server"]
