"""`rmq group`: consumer groups. Its commands are in three files, in the order in which help shows them."""

from __future__ import annotations

from rmqcli.commands import group_lag, group_changes, group_clients  # isort: skip  # noqa: F401
from rmqcli.commands._grouping import app

__all__ = ["app"]
