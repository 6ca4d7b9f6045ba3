"""Messages to Parquet: from a store folder or a topic, on this machine with pyarrow or as a Spark job. One schema for all.

Needs the extra `export` (numpy, pyarrow), for Spark the extra `spark`. The source of an export is never changed. Output is
written under temporary names and renamed when it is whole; `_SUCCESS` comes last.
"""

from __future__ import annotations

from rmqcli.export.errors import ExportError, OutputExists
from rmqcli.export.live import QueueRange
from rmqcli.export.local import export_store, export_topic
from rmqcli.export.parquet import refuse_existing
from rmqcli.export.rows import RowFilter
from rmqcli.export.spark import export_store_on_spark, export_topic_on_spark
from rmqcli.export.summary import ExportSummary

__all__ = [
    "ExportError",
    "ExportSummary",
    "OutputExists",
    "QueueRange",
    "RowFilter",
    "export_store",
    "export_store_on_spark",
    "export_topic",
    "export_topic_on_spark",
    "refuse_existing",
]
