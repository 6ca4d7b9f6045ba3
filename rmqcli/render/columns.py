"""Columns that several tables share: one title and one JSON name for each concept."""

from __future__ import annotations

from rmqcli.render.table import Column

BROKER = Column("BROKER", "brokerName", whole=True)
CLIENT = Column("CLIENT", "clientId", whole=True, legend=True)
GROUP = Column("GROUP", "group", whole=True)
LAG = Column("LAG", "lag", lambda lag: "?" if lag is None else str(lag), number=True)
"""The messages behind; TSV and JSON have nothing and null where that is unknown."""
LAG_UNKNOWN = Column("LAG UNKNOWN", "lagUnknown")
MAX = Column("MAX", "maxOffset", number=True)
MESSAGES = Column("MESSAGES", "messages", number=True)
NAME_SERVER = Column("NAME SERVER", "nameServer", whole=True)
QUEUE = Column("QUEUE", "queueId", number=True)
QUEUES = Column("QUEUES", "queues", number=True)
USER = Column("USER", "user", whole=True)
TOPIC = Column("TOPIC", "topic", whole=True, legend=True)
