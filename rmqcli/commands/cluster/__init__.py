"""`rmq cluster`. Help lists the commands in the order of these imports."""

from __future__ import annotations

import rmqcli.commands.cluster.list  # isort: skip
import rmqcli.commands.cluster.producers  # isort: skip  # noqa: F401
from rmqcli.commands.cluster.app import app as app
