"""`rmq query`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import warn_of_clocks, with_admin
from rmqcli.commands.common.messages import Conditions, Form
from rmqcli.commands.common.outcome import end_partly
from rmqcli.render.output import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqcli.client import Admin, QueryResult
    from rmqcli.client.admin.messages import Track
    from rmqcli.codec.message import MessageExt
    from rmqcli.grammar.offset_range import OffsetRange

    TrackedMessage = tuple[MessageExt, Track]

app = single_command()

KeyOption = Annotated[str | None, Option("--key", "-k", metavar="KEY", help="Find messages with this key.")]
IdOption = Annotated[
    str | None, Option("--id", metavar="ID", help="Find the message with this ID (msgId or offsetMsgId).")
]
TimeOption = Annotated[
    str, Option("--time", metavar="@T1:@T2", help="With --key: store time, e.g. @-1h or @T1:@T2.")
]
CountOption = Annotated[
    int,
    Option("--count", "-c", metavar="N", min=1, max=1024, help="With --key: at most N messages, the newest."),
]


AllOption = Annotated[
    bool, Option("--all-topics", help="With --id of a unique ID: look in every topic, not only in TOPIC.")
]
FailEmptyOption = Annotated[
    bool,
    Option(
        "--fail-empty",
        show_default=False,
        help="End with exit code 4 if there is no message to show; this is always the case.",
    ),
]
TrackOption = Annotated[
    bool, Option("--track", help="Show which groups consumed the messages, instead of the messages.")
]
TopicArgument = Annotated[
    str | None,
    Argument(metavar="TOPIC", show_default=False, help="Name of the topic; not needed for an offset ID."),
]


@command(
    app,
    "query",
    example="""rmq query orders --key 42
