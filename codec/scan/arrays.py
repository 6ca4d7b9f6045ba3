"""Types and bytes that most of this package works with, and the sliding window over a buffer. Needs NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from codec.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR

Array = np.ndarray[Any, np.dtype[Any]]
NAME_END, PAIR_END = ord(NAME_VALUE_SEPARATOR), ord(PROPERTY_SEPARATOR)


def windows(data: Any, size: int) -> Array:
    """Views a buffer as overlapping items of `size` bytes, one from each byte; indexing copies items."""
    return np.ndarray(memoryview(data).nbytes - size + 1, f"V{size}", data, strides=(1,))
