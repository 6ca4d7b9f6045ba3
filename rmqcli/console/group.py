"""The views of a group (its lag, owners, clients, and the doctor's findings) and of its dead letters."""

from __future__ import annotations

from rmqcli.client import ClientError, NotFound
from rmqcli.client.admin.values import BROADCASTING
from rmqcli.codec.codes import ResponseCode
from rmqcli.codec.message_queue import MessageQueue
from rmqcli.codec.names import dlq_topic
from rmqcli.codec.versions import version_name
from rmqcli.console.messages import MAX_MESSAGES, Wanted, find, message_address
from rmqcli.console.overview import TREND, trend
from rmqcli.console.view import MAX_ROWS, Console, View, address, commands, topic_cell
from rmqcli.dead_letters.letter import origin_topic
from rmqcli.doctor.finding import Status
from rmqcli.doctor.group_facts import Members, is_divided, members_of, owners_of, waiting_in
from rmqcli.doctor.members import judged
from rmqcli.doctor.progress import standing_still
from rmqcli.render.text import duration, one_line
from rmqcli.report import cells
from rmqcli.report.page import Block, Cell, Heading, Section, Table, Text, Tile, attention
from rmqcli.top.board import Row


async def _members(console: Console, name: str) -> Members:
    failures: dict[str, ClientError] = {}
    tables = await console.admin.groups.all_settings(failures=failures)
    found = await members_of(console.admin, name, failures, tables)
    if found.connection is None and not (found.offsets or found.settings):
        await console.admin.groups.check_known(name, failures)
    return found


async def group(console: Console, name: str) -> View:
    """Return the view. Raise ClientError, which is NotFound for an unknown group."""
    await console.live.poll()
    found = await console.readings.get(("group", name), lambda: _members(console, name))
    findings = attention([one for one in judged(found) if one.status in (Status.WARN, Status.FAIL)])
    row = next((one for one in console.live.boards["groups"].rows if one.name == name), None)
    sections = [_topics(console, found), _queues(found), _clients(found), _commands(console, found)]
    facts = [("Dead letters", Cell("show", href=address("/dead-letters", group=name)))]
    if found.connection is not None:
        model, kind = found.connection.message_model, found.connection.consume_type
        facts = [("Model", cells.text(str(model or "–"))), ("Type", cells.text(str(kind or "–"))), *facts]
    return View("Group", name, facts, tiles=_tiles(found, row), findings=findings, sections=sections)


def _tiles(found: Members, row: Row | None) -> list[Tile]:
    clients = 0 if found.connection is None else len(found.connection.connection_set)
    lag = sum(waiting_in(one) for one in found.offsets.values())
    stuck = standing_still(found)
    trending = [cells.NOTHING] * 3 if row is None else trend(row)
    return [
        Tile(
            "Lag",
            cells.number(lag) if is_divided(found) else Cell("unknown", BROADCASTING, "warn"),
            "messages",
        ),
        Tile("Change/s", trending[1], "of the lag, last minute"),
        Tile("To zero", trending[2], "at this rate"),
        Tile(
            "Clients",
            Cell(f"{clients:,}", kind="warn" if lag and not clients else "ok"),
            f"{len(found.silent):,} silent",
        ),
        Tile("Stuck queues", Cell(f"{len(stuck):,}", kind="fail" if stuck else "ok"), "not moved for 30 s"),
    ]


def _topics(console: Console, found: Members) -> Section:
    rows = [row for row in console.live.boards["topics"].rows if row.group == found.group]
    headings = [
        Heading("Topic"),
        *cells.numbers("Lag", "Out/s"),
        *TREND,
    ]
    table = [
        [topic_cell(row.name), cells.number(row.figure), cells.rate(row.rate_out), *trend(row)]
        for row in sorted(rows, key=lambda row: (-(row.figure or 0), row.name))[:MAX_ROWS]
    ]
    return Section(
        "Topics", [Table(headings, table)] if table else [Text("None with an offset or a client.")]
    )


def _queues(found: Members) -> Section:
    owners = owners_of(found)
    stuck = {one.queue: one.ms for one in standing_still(found)}
    every = sorted({*found.offsets, *(one for queues in found.queues.values() for one in queues)})
    every.sort(key=lambda one: -stuck.get(one, 0))
    shown, left_out = cells.first(every, MAX_ROWS, "queues")
    headings = [
        Heading("Topic"),
        Heading("Queue", "broker:queue"),
        Heading("Owner"),
        *cells.numbers("At", "End", "Lag", "Cached"),
        Heading("Last consumed", "store time of the last message consumed"),
        Heading("Stuck", "time for which messages wait and none is consumed", number=True),
    ]
    table = []
    for queue in shown:
        owner, held = owners.get(queue, (None, None))
        offsets = found.offsets.get(queue)
        still = stuck.get(queue)
        table.append(
            [
                topic_cell(queue.topic),
                cells.code(_place(queue)),
                cells.NOTHING if owner is None else cells.code(owner),
                *_offsets(found, queue),
                cells.number(None if held is None else held.cached_msg_count + held.transaction_msg_count),
                cells.moment(None if offsets is None else offsets.last_timestamp),
                cells.NOTHING if still is None else Cell(duration(still / 1000), kind="number fail"),
            ]
        )
    blocks: list[Block] = [Table(headings, table, left_out)] if table else [Text("None.")]
    return Section("Queues", blocks, "Those that are stuck first.")


