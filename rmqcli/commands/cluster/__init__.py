"""`rmq cluster`. The order of the imports is the order in help."""

from __future__ import annotations

import rmqcli.commands.cluster.list  # isort: skip
import rmqcli.commands.cluster.producers  # isort: skip  # noqa: F401
from rmqcli.commands.cluster.app import app

__all__ = ["app"]
