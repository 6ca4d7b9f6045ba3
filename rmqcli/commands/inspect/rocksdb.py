"""`rmq inspect rocksdb`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import app
from rmqcli.extras import require
from rmqcli.render.table import Column

RocksArgument = Annotated[
    Path, Argument(metavar="PATH", help="Store folder, its config folder, or the folder of a table.")
]
TablesArgument = Annotated[
    list[str] | None, Argument(metavar="TABLE", help="topics, groups or offsets; default: all that exist.")
]


@command(
    app,
    "rocksdb",
    example="rmq inspect rocksdb ~/store\nrmq inspect rocksdb ~/store topics --json",
    rows=Rows.LIST,
)
def rocksdb(path: RocksArgument, settings: Settings, tables: TablesArgument = None) -> None:
    """Show the topics, groups and offsets that a broker of 5.x keeps in RocksDB.

    The folder may be that of a running broker; nothing in it is changed. Piped output: table, name, value as
    JSON. The name of offsets is TOPIC@GROUP. Needs the extra `rocksdb`.
    """
    from rmqcli.render import show_rows
    from rmqcli.render.output import json_line
    from rmqcli.store.read.tables import FOLDERS, find_tables, read_entries

    for name in tables or ():
        if name not in FOLDERS:
            raise usage_error(f"{name}: expected {', '.join(FOLDERS)}")
    if not path.exists():
        raise CommandError(f"{path}: no such folder", ExitCode.NOT_FOUND)
    found = {word: folder for word, folder in find_tables(path).items() if not tables or word in tables}
    if not found:
        what = ", ".join(tables or FOLDERS)
        raise CommandError(f"{path}: no {what} in RocksDB", ExitCode.NOT_FOUND)
    require("rocksdb", "rocksdict")

    def shown(value: Any) -> Any:
        return value if settings.json else json_line(value).decode()

    rows = [
        [word, name, shown(value)] for word, folder in found.items() for name, value in read_entries(folder)
    ]
    columns = [Column("TABLE", "table"), Column("NAME", "name", whole=True), Column("VALUE", "value")]
    show_rows(settings, columns, rows, empty="no entries")
