"""`rmq controller`."""

from __future__ import annotations

from rmqcli.commands.controller.app import app as app

VERBS = ("status", "replicas", "elect", "clean", "config")
