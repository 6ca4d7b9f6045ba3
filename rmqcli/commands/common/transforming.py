"""Options for the steps between reading rows and writing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.option_groups import OptionGroup

if TYPE_CHECKING:
    from rmqcli.export.transform.decoding import Decoding
    from rmqcli.export.transform.transform import Transform


@dataclass(frozen=True, slots=True)
class Transforming(OptionGroup):
    """The options of a transform."""

    decode: Annotated[
        str | None,
        Option(
            "--decode",
            metavar="FORMAT",
            help="Add the column value, the body typed by --schema: json, avro, avro-single-object, "
            "avro-confluent or protobuf.",
        ),
    ] = None
    schema: Annotated[
        str | None,
        Option(
            "--schema",
            metavar="FILE",
            help="With --decode: a JSON Schema, an Avro schema (.avsc), or DESC#MESSAGE, a descriptor set of "
            "protoc and a message in it.",
        ),
    ] = None
    on_error: Annotated[
        str | None,
        Option(
            "--on-error",
            metavar="HOW",
            help="A body that does not decode: fail (default) ends the export, null is a null, column a null "
            "with the reason in the column value_error.",
        ),
    ] = None

    sample: Annotated[
        str | None,
        Option(
            "--sample",
            metavar="PERCENT",
            help="Export a share of the messages, e.g. 1%, chosen by their ids: the same ones each time.",
        ),
    ] = None

    def transform(self) -> Transform:
        """Return the transform. Raises usage errors, and SchemaError for a schema that cannot be used."""
        from rmqcli.export.transform.sample import parse_sample
        from rmqcli.export.transform.transform import Transform

        sample = None if self.sample is None else parse_sample("--sample", self.sample)
        return Transform(sample, self._decoding())

    def _decoding(self) -> Decoding | None:
        from rmqcli.export.transform.decoding import FAIL, read_decoding

        if self.decode is None:
            if self.schema is not None or self.on_error is not None:
                raise usage_error("--schema and --on-error require --decode")
            return None
        if self.schema is None:
            raise usage_error("--decode requires --schema FILE")
        return read_decoding(self.decode, self.schema, self.on_error or FAIL)
