"""`rmq cluster dump`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from rmqcli.cli.command import command
from rmqcli.cli.options import Masters
from rmqcli.cli.settings import Settings
from rmqcli.commands.cluster.app import app
from rmqcli.commands.cluster.metadata import AllOption, OnlyOption, state_of
from rmqcli.commands.common.outcome import end_partly
from rmqcli.render.output import Output

NamespaceOption = Annotated[
    list[str] | None,
    Option("--namespace", metavar="NAME", help="Also these entries of name servers; repeatable."),
]


@command(
    app, "dump", example="rmq cluster dump > cluster.json\nrmq cluster dump --only topics,groups -b broker-a"
)
def dump(
    settings: Settings,
    masters: Masters,
    only: OnlyOption = None,
    namespace: NamespaceOption = None,
    everything: AllOption = False,
) -> None:
    """Print topics, groups, name server entries, broker configuration and offsets as one JSON document.

    Names are sorted, so that equal clusters give equal bytes: keep it under version control. Masters are
    asked. Of the name servers' entries the layouts of ordered topics are included, and those of --namespace,
    as a name server does not list its namespaces. Brokers that do not respond are in the member missing, and
    the exit code is 3, as for entries that the name servers do not all have alike.
    """
    from rmqcli.client.admin.topics import ORDER_NAMESPACE
    from rmqcli.metadata.document import document_of, encoded
    from rmqcli.metadata.reading import Scope
    from rmqcli.metadata.values import AREAS, areas_of

    areas = areas_of(only, AREAS)
    spaces = dict.fromkeys([ORDER_NAMESPACE, *(namespace or ())])
    scope = Scope(areas, tuple(spaces), masters.broker or (), masters.cluster, everything=everything)
    state = state_of(settings, scope)
    if settings.json:
        Output().json(document_of(state.metadata))
    else:
        Output().write(encoded(state.metadata))
    end_partly(state.problems())
