"""The array types of this package, and the view that most of it works with. Needs NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Buffer = bytes | bytearray | memoryview
Array = np.ndarray[Any, np.dtype[Any]]


def windows(data: Any, size: int) -> Array:
    """A view of a buffer as overlapping items of `size` bytes, one from each byte on; taking an item copies its bytes."""
    return np.ndarray(memoryview(data).nbytes - size + 1, f"V{size}", data, strides=(1,))
