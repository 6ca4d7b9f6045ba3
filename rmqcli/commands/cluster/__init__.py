"""`rmq cluster`."""

from __future__ import annotations

from rmqcli.commands.cluster.app import app as app

MODULES = ("members", "state")
