"""`rmq bench`."""

from __future__ import annotations

from rmqcli.commands.bench.app import app as app

VERBS = ("send", "consume", "e2e")
