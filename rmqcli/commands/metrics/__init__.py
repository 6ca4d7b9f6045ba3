"""`rmq metrics`."""

from __future__ import annotations

from rmqcli.commands.metrics.app import app as app

VERBS = ("serve", "show")
