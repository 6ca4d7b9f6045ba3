"""`rmq inspect`: store files without a broker."""

from __future__ import annotations

from rmqcli.commands.inspect.app import app as app

MODULES = ("commitlog", "queues", "store", "index", "tables", "timers", "transactions", "rocksdb", "repair")
