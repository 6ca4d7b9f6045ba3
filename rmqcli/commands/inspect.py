"""`rmq inspect`: store files without a broker. Its commands are in three files, in the order in which help shows them."""

from __future__ import annotations

from rmqcli.commands import inspect_files, inspect_store, inspect_repair  # isort: skip  # noqa: F401
from rmqcli.commands._inspecting import app

__all__ = ["app"]
