"""`rmq spark`."""

from __future__ import annotations

from rmqcli.commands.spark.app import app as app

VERBS = ("package",)
