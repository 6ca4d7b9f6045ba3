"""`rmq topic list`, `describe`, `route`, `stats` and `top`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.common.watching import WatchOption, watchable, watched
from rmqcli.commands.topic.app import AllTopicsOption, app, perm_text

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.codec.bodies.config import TopicConfig
    from rmqcli.codec.bodies.stats import TopicOffset
    from rmqcli.codec.message_queue import MessageQueue
    from rmqcli.plans.topics import TopicRate, TopicTotal

LongOption = Annotated[bool, Option("--long", help="Show the settings of each topic on each broker.")]

_EMPTY = "no topics; create one with: rmq topic create NAME"


@command(
    app,
    "list",
    example="rmq topic list\nrmq topic list --long\nrmq topic list --all --json",
    rows=Rows.LIST,
)
@watchable
def list_topics(settings: Settings, everything: AllTopicsOption = False, long: LongOption = False) -> None:
    """List topics.

    Piped output with --long: topic, broker, read queues, write queues, permission, order, message type (5.x).
    Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.plans.topics import listed_topics
    from rmqcli.render import show_rows
    from rmqcli.render.table import TOPIC

    if long:
        _show_settings(settings, everything=everything)
        return
    names = with_admin(settings, lambda admin: listed_topics(admin, everything=everything))
    show_rows(settings, [TOPIC], [[name] for name in names], empty=_EMPTY)


