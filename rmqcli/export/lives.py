"""The life of a topic: one that was deleted and created again has other messages at the same queue
offsets.

An export remembers the last record that it has of each queue. In one life of a topic the record at a
queue offset never changes, and commit-log offsets ascend with queue offsets. So another record at the
same offset, or a later place in the log at a lower offset, is of another life: a resumed export would
skip the first messages of it.
"""

from __future__ import annotations

from rmqcli.export.output.manifest import LastRow


def explained(queue: object, last: LastRow) -> str:
    return (
        f"{queue}: the topic was deleted and created again after the last export, which ended with another message "
        f"at offset {last.queue_offset}; export it again, to a new folder or table"
    )


def is_another(last: LastRow, queue_offset: int, commit_log_offset: int) -> bool:
    """Return True if a record at a queue offset up to that of `last` is of another life."""
    if queue_offset == last.queue_offset:
        return commit_log_offset != last.commit_log_offset
    return commit_log_offset > last.commit_log_offset
