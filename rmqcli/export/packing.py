"""Work in tasks of about the same size: large items are cut, small ones are combined, in order.

The size of a task follows Spark's file sources
(org.apache.spark.sql.execution.datasources.FilePartition.maxSplitBytes): the largest size allowed, less if
cores would be idle, but not so little that starting a task costs more than its work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

TASK_BYTES = 128 * 1024 * 1024
"""The default of spark.sql.files.maxPartitionBytes."""
SMALL_TASK_BYTES = 4 * 1024 * 1024
"""The default of spark.sql.files.openCostInBytes. Less is not worth a task."""

T = TypeVar("T")


def task_bytes(total: int, most: int, cores: int) -> int:
    """Return the size of tasks for `total` bytes: at most `most`, one task per core if they are worth it."""
    return max(1, min(most, max(SMALL_TASK_BYTES, -(-total // cores))))


def packed(
    items: Iterable[T], cost: Callable[[T], int], cut: Callable[[T, int], Sequence[T]], size: int
) -> list[list[T]]:
    """Return tasks that cost about `size` at most, in the order of the items.

    `cut(item, count)` divides an item that costs more; each of its pieces is a separate task.
    """
    tasks: list[list[T]] = []
    room = -1
    for item in items:
        wanted = cost(item)
        if wanted > size:
            tasks += [[piece] for piece in cut(item, -(-wanted // size))]
            room = -1
        elif wanted > room:
            tasks.append([item])
            room = size - wanted
        else:
            tasks[-1].append(item)
            room -= wanted
    return tasks
