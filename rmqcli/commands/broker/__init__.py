"""`rmq broker`."""

from __future__ import annotations

from rmqcli.commands.broker.app import app as app

MODULES = ("run", "watch", "maintain", "config", "ha")
