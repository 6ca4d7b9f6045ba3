"""`rmq group`: consumer groups. The import order of its modules is the order in which help lists their commands."""

from __future__ import annotations

import rmqcli.commands.group.lag  # isort: skip
import rmqcli.commands.group.changes  # isort: skip
import rmqcli.commands.group.clients  # isort: skip  # noqa: F401
from rmqcli.commands.common.group_options import app

__all__ = ["app"]
