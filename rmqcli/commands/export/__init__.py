"""`rmq export`."""

from __future__ import annotations

from rmqcli.commands.export.command import app as app