def _place(queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}"


def _offsets(found: Members, queue: MessageQueue) -> list[Cell]:
    offsets = found.offsets.get(queue)
    if offsets is None:
        return [cells.NOTHING] * 3
    lag = cells.number(waiting_in(offsets)) if is_divided(found) else cells.NOTHING
    at = cells.number(offsets.consumer_offset if offsets.consumer_offset >= 0 else None)
    return [at, cells.number(offsets.broker_offset), lag]


def _clients(found: Members) -> Section:
    if found.connection is None:
        return Section("Clients", [Text("No client is running.")])
    connections = sorted(found.connection.connection_set, key=lambda one: one.client_id)
    shown, left_out = cells.first(connections, MAX_ROWS, "clients")
    counts: dict[str, int] = {}
    for client, _ in owners_of(found).values():
        counts[client] = counts.get(client, 0) + 1
    headings = [
        Heading("Client"),
        Heading("Address"),
        Heading("Version"),
        *cells.numbers("Queues"),
        Heading("State"),
    ]
    table = [
        [
            cells.name(one.client_id),
            cells.code(one.client_addr),
            cells.text(f"{one.language or ''} {version_name(one.version)}"),
            cells.number(counts.get(one.client_id, 0)),
            Cell("silent", str(found.silent[one.client_id]), "fail")
            if one.client_id in found.silent
            else Cell("reports"),
        ]
        for one in shown
    ]
    return Section("Clients", [Table(headings, table, left_out)])


def _commands(console: Console, found: Members) -> Section:
    name = found.group
    topics = {*found.queues, *(queue.topic for queue in found.offsets)}
    topic = next((one for one in sorted(topics) if not one.startswith("%")), None)
    reset = None
    if topic is not None:
        reset = console.command(
            "Consume again from an hour ago", "offsets reset", name, topic, options=["--to", "@-1h"]
        )
    stacks = console.command("See where its clients hang", "group status", name, options=["--stack"])
    return commands(
        stacks if found.connection is not None else None,
        console.command("Check it", "group check", name),
        reset,
        console.command("Stop its consumption", "group update", name, options=["--no-consume"]),
    )


_LETTER_HEADINGS = (
    Heading("Stored"),
    Heading("Topic", "that it was sent to"),
    Heading("Tag"),
    Heading("Keys"),
    Heading("Message ID"),
    Heading("Retries", number=True),
    Heading("Body", "its beginning"),
)


async def letters(console: Console, name: str) -> View:
    """Return the view of the dead letters of a group. Raise ClientError, or NotFound if it has none."""
    topic = dlq_topic(name)
    known = await console.readings.get("topic names", console.admin.topics.names)
    if topic not in known:
        raise NotFound(ResponseCode.QUERY_NOT_FOUND, f"group {name} has no dead letters", "", "")
    found = await console.readings.get(Wanted(topic), lambda: find(console, Wanted(topic)))
    rows = [
        [
            cells.moment(one.store_timestamp)._replace(href=message_address(one)),
            topic_cell(origin_topic(one) or "–"),
            cells.text(one.tags or ""),
            cells.text(" ".join(one.keys)),
            cells.code(one.msg_id),
            cells.number(one.reconsume_times),
            Cell(one_line(preview), kind="name"),
        ]
        for one, preview in list(zip(found.rows, found.previews, strict=True))[::-1]
    ]
    blocks: list[Block] = [Table(_LETTER_HEADINGS, rows)] if rows else [Text("None.")]
    blocks += [Text(f"Without {broker}: {error}") for broker, error in sorted(found.failures.items())]
    latest = [] if not found.rows else [found.rows[-1].msg_id]
    change = [
        console.command("Send the latest back", "dlq redrive", name, options=["--id", one]) for one in latest
    ]
    section = commands(
        *change,
        console.command(
            "See what sending all back would do", "dlq redrive", name, options=["--all", "--dry-run"]
        ),
        console.command("Send all back", "dlq redrive", name, options=["--all"]),
        console.command("Drop them", "dlq drop", name, options=["--all"]),
    )
    facts = [("Group", cells.name(name)._replace(href=address("/group", name=name)))]
    intro = f"The last {MAX_MESSAGES} at most, the newest first."
    return View("Dead letters", name, facts, sections=[Section("Letters", blocks, intro), section])
