"""The steps of a transform that options ask for. Files are read where Spark plans, not in executors."""

from __future__ import annotations

from pathlib import Path

from rmqcli.export.errors import MaskError, SchemaError
from rmqcli.export.spark_source.option_values import OptionError
from rmqcli.export.transform.decoding import FAIL, Decoding, read_decoding
from rmqcli.export.transform.masks import Masks, parse_masks, read_key
from rmqcli.export.transform.sample import Sample, parse_sample
from rmqcli.extras import MissingPackage
from rmqcli.grammar.values import GrammarError


def to_sample(name: str, text: str) -> Sample:
    try:
        return parse_sample(name, text)
    except GrammarError as error:
        raise OptionError(str(error)) from None


def to_decoding(decode: str | None, schema: str | None, on_error: str | None) -> Decoding | None:
    """Return the decoding that three options ask for. Raises OptionError."""
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


def to_masks(mask: str | None, key_file: str | None, decoding: Decoding | None) -> Masks | None:
    """Return the masks that two options ask for, FIELD:ACTION separated by commas. Raises OptionError."""
    if mask is None:
        if key_file is not None:
            raise OptionError("maskKeyFile needs the option mask: FIELD:ACTION, separated by commas")
        return None
    try:
        key = b"" if key_file is None else read_key(Path(key_file))
        texts = [text.strip() for text in mask.split(",")]
        found = parse_masks(texts, key, has_value=decoding is not None)
        for field in decoding.fields if decoding is not None else ():
            found.field(field)
    except MaskError as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        raise OptionError(f"maskKeyFile={key_file}: {error.strerror or error}") from None
    return found
