"""`rmq topic stats`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.topic.app import app


@command(app, "stats", example="rmq topic stats orders")
def stats(topic: TopicArgument, settings: Settings) -> None:
    """Show the offsets of each queue, and the time of its last message.

    Piped output: broker, queue, minimum offset, maximum offset, messages, time of the last message (epoch
    ms). Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER, MAX, MESSAGES, QUEUE
    from rmqcli.render.text import local_time

    columns = [
        BROKER,
        QUEUE,
        Column("MIN", "minOffset", number=True),
        MAX,
        MESSAGES,
        Column("LAST MESSAGE", "lastUpdateTimestamp", local_time),
    ]
    failures: Failures = {}
    rows = [
        [
            q.broker_name,
            q.queue_id,
            o.min_offset,
            o.max_offset,
            o.max_offset - o.min_offset,
            o.last_update_timestamp,
        ]
        for q, o in with_admin(settings, lambda admin: admin.topics.stats(topic, failures=failures)).items()
    ]
    show_rows(settings, columns, rows)
    end_partly(failures)
