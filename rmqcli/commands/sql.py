"""`rmq sql`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import terminable
from rmqcli.cli.settings import Settings
from rmqcli.extras import require

if TYPE_CHECKING:
    from rmqcli.export.output.storage import Location
    from rmqcli.sql.engine import Session, Source
    from rmqcli.sql.result import Result

app = single_command()

QueryArgument = Annotated[
    str | None, Argument(metavar="[QUERY]", help="SQL of DuckDB; without it, a terminal gets a prompt.")
]
StoreOption = Annotated[
    list[Path] | None,
    Option(
        "--store",
        metavar="DIR",
        help="Read a store folder instead of a cluster; repeatable, for the stores of several brokers.",
    ),
]
BrokerNameOption = Annotated[
    list[str] | None,
    Option(
        "--broker-name",
        metavar="NAME",
        help="With --store: the broker that wrote it, for each --store in order.",
    ),
]
OutOption = Annotated[
    str | None,
    Option(
        "--out",
        metavar="FILE",
        help="Write the result to a Parquet file (.parquet), also at a URI such as s3://BUCKET/FILE.",
    ),
]
ReplaceOption = Annotated[bool, Option("--replace", help="Overwrite the file if it exists.")]
MemoryOption = Annotated[
    str,
    Option(
        "--memory", metavar="SIZE", help="Memory for sorting, joining and grouping; the rest spills to disk."
    ),
]
VerifyOption = Annotated[
    bool, Option("--verify/--no-verify", help="With --store: check the CRC of every body that is read.")
]
WalkOption = Annotated[
    bool,
    Option("--walk", help="With --store: read the whole commit log, not only what the consume queues list."),
]


@command(
    app,
    "sql",
    example="""rmq sql "select tags, count(*) from orders group by 1"
rmq sql --store /data/store "select * from orders where queue_offset < 10"
rmq sql --store /data/store 'select count(*) from "%DLQ%billing"' --json
rmq sql "show tables"; rmq sql "describe orders\"""",
    rows=Rows.LIST,
    panels={"Store folder": "--broker-name --verify --walk"},
)
def sql(
    settings: Settings,
    query: QueryArgument = None,
    store: StoreOption = None,
    broker_name: BrokerNameOption = None,
    out: OutOption = None,
    replace: ReplaceOption = False,
    memory: MemoryOption = "1G",
    verify: VerifyOption = True,
    walk: WalkOption = False,
) -> None:
    """Query topics of a cluster or of store folders with SQL.

    Each topic is a table with the columns of `rmq export`; rmq.messages holds the messages of all topics.
    Names with characters such as % and - are quoted: "%RETRY%billing". Only messages that match the
    conditions on topic, queue_id, queue_offset and store_timestamp are read. Nothing is changed, and a query
    can access neither files nor the network. Times are in UTC. JSON is one object per row. Needs the extra
    sql.
    """
    from rmqcli.grammar.values import parse_size

    require("sql", "duckdb", "numpy", "pyarrow")
    if not store and (broker_name or walk or not verify):
        raise usage_error("--broker-name, --walk and --no-verify require --store")
    show = _shown(settings, out, replace)
    if query is None:
        _require_terminal(settings, out)
    size = parse_size("--memory", memory)
    with terminable(), _source(settings, store, broker_name or [], verify=verify, walk=walk) as source:
        from rmqcli.sql.engine import Session

        with Session(source, size) as session:
            if query is None:
                _converse(settings, session, show)
            else:
                session.run(query, show)


def _require_terminal(settings: Settings, out: str | None) -> None:
    import sys

    if out is not None:
        raise usage_error("--out requires a QUERY")
    if settings.json or not (sys.stdin.isatty() and settings.terminal):
        raise usage_error('specify a QUERY: the prompt is for a terminal (a file of SQL: "$(cat FILE)")')


def _source(
    settings: Settings, store: list[Path] | None, names: list[str], *, verify: bool, walk: bool
) -> AbstractContextManager[Source]:
    from rmqcli.export import store_sources

    if store:
        from rmqcli.sql.stores import Stores

        sources = store_sources(store, names)
        return nullcontext(Stores(sources, verify=verify, walk=walk))
    from rmqcli.sql.cluster import ClusterTopics

    return ClusterTopics(settings.client_options)


def _shown(settings: Settings, out: str | None, replace: bool) -> Callable[[Result], None]:
    """Return the function that outputs a result."""
    if out is None:
        if replace:
            raise usage_error("--replace requires --out")
        return lambda result: _print(settings, result)
    from rmqcli.export.output.storage import location
    from rmqcli.sql.result import refuse_existing

    place = location("--out", out)
    if not place.name.endswith(".parquet"):
        raise usage_error(f"--out {out}: expected a name that ends with .parquet; for CSV: --csv > FILE")
    settings.rows.refuse("a Parquet file")
    refuse_existing(place, replace=replace)
    return lambda result: _save(settings, place, result)


def _print(settings: Settings, result: Result) -> None:
    from rmqcli.render import Column
    from rmqcli.render.inspection import stream_rows
    from rmqcli.sql.result import is_number

    columns = [Column(field.name, field.name, number=is_number(field.type)) for field in result.schema]
    rows = result.rows(lines=not settings.json)
    stream_rows(settings, columns, rows, empty="no rows", whole=True)


def _save(settings: Settings, out: Location, result: Result) -> None:
    from rmqcli.render.output import Output, note
    from rmqcli.render.text import many, size
    from rmqcli.sql.result import save

    rows, written = save(out, result)
    if settings.json:
        Output().json({"out": str(out), "rows": rows, "bytes": written})
    else:
        note(f"wrote {out}: {many(rows, 'row')}, {size(written)}")


def _converse(settings: Settings, session: Session, show: Callable[[Result], None]) -> None:
    from rmqcli.cli.errors import report
    from rmqcli.sql.prompt import converse

    def execute(statement: str) -> None:
        try:
            session.run(statement, show)
        except BrokenPipeError:
            raise
        except Exception as error:
            report(error, settings)

    converse(execute)
