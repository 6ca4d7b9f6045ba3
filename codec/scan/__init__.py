"""NumPy readers of many stored records at once; `rmqcli.codec.scan.arrow` turns them into Arrow tables.

Needs the extra `export`: NumPy everywhere, PyArrow in the modules that say so.
"""

from __future__ import annotations

from rmqcli.codec.scan.columns import FixedColumns, find_bad_crc, fixed_columns
from rmqcli.codec.scan.walk import StopReason, Walk, scan_positions

__all__ = ["FixedColumns", "StopReason", "Walk", "find_bad_crc", "fixed_columns", "scan_positions"]
