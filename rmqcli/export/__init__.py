"""Export of messages to Parquet: from a store folder or a topic, on this machine or as a Spark job, in one
schema.

Needs the extra `export` (NumPy, PyArrow), for Spark the extra `spark`. The source of an export is never
changed. Files are written under temporary names and renamed when they are whole; `_SUCCESS` comes last.
`_rmq/manifest.json` lists the content, and where a resumed export continues.
"""

from __future__ import annotations

from rmqcli.export import spark_source
from rmqcli.export.errors import ExportError, LayoutError, OutputExists
from rmqcli.export.from_store.row_filter import RowFilter
from rmqcli.export.from_topic.batches import QueueRange
from rmqcli.export.from_topic.ranges import find_ranges
from rmqcli.export.from_topic.retrying import QueueEnd
from rmqcli.export.local import export_store, export_topic
from rmqcli.export.output.folder import refuse_existing
from rmqcli.export.output.layout import Layout
from rmqcli.export.output.summary import ExportSummary
from rmqcli.export.spark.job import export_store_on_spark, export_topic_on_spark

__all__ = [
    "ExportError",
    "ExportSummary",
    "Layout",
    "LayoutError",
    "OutputExists",
    "QueueEnd",
    "QueueRange",
    "RowFilter",
    "export_store",
    "export_store_on_spark",
    "export_topic",
    "export_topic_on_spark",
    "find_ranges",
    "refuse_existing",
    "spark_source",
]
