"""`rmq inspect`: store files without a broker. Its commands are in several files, in the order in which help shows them."""

from __future__ import annotations

from rmqcli.commands import inspect_log, inspect_queues, inspect_store, inspect_index  # isort: skip  # noqa: F401
from rmqcli.commands import inspect_tables, inspect_pending, inspect_repair  # isort: skip  # noqa: F401
from rmqcli.commands._inspecting import app

__all__ = ["app"]
