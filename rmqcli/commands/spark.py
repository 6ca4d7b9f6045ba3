"""`rmq spark`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from rmqcli.cli.command import command, command_group
from rmqcli.cli.row_options import Rows
from rmqcli.cli.settings import Settings

app = command_group("spark", "Prepare Spark clusters for `rmq export --spark` and the data source.")


OutOption = Annotated[Path, Option("--out", metavar="FILE", help="Archive to write.")]
WithoutOption = Annotated[
    list[str] | None,
    Option("--without", metavar="NAME", help="Leave out a package that executors have; repeatable."),
]
ReplaceOption = Annotated[bool, Option("--replace", help="Overwrite the file if it exists.")]


@command(
    app,
    "package",
    example="""rmq spark package --out rmq-spark.zip
rmq spark package --without pyarrow --without numpy --without pandas""",
    rows=Rows.LIST,
)
def package(
    settings: Settings,
    *,
    out: OutOption = Path("rmq-spark.zip"),
    without: WithoutOption = None,
    replace: ReplaceOption = False,
) -> None:
    """Write an archive of what Spark's executors need: rmqcli, and the packages that it requires.

    Spark unpacks it on every executor, given the two settings that are printed: `--conf SETTING=VALUE` of
    `rmq export --spark` and spark-submit. Some packages are compiled, so executors need the same Python
    version and platform, which are printed. Spark itself is not included. Piped output: setting, value.
    """
    from rmqcli.export.spark.package import THIS_PYTHON, write_package
    from rmqcli.render import Column, show_rows
    from rmqcli.render.output import note
    from rmqcli.render.text import many, size

    written = write_package(out, without=without or [], replace=replace)
    note(f"wrote {out} ({size(written.size)}, {many(len(written.packages), 'package')}) for {THIS_PYTHON}")
    columns = [Column("SETTING", "setting"), Column("VALUE", "value", whole=True)]
    show_rows(settings, columns, [list(one) for one in written.settings])
