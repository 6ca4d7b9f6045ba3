"""`rmq topic`."""

from __future__ import annotations

from rmqcli.commands.topic.app import app as app

MODULES = ("show", "entries", "allocate", "change", "order")
