"""`rmq topic stats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import watchable
from rmqcli.commands.topic.app import AllTopicsOption, app

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.flows.topic_totals import TopicTotal

AnyTopicArgument = Annotated[
    str | None, Argument(metavar="[TOPIC]", help="Name of the topic; default: the totals of all topics.")
]


@command(
    app,
    "stats",
    example="rmq topic stats orders\nrmq topic stats | sort -k 4 -n",
    rows=Rows.LIST,
)
@watchable
def stats(settings: Settings, topic: AnyTopicArgument = None, everything: AllTopicsOption = False) -> None:
    """Show the offsets of each queue of a topic, or the totals of all topics.

    Piped output: broker, queue, minimum offset, maximum offset, messages, time of the last message (epoch
    ms); without TOPIC: topic, brokers, queues, messages, time of the last message, and on standard error
    their sums. Brokers that do not respond are reported, and the exit code is 3.
    """
    if topic is None:
        _show_all(settings, everything=everything)
    elif everything:
        raise usage_error("--all and TOPIC cannot be combined")
    else:
        _show_queues(settings, topic)


def _show_queues(settings: Settings, topic: str) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import BROKER, MAX, MESSAGES, QUEUE
    from rmqcli.render.text import age, local_time

    columns = [
        BROKER,
        QUEUE,
        Column("MIN", "minOffset", number=True),
        MAX,
        MESSAGES,
        Column("LAST MESSAGE", "lastUpdateTimestamp", local_time, brief=age),
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


def _show_all(settings: Settings, *, everything: bool) -> None:
    from rmqcli.flows.topic_totals import listed_topics, topic_totals
    from rmqcli.render import Column, show_rows
    from rmqcli.render.columns import MESSAGES, QUEUES, TOPIC
    from rmqcli.render.output import note
    from rmqcli.render.text import age, local_time, many

    columns = [
        TOPIC,
        Column("BROKERS", "brokers", number=True),
        QUEUES,
        MESSAGES,
        Column("LAST MESSAGE", "lastUpdateTimestamp", local_time, brief=age),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[TopicTotal]:
        return await topic_totals(admin, await listed_topics(admin, everything=everything), failures)

    found = with_admin(settings, main)
    show_rows(settings, columns, found)
    queues, messages = sum(one.queues for one in found), sum(one.messages for one in found)
    note(f"{many(len(found), 'topic')}, {many(queues, 'queue')}, {many(messages, 'message')}")
    end_partly(failures)
