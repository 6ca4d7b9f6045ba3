"""`rmq topic allocate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import TopicArgument
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, end_partly
from rmqcli.commands.topic.app import app
from rmqcli.render.output import note

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.codec.message_queue import MessageQueue

ClientsArgument = Annotated[
    list[str] | None, Argument(metavar="CLIENT", help="IDs of clients, or IP addresses.")
]
GroupOption = Annotated[
    str | None, Option("--group", "-g", metavar="GROUP", help="Add the running clients of this group.")
]
StrategyOption = Annotated[
    list[str] | None,
    Option(
        "--strategy",
        metavar="NAME",
        help="Show only this strategy: AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, MACHINE_ROOM, MACHINE_ROOM_NEARBY or CONFIG; "
        "repeatable.",
    ),
]
RoomsOption = Annotated[
    list[str] | None,
    Option("--room", metavar="ROOM", help="MACHINE_ROOM: use brokers named ROOM@NAME; repeatable."),
]
RoomOfOption = Annotated[
    list[str] | None,
    Option(
        "--room-of",
        metavar="NAME=ROOM",
        help="MACHINE_ROOM_NEARBY: room of a broker or client; NAME may have *; repeatable.",
    ),
]
FixedOption = Annotated[
    list[str] | None,
    Option("--fixed", metavar="CLIENT=BROKER:IDS", help="CONFIG: queues of a client, e.g. a=b:0,1."),
]


@command(
    app,
    "allocate",
    example="""rmq topic allocate orders 10.0.0.1 10.0.0.2 10.0.0.3
rmq topic allocate orders -g billing 10.0.0.9@1234 --strategy AVG
rmq topic allocate orders 10.1.0.1 10.2.0.1 --room-of '10.1.*=east'""",
    rows=Rows.LIST,
)
def allocate(
    topic: TopicArgument,
    settings: Settings,
    clients: ClientsArgument = None,
    group: GroupOption = None,
    strategy: StrategyOption = None,
    room: RoomsOption = None,
    room_of: RoomOfOption = None,
    fixed: FixedOption = None,
) -> None:
    """Show which client would get which queue, by strategy. Changes nothing.

    Every member of a group computes the same division of the readable queues from the same list of clients,
    in the order of their IDs. Clients that get nothing are named. Piped output: broker, queue, then the
    client for each strategy, in the order AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, and those whose options are
    given: MACHINE_ROOM, MACHINE_ROOM_NEARBY (with AVG in each room), CONFIG.
    """
    from rmqcli.plans.allocation import Given, chosen, json_name, owners
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER, QUEUE

    wanted = chosen(strategy or (), Given(room or (), room_of or (), fixed or ()))
    if not clients and group is None:
        raise usage_error("no clients: name them, or a running group with --group")
    failures: Failures = {}
    queues, running = with_admin(settings, lambda admin: _look(admin, topic, group, failures))
    members = [*(clients or ()), *running]
    found = {name: owners(allocate, queues, members) for name, allocate in wanted.items()}
    rows = [
        [queue.broker_name, queue.queue_id, *(",".join(by.get(queue, ())) or None for by in found.values())]
        for queue in queues
    ]
    show_rows(settings, [BROKER, QUEUE, *(Column(name, json_name(name)) for name in found)], rows)
    for name, by in found.items():
        if idle := sorted(set(members) - {client for clients in by.values() for client in clients}):
            note(f"{name}: no queue for {', '.join(idle)}")
    end_partly(failures)


async def _look(
    admin: Admin, topic: str, group: str | None, failures: Failures
) -> tuple[list[MessageQueue], list[str]]:
    from rmqcli.commands.group.app import online_clients

    queues = (await admin.instance.route(topic)).subscribe
    found = None if group is None else await online_clients(admin, group, failures)
    return sorted(queues), [client.client_id for client in found.connection_set] if found else []
