"""`rmq check`."""

from __future__ import annotations

from rmqcli.commands.check.app import app as app

VERBS = ("lag", "brokers", "disk", "dlq", "stuck", "send")
