"""The transform that options of the data source ask for. Files are read where Spark plans, not in executors."""

from __future__ import annotations

from rmqcli.export.errors import MissingPackage, SchemaError
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.transform.decoding import FAIL, Decoding, read_decoding
from rmqcli.export.transform.transform import Transform


def transform_of(decode: str | None, schema: str | None, on_error: str | None) -> Transform:
    """Raises OptionError."""
    return Transform(decoding=_decoding(decode, schema, on_error))


def _decoding(decode: str | None, schema: str | None, on_error: str | None) -> Decoding | None:
    if decode is None:
        if schema is not None or on_error is not None:
            raise OptionError("decodeSchema and decodeOnError need the option decode")
        return None
    if schema is None:
        raise OptionError(f"decode={decode} needs decodeSchema: the file of the schema")
    try:
        return read_decoding(decode, schema, on_error or FAIL)
    except (SchemaError, MissingPackage) as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        raise OptionError(f"decodeSchema={schema}: {error.strerror or error}") from None
