"""A Spark application that streams a topic to Parquet, a folder for each batch, up to the latest messages.

Run as `python -m tests.export.spark_source.streamed NAMESRV TOPIC FOLDER [NUMBER]`. It makes the file
`reached` and stops when batch NUMBER is written, to be killed there: Spark has noted the plan of the batch,
and not that it is done.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame

from rmqcli.export import spark_source
from rmqcli.export.spark.session import spark_session

SECONDS = 120
"""After this time something is wrong."""


def main(namesrv: str, topic: str, folder: Path, last: int | None) -> None:
    def take(frame: DataFrame, number: int) -> None:
        columns = frame.select("queue_id", "queue_offset", "body")
        columns.write.mode("overwrite").parquet(f"{folder}/data/{number}")
        if number == last:
            (folder / "reached").touch()
            time.sleep(SECONDS)
            raise TimeoutError

    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    with spark_session("local[2]") as spark:
        spark_source.register(spark)
        stream = spark.readStream.format("rocketmq").options(namesrv=namesrv, **options).load()
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]) if sys.argv[4:] else None)
