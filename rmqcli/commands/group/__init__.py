"""`rmq group`. Help lists the commands in the order of these imports."""

from __future__ import annotations

import rmqcli.commands.group.list  # isort: skip
import rmqcli.commands.group.describe  # isort: skip
import rmqcli.commands.group.settings  # isort: skip
import rmqcli.commands.group.create  # isort: skip
import rmqcli.commands.group.update  # isort: skip
import rmqcli.commands.group.delete  # isort: skip
import rmqcli.commands.group.clients  # isort: skip
import rmqcli.commands.group.status  # isort: skip
import rmqcli.commands.group.deliver  # isort: skip  # noqa: F401
from rmqcli.commands.group.app import app as app
