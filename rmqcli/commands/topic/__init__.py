"""`rmq topic`. Help lists the commands in the order of these imports."""

from __future__ import annotations

import rmqcli.commands.topic.list  # isort: skip
import rmqcli.commands.topic.describe  # isort: skip
import rmqcli.commands.topic.route  # isort: skip
import rmqcli.commands.topic.stats  # isort: skip
import rmqcli.commands.topic.create  # isort: skip
import rmqcli.commands.topic.update  # isort: skip
import rmqcli.commands.topic.delete  # isort: skip  # noqa: F401
from rmqcli.commands.topic.app import app as app
