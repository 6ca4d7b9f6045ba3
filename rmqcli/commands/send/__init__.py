"""`rmq send`."""

from __future__ import annotations

from rmqcli.commands.send.command import app as app
