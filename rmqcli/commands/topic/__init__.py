"""`rmq topic`."""

from __future__ import annotations

from rmqcli.commands.topic.app import app as app

MODULES = (
    "list",
    "describe",
    "route",
    "stats",
    "top",
    "entries",
    "allocate",
    "create",
    "update",
    "apply",
    "delete",
    "order",
    "static",
)
