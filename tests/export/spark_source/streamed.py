"""A Spark application that streams a topic to Parquet, a folder for each batch, up to the latest messages.

Run as `python -m tests.export.spark_source.streamed NAMESRV TOPIC FOLDER [planned|written NUMBER]`. When batch
NUMBER is planned, or written, it makes the file `reached`, and waits until the file is removed. Spark has noted
the plan of the batch then, and not that it is done.
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


def main(namesrv: str, topic: str, folder: Path, stop: tuple[str, int] | None) -> None:
    def reach(state: str, number: int) -> None:
        reached, end = folder / "reached", time.monotonic() + SECONDS
        if (state, number) == stop:
            reached.touch()
            while reached.exists():
                if time.monotonic() > end:
                    raise TimeoutError
                time.sleep(0.02)

    def take(frame: DataFrame, number: int) -> None:
        reach("planned", number)
        columns = frame.select("queue_id", "queue_offset", "body")
        columns.write.mode("overwrite").parquet(f"{folder}/data/{number}")
        reach("written", number)

    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    with spark_session("local[2]") as spark:
        spark_source.register(spark)
        stream = spark.readStream.format("rocketmq").options(namesrv=namesrv, **options).load()
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", f"{folder}/checkpoint")
        writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(
        sys.argv[1], sys.argv[2], Path(sys.argv[3]), (sys.argv[4], int(sys.argv[5])) if sys.argv[4:] else None
    )
