"""`rmq inspect`: store files without a broker. The import order of its modules is the order in which help lists their commands."""

from __future__ import annotations

import rmqcli.commands.inspect.commit_log  # isort: skip
import rmqcli.commands.inspect.consume_queue  # isort: skip
import rmqcli.commands.inspect.store  # isort: skip
import rmqcli.commands.inspect.index  # isort: skip
import rmqcli.commands.inspect.tables  # isort: skip
import rmqcli.commands.inspect.pending  # isort: skip
import rmqcli.commands.inspect.repair  # isort: skip  # noqa: F401
from rmqcli.commands.common.inspecting import app

__all__ = ["app"]