def _show_settings(settings: Settings, *, everything: bool) -> None:
    from rmqcli.plans.topics import listed_topics, topic_settings
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER, TOPIC

    columns = [
        TOPIC,
        BROKER,
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
        Column("ORDER", "order"),
        Column("TYPE", "messageType"),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[tuple[str, TopicConfig]]:
        topics = await listed_topics(admin, everything=everything)
        return await topic_settings(admin, topics, failures)

    rows = [
        [
            config.topic_name,
            broker,
            config.read_queue_nums,
            config.write_queue_nums,
            config.perm,
            config.order,
            (config.attributes or {}).get("message.type"),
        ]
        for broker, config in with_admin(settings, main)
    ]
    show_rows(settings, columns, rows, empty=_EMPTY)
    end_partly(failures)


@command(
    app,
    "describe",
    example="rmq topic describe orders",
    rows=Rows.LIST,
)
def describe(topic: TopicArgument, settings: Settings) -> None:
    """Show the settings of a topic on each broker, and its consumer groups.

    Piped output: broker, read queues, write queues, permission, order, messages, groups, attributes (5.x).
    Brokers that do not respond are reported, and the exit code is 3.
    """
    from rmqcli.client.admin.values import stored
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER, MESSAGES

    columns = [
        BROKER,
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
        Column("ORDER", "order"),
        MESSAGES,
        Column("GROUPS", "groups"),
        Column("ATTRIBUTES", "attributes"),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[list[Any]]:
        configs = await admin.topics.settings(topic, failures=failures)
        stats = await admin.topics.stats(topic, failures=failures)
        groups = await admin.topics.groups(topic, failures=failures)
        kept = {
            name: stored({queue: ends for queue, ends in stats.items() if queue.broker_name == name})
            for name in configs
        }
        return [
            [
                name,
                c.read_queue_nums,
                c.write_queue_nums,
                c.perm,
                c.order,
                kept[name],
                groups,
                _attributes(c),
            ]
            for name, c in sorted(configs.items())
        ]

    show_rows(settings, columns, with_admin(settings, main))
    end_partly(failures)


def _attributes(config: TopicConfig) -> list[str]:
    return [f"{name}={value}" for name, value in sorted((config.attributes or {}).items())]


@command(
    app,
    "route",
    example="rmq topic route orders --json",
    rows=Rows.DOCUMENT,
)
def route(topic: TopicArgument, settings: Settings) -> None:
    """Show the brokers, addresses and queues of a topic.

    Piped output: cluster, broker, ID (0 is the master), address, read queues, write queues, permission.
    """
    from rmqcli.render import Column, Output, show_rows
    from rmqcli.render.table import BROKER

    columns = [
        Column("CLUSTER", "cluster"),
        BROKER,
        Column("ID", "brokerId", number=True),
        Column("ADDRESS", "address", whole=True),
        Column("READ", "readQueueNums", number=True),
        Column("WRITE", "writeQueueNums", number=True),
        Column("PERM", "perm", perm_text),
    ]

    found = with_admin(settings, lambda admin: admin.topics.route(topic))
    if settings.json:
        import msgspec

        Output().json(msgspec.to_builtins(found, str_keys=True))
        return
    queues = {data.broker_name: data for data in found.queue_datas}
    rows = [
        [
            broker.cluster,
            broker.broker_name,
            number,
            address,
            *(
                (q.read_queue_nums, q.write_queue_nums, q.perm)
                if (q := queues.get(broker.broker_name))
                else (0, 0, 0)
            ),
        ]
        for broker in sorted(found.broker_datas, key=lambda data: (data.cluster or "", data.broker_name))
        for number, address in sorted(broker.broker_addrs.items())
    ]
    show_rows(settings, columns, rows)


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
    ms); without TOPIC: topic, brokers, queues, messages, time of the last message, timer messages that wait
    for it, and on standard error their sums. Brokers that do not respond are reported, and the exit code
    is 3.
    """
    if topic is None:
        _show_all(settings, everything=everything)
    elif everything:
        raise usage_error("--all and TOPIC cannot be combined")
    else:
        _show_queues(settings, topic)


def _show_queues(settings: Settings, topic: str) -> None:
    from rmqcli.plans.topics import timers_of
    from rmqcli.render import Column, show_rows
    from rmqcli.render.output import note
    from rmqcli.render.table import BROKER, MAX, MESSAGES, QUEUE
    from rmqcli.render.text import age, local_time, many

    columns = [
        BROKER,
        QUEUE,
        Column("MIN", "minOffset", number=True),
        MAX,
        MESSAGES,
        Column("LAST MESSAGE", "lastUpdateTimestamp", local_time, brief=age),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> tuple[dict[MessageQueue, TopicOffset], int | None]:
        found = await admin.topics.stats(topic, failures=failures)
        masters = await admin.topics.masters(topic)
        return found, (await timers_of(admin, failures, masters))(topic)

    found, waiting = with_admin(settings, main)
    rows = [
        [
            q.broker_name,
            q.queue_id,
            o.min_offset,
            o.max_offset,
            o.max_offset - o.min_offset,
            o.last_update_timestamp,
        ]
        for q, o in found.items()
    ]
    show_rows(settings, columns, rows)
    if waiting:
        note(f"{many(waiting, 'timer message')} waiting for {topic}")
    end_partly(failures)


def _show_all(settings: Settings, *, everything: bool) -> None:
    from rmqcli.plans.topics import listed_topics, topic_totals
    from rmqcli.render import Column, show_rows
    from rmqcli.render.output import note
    from rmqcli.render.table import MESSAGES, QUEUES, TOPIC
    from rmqcli.render.text import age, local_time, many

    columns = [
        TOPIC,
        Column("BROKERS", "brokers", number=True),
        QUEUES,
        MESSAGES,
        Column("LAST MESSAGE", "lastUpdateTimestamp", local_time, brief=age),
        Column("TIMERS", "timers", number=True),
    ]
    failures: Failures = {}

    async def main(admin: Admin) -> list[TopicTotal]:
        return await topic_totals(admin, await listed_topics(admin, everything=everything), failures)

    found = with_admin(settings, main)
    show_rows(settings, columns, found)
    queues, messages = sum(one.queues for one in found), sum(one.messages for one in found)
    note(f"{many(len(found), 'topic')}, {many(queues, 'queue')}, {many(messages, 'message')}")
    end_partly(failures)


TopicsArgument = Annotated[
    list[str] | None, Argument(metavar="TOPIC", help="Names of topics; default: all that applications use.")
]
ActiveOption = Annotated[bool, Option("--active", help="Show only topics with messages in the last minute.")]
RowsOption = Annotated[int | None, Option("--count", "-c", metavar="N", min=1, help="Show at most N lines.")]


@command(
    app,
    "top",
    example="rmq topic top\nrmq topic top --active -c 10 --watch=5\nrmq topic top orders --json",
    rows=Rows.LIST,
)
def top(
    settings: Settings,
    topics: TopicsArgument = None,
    active: ActiveOption = False,
    count: RowsOption = None,
    watch: WatchOption = None,
) -> None:
    """Show the rates and totals of topics by group, the busiest first.

    Rates are messages per second over the last minute; totals cover the last 24 hours. Brokers count from
    their start. Piped output: topic, group, lag, messages in per second, out per second, in and out in 24
    hours. Brokers that do not respond are reported, and the exit code is 3.
    """
    watched(settings, watch, lambda: _show(settings, topics or [], active, count))


def _show(settings: Settings, topics: list[str], active: bool, count: int | None) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import GROUP, LAG, TOPIC
    from rmqcli.render.text import short_number

    failures: Failures = {}
    columns = [
        TOPIC,
        GROUP,
        LAG,
        Column("IN/S", "inTps", short_number, number=True),
        Column("OUT/S", "outTps", short_number, number=True),
        Column("IN 24H", "inTotal24h", short_number, number=True),
        Column("OUT 24H", "outTotal24h", short_number, number=True),
    ]
    found = with_admin(settings, lambda admin: _read(admin, topics, failures))
    rows = [row[: len(columns)] for row in found if row.is_active or not active][:count]
    show_rows(settings, columns, rows, empty="no active topics" if active else "no topics")
    end_partly(failures)


async def _read(admin: Admin, topics: list[str], failures: Failures) -> list[TopicRate]:
    from rmqcli.plans.topics import application_topics, topic_rates

    for topic in topics:
        await admin.topics.route(topic)  # not found is an error only if it is named
    if not topics:
        topics = application_topics(await admin.topics.names(), await admin.brokers.cluster_info())
    return await topic_rates(admin, topics, failures)
