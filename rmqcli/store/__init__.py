"""Tools for store folders that work without a broker: read, select, count, verify, and repair into new files.

A path may be one file, or the folder that holds the files. A file is named after the offset of its first
byte, 20 digits.
"""

from __future__ import annotations

from rmqcli.store.read.commit_log import CommitLogFiles, Place
from rmqcli.store.read.consume_queue import ConsumeQueueFiles, Queue, QueueEntry, explain_entry, queue_folders
from rmqcli.store.read.files import DamagedFile
from rmqcli.store.stats.counts import LogStatistics, QueueStatistics
from rmqcli.store.verify.commit_log import verify_commit_log
from rmqcli.store.verify.consume_queues import verify_consume_queues
from rmqcli.store.verify.findings import Finding, Report

__all__ = [
    "CommitLogFiles",
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
