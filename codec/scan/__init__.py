"""Many records at once: NumPy walks and reads their fixed fields; `codec.scan.arrow` makes Arrow tables of them.

Needs the `export` extra. This package imports NumPy, only `codec.scan.arrow` imports pyarrow.
"""

from __future__ import annotations

from codec.scan.columns import FixedColumns, find_bad_crc, fixed_columns
from codec.scan.walk import StopReason, Walk, scan_positions

__all__ = ["FixedColumns", "StopReason", "Walk", "find_bad_crc", "fixed_columns", "scan_positions"]
