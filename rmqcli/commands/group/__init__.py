"""`rmq group`."""

from __future__ import annotations

from rmqcli.commands.group.app import app as app

MODULES = (
    "list",
    "describe",
    "settings",
    "create",
    "update",
    "apply",
    "mode",
    "delete",
    "clients",
    "status",
    "check",
    "deliver",
)
