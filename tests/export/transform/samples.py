"""Bodies of orders, and the schema that most of them fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyarrow import parquet

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "email": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
    },
    "required": ["id"],
}
BODIES = [b'{"id": %d, "email": "u%d@example.org", "lines": [{"sku": "s"}]}' % (n, n) for n in range(4)]
WRONG = b'{"id": "four"}'
REASON = "id: expected number, found string"


def write_schema(folder: Path) -> str:
    path = folder / "order.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


def rows(out: Path) -> list[dict[str, Any]]:
    """Returns the rows of an export by queue and offset."""
    found = parquet.read_table(out).to_pylist()
    return sorted(found, key=lambda row: (row["queue_id"], row["queue_offset"]))
