"""`rmq controller status`."""

from __future__ import annotations

from rmqcli.cli.command import command
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.changing import with_feature
from rmqcli.commands.controller.app import CONTROLLER, FEATURE, ControllerArgument, app


@command(app, "status", example="rmq controller status 10.0.0.1:9878")
def status(controller: ControllerArgument, settings: Settings) -> None:
    """Show the group of a controller, its leader and all members.

    Piped output: controller, group, ID of the leader, its address, true for the leader itself, members
    separated by ';'.
    """
    from rmqcli.render import Column, show_rows

    found = with_feature(settings, FEATURE, lambda admin: admin.controllers.metadata(controller))
    columns = [
        CONTROLLER,
        Column("GROUP", "group"),
        Column("LEADER ID", "leaderId"),
        Column("LEADER", "leader", whole=True),
        Column("IS LEADER", "isLeader", minor=True),
        Column("MEMBERS", "members"),
    ]
    leader = [found.controller_leader_id, found.controller_leader_address, found.is_leader]
    show_rows(settings, columns, [[controller, found.group, *leader, found.peers]])
