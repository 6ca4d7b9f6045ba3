"""`rmq acl`."""

from __future__ import annotations

from rmqcli.commands.acl.app import app as app

MODULES = ("list", "check", "accounts", "users", "policies", "copying")