rmq query orders --id 7F000001ABCD --json
rmq query orders --key 42 --track""",
    rows=Rows.LIST,
    panels={"Content": "--grep --fail-empty", "Bodies": "--raw --full --meta-only --max-body"},
)
def query(
    settings: Settings,
    topic: TopicArgument = None,
    *,
    key: KeyOption = None,
    msg_id: IdOption = None,
    all_topics: AllOption = False,
    time: TimeOption = "start",
    count: CountOption = 64,
    conditions: Conditions,
    track: TrackOption = False,
    fail_empty: FailEmptyOption = True,
    form: Form,
) -> None:
    """Find messages by key or message ID, using the index of the brokers.

    Exit code 4 if there is none, with and without --fail-empty. Messages are printed as by `rmq pull`. An
    offset message ID names its broker, so it needs no TOPIC; a unique ID does. --track compares the offset of
    each group with that of the message: CONSUMED, CONSUMED_BUT_FILTERED (by its tags), NOT_CONSUME_YET,
    NOT_ONLINE, PULL, CONSUME_BROADCASTING, UNKNOWN. A group that consumed the message by other means, or
    skipped it, has also passed it.
    """
    from rmqcli.grammar.offset_range import parse_range

    _check_question(topic, key, msg_id, all_topics=all_topics)
    span = parse_range(time, now_ms())
    warn_of_clocks(settings, time)
    if time != "start" and span.begin_time is None and span.end_time is None:
        raise usage_error(f"--time {time!r}: expected @T or @T1:@T2")
    if track and form != Form():
        raise usage_error("--track cannot be combined with forms of messages: it shows groups")
    accepts = conditions.test()
    render = form.renderer(settings)

    async def main(admin: Admin) -> tuple[QueryResult, list[MessageExt], list[TrackedMessage]]:
        found = await _ask(admin, topic, key, msg_id, count, span)
        chosen = [message for message in found.messages if accepts(message)]
        return found, chosen, await _tracked(admin, chosen) if track else []

    found, chosen, tracked = with_admin(settings, main)
    if track:
        _show_tracks(settings, tracked)
    else:
        _show_messages(chosen, render, topic)
    if found.may_be_more and key is not None:
        warn(_more(found.messages, count))
    end_partly(found.failures, done=bool(chosen))
    if fail_empty and not chosen:
        what = f"key {key}" if key is not None else f"ID {msg_id}"
        where = f"topic {topic}" if topic else "any topic" if all_topics else "its broker"
        how = f" meets the condition ({len(found.messages)} found)" if found.messages else ""
        raise CommandError(f"no message with {what} in {where}{how}", ExitCode.NOT_FOUND)


def _check_question(topic: str | None, key: str | None, msg_id: str | None, *, all_topics: bool) -> None:
    if (key is None) == (msg_id is None):
        raise usage_error("specify either --key or --id")
    if all_topics and (topic is not None or msg_id is None):
        raise usage_error("--all-topics looks for an --id in place of TOPIC")
    if topic is not None or all_topics:
        return
    if msg_id is None:
        raise usage_error("--key requires TOPIC: the index holds keys by topic")
    from rmqcli.client.admin.messages import offset_id_address

    if offset_id_address(msg_id) is None:
        raise usage_error(
            f"--id {msg_id}: only an offset ID names its broker; specify TOPIC, or --all-topics to look in all"
        )


async def _ask(
    admin: Admin, topic: str | None, key: str | None, msg_id: str | None, count: int, span: OffsetRange
) -> QueryResult:
    from rmqcli.client import NotFound, QueryResult
    from rmqcli.client.admin.messages import offset_id_address

    if topic is not None and msg_id is not None:
        return await admin.messages.query_by_id(topic, msg_id)
    if topic is not None:
        return await admin.messages.query_by_key(topic, key or "", max_num=count, **_bounds(span))
    if offset_id_address(msg_id or "") is None:
        return await admin.messages.query_everywhere(msg_id or "")
    try:
        return QueryResult(await admin.messages.view_all(msg_id or ""), {})
    except NotFound:
        return QueryResult((), {})


async def _tracked(admin: Admin, messages: Sequence[MessageExt]) -> list[TrackedMessage]:
    from rmqcli.client.admin.messages import tracks

    return [(message, track) for message in messages for track in await tracks(admin, message)]


def _show_tracks(settings: Settings, tracked: Sequence[TrackedMessage]) -> None:
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER, GROUP, QUEUE

    columns = (
        GROUP,
        Column("STATE", "state"),
        BROKER,
        QUEUE,
        Column("OFFSET", "queueOffset", number=True),
        Column("GROUP AT", "consumerOffset", number=True),
        Column("MESSAGE ID", "msgId", whole=True),
    )
    rows = [
        [
            *(track.group, track.state.value, message.broker_name, message.queue_id, message.queue_offset),
            *(track.consumer_offset, message.msg_id),
        ]
        for message, track in tracked
    ]
    show_rows(settings, columns, rows, empty="no group reads its topic")
    for _, track in tracked:
        if track.error is not None:
            warn(f"{track.group}: {track.error}")


def _show_messages(
    messages: Sequence[MessageExt], render: Callable[[MessageExt], bytes], topic: str | None
) -> None:
    from rmqcli.render import Output

    output = Output()
    for message in messages:
        if topic is not None and message.topic != topic:
            warn(f"{message.msg_id} belongs to topic {message.topic}")
        output.write(render(message))


def _more(messages: Sequence[MessageExt], count: int) -> str:
    """Note how to see the matches that a limit cut off. Brokers return the newest matches first."""
    from rmqcli.client.admin.messages import BROKER_MAX
    from rmqcli.render.text import many

    shown = f"{many(len(messages), 'message')} shown, the newest; there may be more"
    wider = f"a larger --count (at most {BROKER_MAX} of each broker), or " if count < BROKER_MAX else ""
    earlier = f"--time @:{messages[0].store_timestamp + 1} for older ones" if messages else "--time @T1:@T2"
    return f"{shown}: use {wider}{earlier}"


def _bounds(span: OffsetRange) -> dict[str, int]:
    end = {} if span.end_time is None else {"end": span.end_time - 1}
    return {"begin": span.begin_time or 0} | end
