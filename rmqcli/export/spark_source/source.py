"""The class that Spark instantiates; it only chooses the reader or writer.

For each request, Spark creates one in a new Python process and pickles it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark import SparkContext
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from rmqcli.export.spark.session import is_local
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.spark_source.options import WriteOptions, read_options, write_options
from rmqcli.export.spark_source.outages import plainly
from rmqcli.export.spark_source.rows import Columns, spark_schema

if TYPE_CHECKING:
    from rmqcli.export.spark_source.batch import BatchReader
    from rmqcli.export.spark_source.stream import StreamReader
    from rmqcli.export.spark_source.stream_writer import StreamWriter
    from rmqcli.export.spark_source.writer import Writer


class RocketMQ(DataSource):
    """The format `rocketmq`. Its options are those of `ReadOptions` and `WriteOptions`."""

    @classmethod
    def name(cls) -> str:
        warn_of_other_python()  # registering reads the name
        return "rocketmq"

    @plainly
    def schema(self) -> StructType:
        """Return the columns of an export, without `body` for `includeBody=false`."""
        options = read_options(self.options)
        return spark_schema(include_body=options.include_body, transform=options.transform())

    @plainly
    def reader(self, schema: StructType) -> BatchReader:
        from rmqcli.export.spark_source.batch import BatchReader

        options = read_options(self.options)
        return BatchReader(options, Columns.wanted(schema, options.transform()))

    # Not `plainly`: Spark's runner then fails with another error, and this one is in its traceback.
    def streamReader(self, schema: StructType) -> StreamReader:
        with needing("streams", "4.2"):
            from rmqcli.export.spark_source.stream import StreamReader

        options = read_options(self.options)
        return StreamReader(options, Columns.wanted(schema, options.transform()))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        from rmqcli.export.spark_source.writer import Writer

        return Writer(self._write_options(schema, overwrite))

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        with needing("streaming writes", "4.1"):
            from rmqcli.export.spark_source.stream_writer import StreamWriter

        return StreamWriter(self._write_options(schema, overwrite))

    def _write_options(self, schema: StructType, overwrite: bool) -> WriteOptions:
        from rmqcli.export.spark_source.rows import check_columns

        if overwrite:
            raise OptionError('a topic cannot be overwritten: use mode("append")')
        options = write_options(self.options)
        check_columns(schema, options)
        return options


@contextmanager
def needing(what: str, version: str) -> Iterator[None]:
    """Raise OptionError if this Spark lacks a class that is imported inside the block."""
    try:
        yield
    except ImportError as error:
        if not (error.name or "").startswith("pyspark"):
            raise
        raise OptionError(f"{what} need Spark {version} or later; this is {pyspark.__version__}") from error


_LOOK = "import sys; from importlib.util import find_spec; sys.exit(find_spec('rmqcli') is None)"


def warn_of_other_python() -> None:
    """Warn if workers here run a Python without rmqcli, because queries would end in an obscure traceback."""
    context = SparkContext._active_spark_context
    if context is not None and is_local(context.master or "") and not _has_package(context.pythonExec):
        warnings.warn(
            f"Spark's workers run {context.pythonExec}, which does not have rmqcli; before the session is "
            'made, set os.environ["PYSPARK_PYTHON"] = sys.executable',
            stacklevel=4,
        )


@cache
def _has_package(python: str) -> bool:
    found = shutil.which(python)
    if found is None or Path(found).parent == Path(sys.executable).parent:
        return True
    return subprocess.run([found, "-c", _LOOK], capture_output=True, check=False).returncode == 0
