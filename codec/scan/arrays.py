"""Array types and the sliding window over a buffer that most of this package works with. Needs NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Buffer = bytes | bytearray | memoryview
Array = np.ndarray[Any, np.dtype[Any]]


def windows(data: Any, size: int) -> Array:
    """Views a buffer as overlapping items of `size` bytes, one from each byte; indexing copies items."""
    return np.ndarray(memoryview(data).nbytes - size + 1, f"V{size}", data, strides=(1,))
