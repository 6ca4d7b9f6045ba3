"""Options of the transform between reading rows and writing them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import OptionGroup

if TYPE_CHECKING:
    from rmqcli.export.transform.decoding import Decoding
    from rmqcli.export.transform.masking import Masks
    from rmqcli.export.transform.transform import Transform


@dataclass(frozen=True, slots=True)
class Transforming(OptionGroup):
    """The options of a transform."""

    decode: Annotated[
        str | None,
        Option(
            "--decode",
            metavar="ENCODING",
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
            help="A body that cannot be decoded: fail (default) ends the export, null writes a null, column a "
            "null, and the reason in the column value_error.",
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

    mask: Annotated[
        list[str] | None,
        Option(
            "--mask",
            metavar="FIELD:ACTION",
            help="Mask body, properties.NAME, value.FIELD, tags, keys, … before anything is written, by hash, drop "
            "or keep-last-4; repeatable.",
        ),
    ] = None
    mask_key_file: Annotated[
        Path | None,
        Option("--mask-key-file", metavar="FILE", help="Key of hashes (HMAC-SHA256); without it, SHA-256."),
    ] = None

    def transform(self) -> Transform:
        """Return the transform. Raises usage errors, and SchemaError for a schema that cannot be used."""
        from rmqcli.export.transform.transform import Transform, parse_sample

        sample = None if self.sample is None else parse_sample("--sample", self.sample)
        return Transform(sample, self._decoding(), self._masks())

    def _masks(self) -> Masks | None:
        from rmqcli.export.transform.masking import parse_masks, read_key

        if not self.mask:
            if self.mask_key_file is not None:
                raise usage_error("--mask-key-file requires --mask FIELD:hash")
            return None
        key = b"" if self.mask_key_file is None else read_key(self.mask_key_file)
        return parse_masks(self.mask, key, has_value=self.decode is not None)

    def _decoding(self) -> Decoding | None:
        from rmqcli.export.transform.decoding import FAIL, read_decoding

        if self.decode is None:
            if self.schema is not None or self.on_error is not None:
                raise usage_error("--schema and --on-error require --decode")
            return None
        if self.schema is None:
            raise usage_error("--decode requires --schema FILE")
        return read_decoding(self.decode, self.schema, self.on_error or FAIL)
