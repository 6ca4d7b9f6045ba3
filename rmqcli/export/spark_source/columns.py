"""The columns of the data source: those of an export, as Spark types; optionally without `body`, and with those
that a transform adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from codec.scan.schema import schema as export_schema
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.transform.transform import NOTHING, Transform


def spark_schema(*, include_body: bool = True, transform: Transform = NOTHING) -> StructType:
    """Return the schema of `spark.read.format("rocketmq").load()`."""
    found: StructType = from_arrow_schema(_every(transform))
    return found if include_body else StructType([column for column in found if column.name != "body"])


def _every(transform: Transform) -> pa.Schema:
    return pa.schema([*export_schema(), *transform.fields])


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a read: all, or those chosen by `schema()`; `transform` makes some of them."""

    arrow: Any
    transform: Transform = NOTHING

    @classmethod
    def wanted(cls, schema: StructType, transform: Transform = NOTHING) -> Columns:
        """Raise OptionError for an unknown column, or one of another type."""
        there = {column.name: column.dataType for column in spark_schema(transform=transform)}
        for column in schema:
            if there.get(column.name) != column.dataType:
                has = there.get(column.name)
                reason = f"is {has.simpleString()}" if has else f"is none of {', '.join(there)}"
                raise OptionError(f"column {column.name} {column.dataType.simpleString()}: it {reason}")
        every = _every(transform)
        fields = [every.field(column.name).with_nullable(column.nullable) for column in schema]
        return cls(pa.schema(fields), transform)

    def of(self, batch: Any) -> Any:
        """Return the columns of a batch in the schema of every export. Raises DecodeError."""
        batch = self.transform.apply(batch)
        return pa.RecordBatch.from_arrays([batch[name] for name in self.arrow.names], schema=self.arrow)
