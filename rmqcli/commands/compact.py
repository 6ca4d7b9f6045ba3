"""`rmq compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from rmqcli.cli.command import command, single_command
from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.settings import Settings
from rmqcli.extras import require, silence

if TYPE_CHECKING:
    from rmqcli.export.output.compaction import Compacted

app = single_command()

_MOST = 1 << 30
"""Bytes of the largest file: the rows of one file are in memory."""


@command(
    app,
    "compact",
    example="""rmq compact delta:s3://lake/orders
rmq compact iceberg:local.shop.orders --dry-run
rmq compact s3://lake/orders""",
)
def compact(
    settings: Settings,
    table: Annotated[
        str,
        Argument(
            metavar="TABLE",
            help="delta:URI, iceberg:CATALOG.NAMESPACE.NAME, or the folder of `rmq export --out`.",
        ),
    ],
    file_size: Annotated[
        str,
        Option(
            "--file-size",
            metavar="SIZE",
            help="Size of the new files: before compression, of Delta after it; at most 1G.",
        ),
    ] = "512M",
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be merged; change nothing.")] = False,
) -> None:
    """Merge the small files of a table, or of an export to a folder.

    `rmq export --follow` makes a file with every commit. This merges the files of a partition, in one commit
    that changes no row: readers see the old files or the new ones, and exports continue where they were, even
    if they run at the same time. In Iceberg, the rows of each new file are sorted by queue and offset; in
    Delta, they stay in the order of the commits. The old files remain until a vacuum (Delta) or the expiry of
    their snapshots (Iceberg). Needs the extra table.

    In the folder of an export, each new file is sorted and replaces its old ones at once: the manifest lists
    each row once at any time, but a reader of the folder that opens its files meanwhile can miss one, or find
    rows twice. No export may run there. Run it again after a kill.
    """
    from rmqcli.export.tables.naming import PACKAGES, format_of, is_folder
    from rmqcli.grammar.values import parse_size

    size = parse_size("--file-size", file_size)
    if size > _MOST:
        raise usage_error(f"--file-size {file_size}: expected at most 1G: the rows of a file are in memory")
    if is_folder(table):
        require("export", "numpy", "pyarrow")
        from rmqcli.export.output.compaction import compact_folder
        from rmqcli.export.output.storage import location

        place = location("TABLE", table)
        _show(settings, compact_folder(place, size, dry_run=dry_run), dry_run=dry_run)
        return
    require("table", PACKAGES[format_of(table)])
    from rmqcli.export.tables import compaction

    if not settings.verbose:
        silence()
    _show(settings, compaction.compact(table, size, dry_run=dry_run), dry_run=dry_run)


def _show(settings: Settings, done: Compacted, *, dry_run: bool) -> None:
    from rmqcli.render.output import Output, note
    from rmqcli.render.text import duration, many
    from rmqcli.render.text import size as shown

    if settings.json:
        facts = {
            "table": done.table,
            "files": done.files,
            "bytes": done.bytes,
            "filesAfter": done.files_after,
            "bytesAfter": done.bytes_after,
            "dryRun": dry_run,
            "seconds": round(done.seconds, 3),
        }
        Output().json(facts)
        return
    if not done.files:
        note(f"{done.table}: no small files to merge")
        return
    before = f"{many(done.files, 'file')} ({shown(done.bytes)})"
    if dry_run:
        note(f"{done.table}: {before} would become {done.files_after}")
    else:
        after = f"{done.files_after} ({shown(done.bytes_after or 0)})"
        note(f"{done.table}: {before} became {after} in {duration(done.seconds)}")
