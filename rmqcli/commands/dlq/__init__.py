"""`rmq dlq`: dead letters."""

from __future__ import annotations

from rmqcli.commands.dlq.app import app as app

MODULES = ("show", "redrive")
