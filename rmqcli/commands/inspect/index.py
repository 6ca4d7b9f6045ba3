"""`rmq inspect index`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from typer import Argument, Option

from rmqcli.cli.command import command
from rmqcli.cli.exit_codes import CommandError, ExitCode, usage_error
from rmqcli.cli.options import FormatOption
from rmqcli.cli.row_options import Rows
from rmqcli.cli.running import now_ms
from rmqcli.cli.settings import Settings
from rmqcli.commands.inspect.app import CountOption, WhereOption, app, matching, one_view, range_option
from rmqcli.commands.inspect.records import View, show_records
from rmqcli.grammar.offset_range import OffsetRange, parse_range

if TYPE_CHECKING:
    from rmqcli.store.select.index_keys import KeyItem


@command(
    app,
    "index",
    example="rmq inspect index ~/store\nrmq inspect index ~/store --topic orders --key 42 -f '%o %v\\n'",
    rows=Rows.LIST,
    panels={"Slots": "--slots"},
)
def index(
    settings: Settings,
    path: Annotated[Path, Argument(metavar="PATH", help="File, its folder, or a store folder.")],
    range_text: Annotated[
        str, range_option("Range of commit-log offsets or store times; selects files, with --key items.")
    ] = "start",
    count: CountOption = None,
    key: Annotated[
        str | None,
        Option(
            "--key", "-k", metavar="KEY", help="Show the items of this key, with the chain of their slot."
        ),
    ] = None,
    topic: Annotated[str | None, Option("--topic", "-T", metavar="TOPIC", help="Topic of --key.")] = None,
    slots: Annotated[
        int | None,
        Option("--slots", metavar="N", min=1, help="Number of slots (maxHashSlotNum); detected by default."),
    ] = None,
    where: WhereOption = None,
    format_text: FormatOption = None,
    stats: Annotated[
        bool, Option("--stats", help="Show slots by chain length, and items over time.")
    ] = False,
    explain: Annotated[
        bool,
        Option("--explain", help="Show each header, or each item of --key, field by field with its bytes."),
    ] = False,
) -> None:
    """Show index files: headers, and the load of slots and chains.

    With --key, shows the chain of the key's slot, newest item first; items of other keys are marked `other`.
    -f prints the messages of the key.
    """
    from rmqcli.store.select.index_keys import IndexKey, items_of_key, messages_of

    one_view(stats=stats, explain=explain, where=where is not None, format=format_text is not None)
    if (key is None) != (topic is None):
        raise usage_error("--key and --topic require each other: the index stores keys by topic")
    if key is None and format_text is not None:
        raise usage_error("--format prints the messages of a key: specify --topic and --key")
    if key is not None and stats:
        raise usage_error("--stats covers whole files: remove --key and --topic")
    wanted = parse_range(range_text, now_ms())
    if key is None or topic is None:
        view = _FileView(where, stats, explain, count)
        _show_files(settings, path, wanted, slots, view)
        return
    wanted_key = IndexKey(topic, key)
    links = items_of_key(path, slots, wanted_key, wanted)
    if format_text is not None:
        found = messages_of(_store_of(path), links, wanted_key, wanted)
        show_records(settings, found, View(format_text), count)
    elif explain:
        _explain_items(settings, [link for link in links if link.chain.matches][:count])
    else:
        _show_chains(settings, links[:count], where)
    if not any(link.chain.matches for link in links):
        raise CommandError(f"no item with key {key} in topic {topic}", ExitCode.NOT_FOUND)


class _FileView(NamedTuple):
    """The view of files: a row for each that matches `where`, their totals, or the bytes of their headers."""

    where: str | None
    stats: bool
    explain: bool
    limit: int | None


def _show_files(
    settings: Settings, path: Path, wanted: OffsetRange, slots: int | None, view: _FileView
) -> None:
    from rmqcli.render.distribution import show_index_spread
    from rmqcli.render.store_view import INDEX_COLUMNS, index_row, show_index
    from rmqcli.store.read.files import mapped, naming_damage
    from rmqcli.store.read.index import geometry_of
    from rmqcli.store.select.index_keys import files_in_range
    from rmqcli.store.stats.index_load import IndexSpread, load_of

    rows, spread = [], IndexSpread()
    for file in files_in_range(path, wanted)[: view.limit]:
        with naming_damage(file), mapped(file) as data:
            if view.explain:
                _explain_header(settings, file.path, data)
            elif view.stats:
                spread.add(data, geometry_of(file, data, slots))
            else:
                found = geometry_of(file, data, slots)
                rows.append(index_row(found, load_of(data, found)))
    if view.stats:
        show_index_spread(settings, spread)
    elif not view.explain:
        show_index(settings, matching(INDEX_COLUMNS, rows, view.where))


def _store_of(path: Path) -> Path:
    """Return the store folder of a path, which is an index file, its folder, or the store folder itself."""
    folder = path.resolve()
    folder = folder.parent if folder.is_file() else folder
    store = folder.parent if folder.name == "index" else folder
    if not (store / "commitlog").is_dir():
        raise CommandError(
            f"{path} is not in a store folder: the messages are in its commit log", ExitCode.NOT_FOUND
        )
    return store


def _show_chains(settings: Settings, links: Iterable[KeyItem], where: str | None) -> None:
    from rmqcli.render.store_view import CHAIN_COLUMNS, chain_row, show_chains

    show_chains(settings, matching(CHAIN_COLUMNS, (chain_row(*link) for link in links), where))


def _explain_header(settings: Settings, path: Path, data: memoryview) -> None:
    from rmqcli.codec.records.reading import explain_fixed
    from rmqcli.codec.store.index_file import HEADER
    from rmqcli.render.inspection import show_fields

    show_fields(settings, path, 0, explain_fixed(HEADER, data))


def _explain_items(settings: Settings, links: Iterable[KeyItem]) -> None:
    from rmqcli.codec.records.reading import explain_fixed
    from rmqcli.codec.store.index_file import ITEM, item_position
    from rmqcli.render.inspection import show_fields
    from rmqcli.store.read.files import mapped

    for link in links:
        file, at = link.file.file, item_position(link.file.slots, link.chain.number)
        with mapped(file) as data:
            show_fields(settings, file.path, at, explain_fixed(ITEM, data, at))
