"""The settings of a consumer group as options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from typer import Option

from rmqcli.cli.option_groups import OptionGroup
from rmqcli.grammar.retry_policy import parse_retry_policy
from rmqcli.render.output import note

_MAX_INT = 2**31 - 1  # an int in Java

RetriesOption = Annotated[
    int | None,
    Option(
        "--retries",
        metavar="N",
        min=0,
        max=_MAX_INT,
        help="Retries of a message before it becomes a dead letter, for clients that send no number of their "
        "own, as Java's push consumers do.",
    ),
]
RetryQueuesOption = Annotated[
    int | None,
    Option("--retry-queues", metavar="N", min=0, max=65535, help="Number of queues of the retry topic."),
]
ConsumeOption = Annotated[
    bool | None, Option("--consume/--no-consume", help="Allow consumption.", show_default=False)
]
BroadcastOption = Annotated[
    bool | None, Option("--broadcast/--no-broadcast", help="Allow broadcasting.", show_default=False)
]
FromMinOption = Annotated[
    bool | None,
    Option("--from-min/--no-from-min", help="Allow starting at the minimum offset.", show_default=False),
]
NotifyOption = Annotated[
    bool | None,
    Option(
        "--notify/--no-notify",
        help="Notify clients at once when a client joins or leaves.",
        show_default=False,
    ),
]
ReadFromOption = Annotated[
    int | None,
    Option(
        "--read-from",
        metavar="ID",
        min=0,
        max=_MAX_INT,
        help="Broker ID to read from if slaveReadEnable is set; 0 is the master.",
    ),
]
SlowReadFromOption = Annotated[
    int | None,
    Option(
        "--slow-read-from",
        metavar="ID",
        min=0,
        max=_MAX_INT,
        help="Broker ID to read from when the group lags far behind.",
    ),
]


OrderlyOption = Annotated[
    bool | None,
    Option("--orderly/--no-orderly", help="Proxies of 5.x deliver in order.", show_default=False),
]
RetryPolicyOption = Annotated[
    str | None,
    Option(
        "--retry-policy",
        metavar="DELAYS",
        help="Delays of retries that proxies of 5.x keep: 10s,30s,1m, or 5s..2h for growing ones (5s..2h*3: "
        "threefold).",
    ),
]


@dataclass(frozen=True, slots=True)
class GroupSettings(OptionGroup):
    """Settings of a group; None: not given."""

    retries: RetriesOption = None
    retry_queues: RetryQueuesOption = None
    consume: ConsumeOption = None
    broadcast: BroadcastOption = None
    from_min: FromMinOption = None
    notify: NotifyOption = None
    read_from: ReadFromOption = None
    slow_read_from: SlowReadFromOption = None
    orderly: OrderlyOption = None
    retry_policy: RetryPolicyOption = None

    @property
    def named(self) -> dict[str, Any]:
        """The given settings by the fields of SubscriptionGroupConfig."""
        given = {name: getattr(self, option) for option, name in _FIELDS.items()}
        if self.retry_policy is not None:
            given["group_retry_policy"] = parse_retry_policy(self.retry_policy)
        return {name: value for name, value in given.items() if value is not None}


_FIELDS: Mapping[str, str] = {
    "retries": "retry_max_times",
    "retry_queues": "retry_queue_nums",
    "consume": "consume_enable",
    "broadcast": "consume_broadcast_enable",
    "from_min": "consume_from_min_enable",
    "notify": "notify_consumer_ids_changed_enable",
    "read_from": "broker_id",
    "slow_read_from": "which_broker_when_consume_slowly",
    "orderly": "consume_message_orderly",
}


def note_of_retries(changed: GroupSettings) -> None:
    """Say for whom a number of retries that was set has no effect."""
    if changed.retries is not None:
        note(
            "--retries is for rmq consume, 5.x proxies and old clients; push consumers of Java, Python and others "
            "send a number of their own (maxReconsumeTimes, 16)"
        )
