"""Store folders read without a broker: commit log and consume queue files, walked, counted and verified. Nothing here writes.

Paths may be one file, or the folder that holds the files. A file is named after the offset of its first byte, 20 digits.
"""

from __future__ import annotations

from rmqcli.store.commit_log import CommitLog, Place
from rmqcli.store.consume_queue import ConsumeQueueFiles, Queue, QueueEntry, explain_entry, queue_folders
from rmqcli.store.files import DamagedFile
from rmqcli.store.findings import Finding, Report
from rmqcli.store.statistics import LogStatistics, QueueStatistics
from rmqcli.store.verify import verify_commit_log
from rmqcli.store.verify_queues import verify_consume_queues

__all__ = [
    "CommitLog",
    "ConsumeQueueFiles",
    "DamagedFile",
    "Finding",
    "LogStatistics",
    "Place",
    "Queue",
    "QueueEntry",
    "QueueStatistics",
    "Report",
    "explain_entry",
    "queue_folders",
    "verify_commit_log",
    "verify_consume_queues",
]
