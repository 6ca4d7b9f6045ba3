"""`rmq offsets`."""

from __future__ import annotations

from rmqcli.commands.offsets.app import app as app

MODULES = ("show", "change")
