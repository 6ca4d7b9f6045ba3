"""`rmq inspect`: store files without a broker."""

from __future__ import annotations

from rmqcli.commands.inspect.app import app as app

MODULES = (
    "commitlog",
    "consumequeue",
    "store",
    "checkpoint",
    "index",
    "offsets",
    "topics",
    "groups",
    "delay",
    "transactions",
    "rocksdb",
    "verify",
    "rebuild",
    "salvage",
)
