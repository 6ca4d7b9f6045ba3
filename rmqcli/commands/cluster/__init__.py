"""`rmq cluster`."""

from __future__ import annotations

from rmqcli.commands.cluster.app import app as app

MODULES = ("list", "producers", "dump", "diff", "apply")
