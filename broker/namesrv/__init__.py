"""The name server: who the brokers are, and which topics they have."""

from __future__ import annotations

from broker.namesrv.node import NameServer, open_name_server

__all__ = ["NameServer", "open_name_server"]
