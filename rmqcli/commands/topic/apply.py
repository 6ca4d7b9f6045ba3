"""`rmq topic apply`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters, YesOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.applying import FileOption, apply_file
from rmqcli.commands.common.properties import DryRunOption
from rmqcli.commands.topic.app import app


@command(
    app,
    "apply",
    example="rmq topic apply --file topics.yaml --dry-run\nrmq topic apply --file topics.json --yes",
    rows=Rows.DOCUMENT,
)
def apply(
    settings: Settings,
    file: FileOption,
    masters: Masters,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Create and change topics as a file lists them.

    The file is a JSON or YAML list of objects with Java's names (topicName, readQueueNums, writeQueueNums,
    perm, order, attributes), as mqadmin's updateTopicList reads it; name, queues and a perm such as rw work,
    too. What an entry does not name stays as it is; nothing is deleted. Shows the plan and asks for
    confirmation; without a terminal, --yes is required. Piped output: topic, broker, create, change or same,
    changes. Exit code 3 if some brokers did not apply it.
    """
    from rmqcli.flows.desired import TOPICS

    apply_file(settings, TOPICS, file, masters, dry_run=dry_run, yes=yes)
