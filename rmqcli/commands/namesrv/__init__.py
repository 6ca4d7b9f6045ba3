"""`rmq namesrv`."""

from __future__ import annotations

from rmqcli.commands.namesrv.app import app as app

VERBS = ("run", "config", "kv")
