"""`rmq topic delete`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError
from rmqcli.cli.options import ClusterOption, TopicArgument, YesOption
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.outcome import Failures, confirm, of_existing, show_change
from rmqcli.commands.topic.app import app
from rmqcli.render.output import warn
from rmqcli.render.text import many

if TYPE_CHECKING:
    from rmqcli.client import Admin
    from rmqcli.flows.writers import Writing


@command(app, "delete", example="rmq topic delete orders --yes")
def delete(
    topic: TopicArgument, settings: Settings, yes: YesOption = False, cluster: ClusterOption = None
) -> None:
    """Delete a topic and its messages from brokers and name servers.

    Names who wrote to it in the last ten minutes, and asks for confirmation; without a terminal, --yes is
    required. Brokers of 4.9 keep the offsets of consumer
    groups, and the groups are reported: if the topic is created again, it starts at offset 0, and the groups
    would skip messages below their old offsets.
    """
    from codec.names import is_system_topic

    if is_system_topic(topic):
        raise CommandError(f"topic {topic} is a system topic and cannot be deleted")
    failures: Failures = {}
    lost, groups, writers = with_admin(settings, lambda admin: _stakes(admin, topic, failures))
    if writers is not None:
        warn(f"topic {topic} is written to, {writers}: the next message fails, or creates the topic again")
    confirm(settings, f"delete topic {topic} and all its messages?", yes=yes, lost=lost, readers=groups)
    change = with_admin(
        settings, lambda admin: admin.topics.delete(topic, cluster=cluster, failures=failures)
    )
    left = groups
    if groups and not failures:
        left = with_admin(settings, lambda admin: _left(admin, topic, groups))
    if left and change.brokers:
        warn(
            f"offsets of {', '.join(left)} are kept; if {topic} is created again: "
            f"rmq offsets reset {left[0] if len(left) == 1 else 'GROUP'} {topic} --to start "
            f"{settings.endpoint_words}"
        )
    show_change(settings, f"topic {topic} deleted from", change)


async def _left(admin: Admin, topic: str, groups: list[str]) -> list[str]:
    """Return the groups that still have offsets; all if a broker does not say."""
    from rmqcli.client import ClientError

    try:
        return await admin.groups.with_offsets_on(topic)
    except ClientError:
        return groups


async def _stakes(
    admin: Admin, topic: str, failures: Failures
) -> tuple[list[str], list[str], Writing | None]:
    """Return what a deletion loses, the groups with offsets and who writes, as far as brokers answer."""
    from rmqcli.client import ClientError
    from rmqcli.client.admin.values import stored
    from rmqcli.flows.writers import writing

    await of_existing(admin.topics.route(topic))
    lost: list[str] = []
    groups: list[str] = []
    writers: Writing | None = None
    with suppress(ClientError):
        queues = await admin.topics.stats(topic, failures=failures)
        lost = [f"{many(stored(queues), 'message')} in {many(len(queues), 'queue')}"]
        writers = await writing(admin, queues)
    with suppress(ClientError):
        groups = await admin.topics.groups(topic, failures=failures)
    return lost, groups, writers
