"""`rmq offsets show --clients`: current offsets of running clients beside the committed ones."""

from __future__ import annotations

from typing import Any

from codec.message_queue import MessageQueue
from rmqcli.cli.exit_codes import CommandError, ExitCode
from rmqcli.cli.settings import Settings
from rmqcli.client import Admin, ClientError
from rmqcli.commands.common.admin import with_admin
from rmqcli.commands.common.partial import end_partly
from rmqcli.render import Column, show_rows

_COLUMNS = (
    Column("CLIENT", "clientId"),
    Column("BROKER", "brokerName"),
    Column("QUEUE", "queueId", number=True),
    Column("OFFSET", "offset", number=True),
    Column("COMMITTED", "consumerOffset", number=True),
)


def show_client_offsets(settings: Settings, group: str, topic: str) -> None:
    """Show a row for each client and queue; report brokers and clients that do not respond."""
    failures: dict[str, ClientError] = {}

    async def main(admin: Admin) -> tuple[list[str], list[list[Any]]]:
        found = await admin.groups.describe(group, failures=failures)
        ids = [client.client_id for client in found.connections]
        if not ids and failures:
            raise next(iter(failures.values()))
        if not ids:
            raise CommandError(f"no client of group {group} is running", ExitCode.NOT_FOUND)
        held = await admin.clients.held_offsets(group, topic, ids, failures=failures)

        async def committed(queue: MessageQueue) -> int | None:
            return None if queue.broker_name in failures else await admin.offsets.committed(queue, group)

        rows = [
            [client_id, q.broker_name, q.queue_id, offset, await committed(q)]
            for client_id, table in sorted(held.items())
            for q, offset in sorted(table.items())
        ]
        return [client_id for client_id in ids if client_id not in held], rows

    failed, rows = with_admin(settings, main)
    show_rows(settings, _COLUMNS, rows)
    end_partly(
        dict.fromkeys(failed, "did not return its offsets"),
        failures,
        done=bool(rows) or not failed,
        code=ExitCode.FAILED,
    )
