"""The document of a dump: JSON with sorted names, so that equal clusters give equal bytes.

Members: `kind` (`clusterMetadata`), `version` (1), `missing` (brokers that did not answer), and one for each
area that was dumped (`rmqcli.metadata.values`). The schema is `clusterMetadata` of
rmqcli/render/output.schema.json.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from codec.edited import unmarked
from rmqcli.flows.desired import GROUPS, TOPICS, Kind, entry_of
from rmqcli.flows.errors import InvalidInput
from rmqcli.metadata.mqadmin import export_of
from rmqcli.metadata.own import without_own
from rmqcli.metadata.values import AREAS, Metadata

VERSION: Final = 1
KIND: Final = "clusterMetadata"
ENTRIES: Final[Mapping[str, Kind]] = {"topics": TOPICS, "groups": GROUPS}

_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Key = Annotated[str, msgspec.Meta(pattern="^[^@]+@[^@]+$")]
_Queue = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}$")]


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["clusterMetadata"]
    version: int
    missing: list[str] = []
    topics: dict[str, dict[str, dict[str, Any]]] | None = None
    groups: dict[str, dict[str, dict[str, Any]]] | None = None
    kv: dict[str, dict[str, str]] | None = None
    config: dict[str, dict[str, str]] | None = None
    offsets: dict[str, dict[_Key, dict[_Queue, _Offset]]] | None = None


def document_of(metadata: Metadata) -> dict[str, Any]:
    """Return the members of the document but its version."""
    return {"kind": KIND, "missing": sorted(metadata.missing), **metadata.areas}


def encoded(metadata: Metadata) -> bytes:
    """Return the document as lines of text."""
    data = msgspec.json.encode(document_of(metadata) | {"version": VERSION}, order="sorted")
    return msgspec.json.format(data, indent=2) + b"\n"


def read_metadata(path: Path) -> Metadata:
    """Return what a dump or an export of mqadmin holds. InvalidInput names what is wrong; OSError."""
    try:
        content = msgspec.json.decode(unmarked(path.read_bytes()))
    except ValueError as error:  # msgspec's, too
        raise InvalidInput(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise InvalidInput(f"{path}: no object, so neither a dump nor an export of mqadmin")
    found = _own(path, content) if content.get("kind") == KIND else export_of(content)
    if found is None:
        raise InvalidInput(f"{path}: neither a dump of rmq nor an export of mqadmin")
    _check(path, found)
    return found


def _own(path: Path, content: dict[str, Any]) -> Metadata:
    if content.get("version") != VERSION:
        raise InvalidInput(f"{path}: version {content.get('version')!r} of the document; {VERSION} is known")
    try:
        document = msgspec.convert(content, _Document)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{path}: {error}") from None
    areas = {area: getattr(document, area) for area in AREAS if getattr(document, area) is not None}
    return Metadata(areas, tuple(document.missing))


def _check(path: Path, metadata: Metadata) -> None:
    """Raise InvalidInput for a topic or group that no broker could have."""
    for area, kind in ENTRIES.items():
        for place, table in without_own(metadata).areas.get(area, {}).items():
            for name, members in table.items():
                where = f"{path}: {area}.{place}.{name}"
                entry_of(where, {**dict(members), kind.key: name}, kind)  # type: ignore[arg-type]
