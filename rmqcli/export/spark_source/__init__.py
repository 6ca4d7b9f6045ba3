"""The Spark data source `rocketmq`: topics and store folders as tables and streams, data frames to topics.

Call `spark.dataSource.register(spark_source.RocketMQ)` (or `spark_source.register(spark)`), then
`spark.read.format("rocketmq")`, `spark.readStream`, `df.write`, `df.writeStream`. Batches require Spark 4.0,
streaming sinks 4.1, streaming sources 4.2. Executors need this package, and access to the
name server and brokers, or to the folder. Importing this module does not require PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqcli.codec.lazy import lazy_names

if TYPE_CHECKING:
    from rmqcli.export.spark_source.offsets import behind_latest as behind_latest
    from rmqcli.export.spark_source.option_values import OptionError as OptionError
    from rmqcli.export.spark_source.planning import DataLoss as DataLoss
    from rmqcli.export.spark_source.source import RocketMQ as RocketMQ
else:
    __all__, __getattr__ = lazy_names(__name__)


def register(spark: Any) -> None:
    """Register the format `rocketmq` with a session."""
    from rmqcli.export.spark_source.source import RocketMQ

    spark.dataSource.register(RocketMQ)
