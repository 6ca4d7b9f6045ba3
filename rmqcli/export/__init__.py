"""Export of messages to Parquet, from a store folder or a topic, on this machine or as a Spark job.

All of these produce one schema. Requires the extra `export` (NumPy, PyArrow), and for Spark the extra
`spark`. The source of an export is never changed. Files are written under temporary names and renamed when
they are complete; `_SUCCESS` comes last. `manifest.json` in `_NAME.rmq` next to the folder lists the content,
and the position at which a resumed export continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqcli.codec.lazy import lazy_names
from rmqcli.export import spark_source as spark_source

if TYPE_CHECKING:
    from rmqcli.export.errors import ExportError as ExportError
    from rmqcli.export.errors import LayoutError as LayoutError
    from rmqcli.export.errors import OutputExists as OutputExists
    from rmqcli.export.errors import SourceError as SourceError
    from rmqcli.export.from_store.row_filter import RowFilter as RowFilter
    from rmqcli.export.from_store.sources import StoreSource as StoreSource
    from rmqcli.export.from_store.sources import broker_name_of as broker_name_of
    from rmqcli.export.from_store.sources import store_sources as store_sources
    from rmqcli.export.from_topic.batches import QueueEnd as QueueEnd
    from rmqcli.export.from_topic.batches import QueueRange as QueueRange
    from rmqcli.export.from_topic.ranges import find_ranges as find_ranges
    from rmqcli.export.local import export_store as export_store
    from rmqcli.export.local import export_stores as export_stores
    from rmqcli.export.local import export_topic as export_topic
    from rmqcli.export.output.layout import Layout as Layout
    from rmqcli.export.output.storage_folder import refuse_existing as refuse_existing
    from rmqcli.export.run import ExportSummary as ExportSummary
    from rmqcli.export.run import StoreRows as StoreRows
    from rmqcli.export.spark.job import export_store_on_spark as export_store_on_spark
    from rmqcli.export.spark.job import export_stores_on_spark as export_stores_on_spark
    from rmqcli.export.spark.job import export_topic_on_spark as export_topic_on_spark
else:
    __all__, __getattr__ = lazy_names(__name__)
    __all__ += ["spark_source"]
