"""`rmq group`."""

from __future__ import annotations

from rmqcli.commands.group.app import app as app

MODULES = ("show", "change", "delivery")
