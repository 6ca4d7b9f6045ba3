"""Tools for store folders that work without a broker: read, select, count, verify, and repair into new files.

A path may be a single file, or the folder that contains the files. A file is named after the offset of its
first byte, in 20 digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.store.read.commit_log import CommitLogFiles as CommitLogFiles
    from rmqcli.store.read.commit_log import Place as Place
    from rmqcli.store.read.consume_queue import ConsumeQueueFiles as ConsumeQueueFiles
    from rmqcli.store.read.consume_queue import Queue as Queue
    from rmqcli.store.read.consume_queue import QueueEntry as QueueEntry
    from rmqcli.store.read.consume_queue import explain_entry as explain_entry
    from rmqcli.store.read.consume_queue import queue_folders as queue_folders
    from rmqcli.store.read.files import DamagedFile as DamagedFile
    from rmqcli.store.stats.counts import LogStatistics as LogStatistics
    from rmqcli.store.stats.counts import QueueStatistics as QueueStatistics
    from rmqcli.store.verify.commit_log import verify_commit_log as verify_commit_log
    from rmqcli.store.verify.consume_queues import verify_consume_queues as verify_consume_queues
    from rmqcli.store.verify.findings import Finding as Finding
    from rmqcli.store.verify.findings import Report as Report
else:
    __all__, __getattr__ = lazy_names(__name__)
