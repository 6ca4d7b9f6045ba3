"""The sink of a stream. A batch that is run again after a failure is sent again.

The sink needs Spark 4.1, streams as sources 4.2, so it is not in the module of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamArrowWriter

from rmqcli.export.spark_source.options import WriteOptions
from rmqcli.export.spark_source.writer import RowSender, Sent


class StreamWriter(DataSourceStreamArrowWriter):
    """Streaming append."""

    def __init__(self, options: WriteOptions) -> None:
        self.sender = RowSender(options)

    def write(self, iterator: Iterator[Any]) -> Sent:
        return self.sender.send(iterator)
