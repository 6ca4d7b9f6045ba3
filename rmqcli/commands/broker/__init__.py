"""`rmq broker`."""

from __future__ import annotations

from rmqcli.commands.broker.app import app as app

MODULES = (
    "run",
    "status",
    "lag",
    "ping",
    "drain",
    "config_show",
    "config_set",
    "config_diff",
    "clean",
    "ha",
    "cold",
    "rocksdb",
    "container",
)
