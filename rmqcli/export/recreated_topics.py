"""Detection of topics that were deleted and created again, with other messages at the same queue offsets.

An export remembers the last exported record of each queue. As long as a topic exists, the record at a queue
offset never changes, and commit-log offsets increase with queue offsets. So another record at the same
offset, or a higher commit-log offset at a lower queue offset, belongs to a recreated topic, whose first
messages a resumed export would skip.
"""

from __future__ import annotations

from rmqcli.export.output.manifest import LastRow


def explained(queue: object, last: LastRow) -> str:
    return (
        f"{queue}: the topic was deleted and created again after the last export, which ended with another message "
        f"at offset {last.queue_offset}; export it again, to a new folder or table"
    )


def is_another(last: LastRow, queue_offset: int, commit_log_offset: int) -> bool:
    """Return True if a record at a queue offset up to that of `last` belongs to a recreated topic."""
    if queue_offset == last.queue_offset:
        return commit_log_offset != last.commit_log_offset
    return commit_log_offset > last.commit_log_offset
