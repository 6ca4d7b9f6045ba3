"""`rmq acl`."""

from __future__ import annotations

from rmqcli.commands.acl.app import app as app

MODULES = ("accounts", "users", "policies")
