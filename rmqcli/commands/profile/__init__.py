"""`rmq profile`: named clusters."""

from __future__ import annotations

from rmqcli.commands.profile.app import app as app

VERBS = ("add", "edit", "set", "use", "current", "show", "test", "list", "import_", "remove")
