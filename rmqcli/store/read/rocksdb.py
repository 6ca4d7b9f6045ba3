"""Tables that brokers of 5.x keep in RocksDB (`storeType=defaultRocksDB`), in folders below `config`.

Names and values are UTF-8 and JSON, in the default column family (5.3.3 `ConfigRocksDBStorage`). The library
writes a file of its own beside a database that it opens to read, so it gets a temporary folder with links to
the files; the store is not changed, and may be that of a running broker.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from codec.errors import CorruptionError

FOLDERS: Final[Mapping[str, str]] = {
    "topics": "topics",
    "groups": "subscriptionGroups",
    "offsets": "consumerOffsets",
}
"""Our words for the tables, and the names of their folders."""
_CURRENT: Final = "CURRENT"
"""The file that every database has."""


def find_tables(path: Path) -> dict[str, Path]:
    """Return the folders of tables in a store folder, in its `config`, or `path` itself; empty without any."""
    if (path / _CURRENT).is_file():
        return {next((word for word, name in FOLDERS.items() if name == path.name), path.name): path}
    places = [path / "config", path]
    found = ((word, place / name) for place in places for word, name in FOLDERS.items())
    return {word: folder for word, folder in found if (folder / _CURRENT).is_file()}


def read_entries(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a table in the order of their names.

    Raises ImportError without the library, CorruptionError for what is no such table.
    """
    from rocksdict import AccessType, Options, Rdict

    with tempfile.TemporaryDirectory(prefix="rmq-rocksdb-") as links:
        for file in folder.iterdir():
            (Path(links) / file.name).symlink_to(file.resolve())
        options = Options(raw_mode=True)
        try:
            families = dict.fromkeys(Rdict.list_cf(links, options), options)
            database: Any = Rdict(links, options, families, AccessType.read_only())
        except Exception as error:  # the library has no type of its own for what RocksDB says
            raise CorruptionError(f"{folder}: no RocksDB that can be read: {error}") from None
        try:
            for name, value in database.items():
                yield _decoded(folder, name, value)
        finally:
            database.close()


def _decoded(folder: Path, name: bytes, value: bytes) -> tuple[str, Any]:
    try:
        return name.decode(), json.loads(value)
    except ValueError as error:
        raise CorruptionError(f"{folder}: the value of {name!r} is no JSON: {error}") from None
