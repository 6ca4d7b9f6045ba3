"""Options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

from rmqcli.cli.exit_codes import usage_error

# Options declared together once, as a frozen dataclass whose fields are annotated as options and have
# defaults.
#
# A command with a parameter of such a type offers these options and receives an instance made of their values.


class OptionGroup:
    """Base class of dataclasses whose fields are options."""

    __slots__ = ()


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter to add to a command's signature."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def expand(parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter]:
    """Yield the parameters, replacing each group by its fields."""
    for parameter in parameters:
        group = _group_of(parameter)
        if group is None:
            yield parameter
            continue
        hints = get_type_hints(group, include_extras=True)
        for field in fields(group):  # type: ignore[arg-type]
            yield keyword(field.name, hints[field.name], field.default)


def gather(parameters: Iterable[inspect.Parameter], values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command with these parameters; `values` have the names of `expand`."""
    left = dict(values)
    made: dict[str, Any] = {}
    for parameter in parameters:
        group: Any = _group_of(parameter)
        if group is not None:
            made[parameter.name] = group(**{field.name: left.pop(field.name) for field in fields(group)})
    return left | made


def _group_of(parameter: inspect.Parameter) -> type[OptionGroup] | None:
    kind = parameter.annotation
    return kind if isinstance(kind, type) and issubclass(kind, OptionGroup) else None


OPTIONAL_SECONDS = "[SECONDS]"
OPTIONAL_PORT = "[PORT]"
"""Metavars of options whose value may be omitted; `rmqcli.cli.command` then supplies the value."""

TopicArgument = Annotated[str, Argument(metavar="TOPIC", help="Name of the topic.")]
BrokerArgument = Annotated[str, Argument(metavar="BROKER", help="Name of the broker.")]
BrokerOption = Annotated[
    str | None, Option("--broker", "-b", metavar="NAME", help="Use only the broker NAME.")
]
TagOption = Annotated[
    str,
    Option(
        "--tag",
        "-t",
        metavar="EXPR",
        show_default=False,
        help="Select by tag: 'A' or 'A || B'; default: all.",
    ),
]
WhereOption = Annotated[
    str | None,
    Option(
        "--where",
        metavar="EXPR",
        help="Select by properties (SQL92, evaluated by the brokers), e.g. 'price > 5'.",
    ),
]
ColumnsWhereOption = Annotated[
    str | None,
    Option(
        "--where",
        metavar="EXPR",
        help="Select by columns and properties (SQL92), e.g. 'queue_id = 3 AND price > 5'.",
    ),
]
FormatOption = Annotated[
    str | None,
    Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=r"Format of each message, e.g. '%o %k %v\n': `rmq help formats`.",
    ),
]
YesOption = Annotated[bool, Option("--yes", "-y", help="Skip the confirmation prompt.")]
BrokersOption = Annotated[
    list[str] | None, Option("--broker", "-b", metavar="NAME", help="Limit to this broker; repeatable.")
]
ClusterOption = Annotated[
    str | None, Option("--cluster", metavar="NAME", help="Limit to the masters of this cluster.")
]
SeatsOption = Annotated[
    str | None, Option("--cluster", metavar="NAME", help="Limit to the brokers of this cluster.")
]
CountOption = Annotated[
    int | None, Option("--count", "-c", metavar="N", min=1, help="Stop after N messages.")
]
QueueOption = Annotated[
    int | None, Option("--queue", "-q", metavar="ID", min=0, help="Read only the queue ID.")
]
IdleOption = Annotated[
    float | None,
    Option("--idle", metavar="SECONDS", min=0, help="Stop when no message arrives for this long."),
]
RateOption = Annotated[
    float | None, Option("--rate", metavar="N", min=0.001, help="Maximum messages per second.")
]
KeyOption = Annotated[list[str] | None, Option("--key", "-k", metavar="KEY", help="Message key; repeatable.")]
TagsOption = Annotated[str | None, Option("--tag", "-t", metavar="TAG", help="Message tag.")]
PropertyOption = Annotated[
    list[str] | None, Option("--property", "-p", metavar="NAME=VALUE", help="Message property; repeatable.")
]
TraceOption = Annotated[bool, Option("--trace", help="Write message traces, see `rmq trace`.")]


@dataclass(frozen=True, slots=True)
class Masters(OptionGroup):
    """The masters that a change is limited to."""

    broker: BrokersOption = None
    cluster: ClusterOption = None

    @property
    def named(self) -> dict[str, Any]:
        """The arguments of methods of `Admin`."""
        return {"brokers": self.broker or (), "cluster": self.cluster}


@dataclass(frozen=True, slots=True)
class Seats(OptionGroup):
    """The brokers, with their slaves, that a command is limited to."""

    broker: BrokersOption = None
    cluster: SeatsOption = None

    @property
    def named(self) -> dict[str, Any]:
        """The arguments of `admin.brokers.seats`."""
        return {"brokers": self.broker or (), "cluster": self.cluster}


def check_filter(tag: str, where: str | None) -> None:
    """Raise a usage error if both `--tag` and `--where` are given."""
    if where is not None and tag != "*":
        raise usage_error(
            "--tag and --where cannot be combined; use the property TAGS: --where \"TAGS = 'paid'\""
        )


def at_least_zero(name: str, number: int) -> None:
    """Raise a usage error for a negative argument. A `min` of typer would show as `[x>=0]` in the help."""
    if number < 0:
        raise usage_error(f"{name} {number}: expected 0 or more")
