"""`rmq offsets`. Help lists the commands in the order of these imports."""

from __future__ import annotations

import rmqcli.commands.offsets.show  # isort: skip
import rmqcli.commands.offsets.reset  # isort: skip
import rmqcli.commands.offsets.clone  # isort: skip  # noqa: F401
from rmqcli.commands.offsets.app import app as app
