"""`rmq mirror`."""

from __future__ import annotations

from rmqcli.commands.mirror.command import app as app
