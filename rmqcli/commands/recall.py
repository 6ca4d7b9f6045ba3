"""`rmq recall`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument

from rmqcli.cli.command import command, single_command
from rmqcli.cli.errors import exit_code_of
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import run_async
from rmqcli.cli.settings import Settings
from rmqcli.commands.common.outcome import Failures, end_partly

if TYPE_CHECKING:
    from rmqcli.client import ClientError
    from rmqcli.codec.recall_handle import RecallHandle

app = single_command()

_REMEDIES = {
    "operation is forbidden": "set recallMessageEnable=true on the broker",
    "timestamp invalid": "it is due, and delivered or about to be",
}

HandlesArgument = Annotated[
    list[str], Argument(metavar="HANDLE...", help="Recall handles of messages.", show_default=False)
]


@command(
    app,
    "recall",
    example="""rmq send orders 'remind' --delay 1h --json | jq -r .recallHandle
rmq recall djEgb3JkZXJzIGJyb2tlci1hIDE4OTM0NTYwMDAwMDEga2V5""",
    rows=Rows.LIST,
)
def recall(handles: HandlesArgument, settings: Settings) -> None:
    """Take back timer messages that are not due yet.

    `rmq send --delay` and `--at` return the handle of each message: the JSON member and column recallHandle.
    Success means that the broker has stored the recall and will drop the message when it is due. Piped
    output: topic, broker, message ID, time at which the message would have been delivered (epoch ms). If
    some are refused, the others are recalled, and the exit code is 3.
    """
    from rmqcli.codec.recall_handle import RecallHandle
    from rmqcli.render import Column, show_rows
    from rmqcli.render.table import BROKER, TOPIC
    from rmqcli.render.text import local_time

    found: dict[str, RecallHandle] = {}
    for text in handles:
        try:
            found[text] = RecallHandle.decode(text)
        except ValueError:
            raise usage_error(
                f"{text!r} is not a recall handle; rmq send --json prints one as recallHandle"
            ) from None
    failures = run_async(lambda: _recall(settings, found))
    columns = (
        TOPIC,
        BROKER,
        Column("MESSAGE ID", "msgId", whole=True),
        Column("DUE", "due", local_time),
    )
    done = [one for text, one in found.items() if text not in failures]
    show_rows(settings, columns, [[one.topic, one.broker_name, one.key, one.due] for one in done])
    texts = {found[text].key: f"{error}{_remedy(error)}" for text, error in failures.items()}
    end_partly(texts, done=bool(done), code=next(map(exit_code_of, failures.values()), None))


async def _recall(settings: Settings, found: dict[str, RecallHandle]) -> Failures:
    from rmqcli.client import ClientError, Producer

    failures: Failures = {}
    async with Producer(**settings.producer_options) as producer:
        for text, one in found.items():
            try:
                await producer.recall(one.topic, text)
            except ClientError as error:
                failures[text] = error
    return failures


def _remedy(error: ClientError) -> str:
    from rmqcli.client import BrokerRefused, NotSupported

    if isinstance(error, NotSupported):
        return "; brokers of RocketMQ 5.3.2 and later and of rmq recall messages"
    if isinstance(error, BrokerRefused):
        for remark, text in _REMEDIES.items():
            if remark in error.remark:
                return f"; {text}"
    return ""
