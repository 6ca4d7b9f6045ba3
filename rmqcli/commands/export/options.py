"""Options of `rmq export` that belong together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from rmqcli.cli.exit_codes import usage_error
from rmqcli.cli.options import OptionGroup
from rmqcli.extras import require

if TYPE_CHECKING:
    from rmqcli.export import Layout
    from rmqcli.export.transform.decoding import Decoding
    from rmqcli.export.transform.masking import Masks
    from rmqcli.export.transform.transform import Transform


EVERY = 10.0
"""Seconds between two commits of a change feed."""


@dataclass(frozen=True, slots=True)
class LayoutOptions(OptionGroup):
    """The layout of files."""

    partition_by: Annotated[
        list[str] | None,
        Option(
            "--partition-by",
            metavar="KEYS",
            help="Partition folders by topic, day or hour (of the store time, UTC) or queue, e.g. topic,day; "
            "repeatable. With --table: hour instead of day.",
        ),
    ] = None
    columns: Annotated[
        list[str] | None,
        Option("--columns", metavar="NAMES", help="Columns to write, e.g. msg_id,tags,body; repeatable."),
    ] = None
    body_text: Annotated[
        bool,
        Option("--body-text", help="Add a column body_text: the body as text, or null if it is not UTF-8."),
    ] = False
    compression: Annotated[
        str,
        Option("--compression", metavar="NAME", help="Compression: zstd, snappy, gzip, lz4, brotli or none."),
    ] = "zstd"
    file_size: Annotated[
        str, Option("--file-size", metavar="SIZE", help="Maximum size of a file before compression.")
    ] = "512M"
    row_group_size: Annotated[
        str,
        Option("--row-group-size", metavar="SIZE", help="Maximum size of a row group before compression."),
    ] = "128M"
    sort: Annotated[
        bool,
        Option(
            "--sort",
            help="With --store: sort the rows of each row group by queue and offset. Those of a cluster always are.",
        ),
    ] = False
    bloom_filter: Annotated[
        list[str] | None,
        Option(
            "--bloom-filter",
            metavar="NAMES",
            help="Columns with a Bloom filter: msg_id (default), keys, offset_msg_id, or none; repeatable.",
        ),
    ] = None

    def layout(self, transform: Transform) -> Layout:
        from rmqcli.export import Layout
        from rmqcli.grammar.values import parse_size

        found = Layout(
            partition_by=self.partitions,
            file_bytes=parse_size("--file-size", self.file_size),
            row_group_bytes=parse_size("--row-group-size", self.row_group_size),
            compression=self.compression,
            columns=_names("--columns", self.columns) or None,
            body_text=self.body_text,
            sort=self.sort,
            bloom_filters=self._bloom_filters,
            transform=transform,
        )
        found.check()
        return found

    @property
    def partitions(self) -> tuple[str, ...]:
        return _names("--partition-by", self.partition_by)

    @property
    def _bloom_filters(self) -> tuple[str, ...]:
        from rmqcli.export.output.layout import EVERYTHING

        given = _names("--bloom-filter", self.bloom_filter)
        return () if given == ("none",) else given or EVERYTHING.bloom_filters


@dataclass(frozen=True, slots=True)
class SparkOptions(OptionGroup):
    """The Spark job."""

    spark: Annotated[bool, Option("--spark", help="Run as a PySpark job; each task scans its own part.")] = (
        False
    )
    master: Annotated[
        str | None, Option("--master", metavar="URL", help="Spark master; default: local[*].")
    ] = None
    conf: Annotated[
        list[str] | None, Option("--conf", metavar="NAME=VALUE", help="Spark setting; repeatable.")
    ] = None

    def check(self) -> None:
        if not self.spark and (self.master or self.conf):
            raise usage_error("--master and --conf require --spark")

    def session(self, *, verbose: bool) -> Mapping[str, Any] | None:
        """Return the settings of the session; None without Spark."""
        from rmqcli.grammar.values import by_name

        conf = self.conf or []
        wrong = next((item for item in conf if "=" not in item or item.startswith("=")), None)
        if wrong is not None:
            raise usage_error(f"--conf {wrong}: expected NAME=VALUE")
        pairs = by_name(
            "--conf", ((name, value) for name, _, value in (item.partition("=") for item in conf))
        )
        return {"master": self.master, "conf": pairs, "verbose": verbose} if self.spark else None


@dataclass(frozen=True, slots=True)
class TableOptions(OptionGroup):
    """The table of a lakehouse."""

    table: Annotated[
        str | None,
        Option(
            "--table",
            metavar="TABLE",
            help="Add to a table instead, in one commit: delta:URI or iceberg:CATALOG.NAME; with {topic} in the "
            "name, to a table for each topic.",
        ),
    ] = None

    quarantine: Annotated[
        str | None,
        Option(
            "--quarantine",
            metavar="TABLE",
            help="With --table and --decode: add messages whose body cannot be decoded to this table instead, or to "
            "Parquet files in this folder, with the reason.",
        ),
    ] = None

    follow: Annotated[
        bool,
        Option("--follow", help="With --table: continue, with a commit whenever there are new messages."),
    ] = False
    every: Annotated[
        float | None,
        Option(
            "--every",
            metavar="SECONDS",
            min=0.1,
            help=f"With --follow: time between commits; default: {EVERY:g}.",
        ),
    ] = None

    @property
    def period(self) -> float | None:
        """The seconds between two commits; None: only one."""
        return (self.every or EVERY) if self.follow else None

    @property
    def is_for_each_topic(self) -> bool:
        return "{topic}" in (self.table or "")

    def check(
        self, out: str | None, topics: Sequence[str], partition_by: Sequence[str], *, spark: bool
    ) -> None:
        """Raise a usage error unless either a table or a folder is named, with options that apply to it."""
        if (out is None) == (self.table is None):
            raise usage_error("specify where to export to: --out DIR or --table TABLE")
        if self.is_for_each_topic and not topics:
            raise usage_error("--table with {topic} requires --topic, which may be a pattern such as '*'")
        if self.quarantine is not None and self.table is None:
            raise usage_error("--quarantine requires --table")
        if self.quarantine is not None and self.quarantine == self.table:
            raise usage_error("--quarantine must not be the table itself")
        if self.table is None and (self.follow or self.every is not None):
            raise usage_error("--follow and --every require --table")
        if self.every is not None and not self.follow:
            raise usage_error("--every requires --follow")
        if self.table is not None and spark:
            raise usage_error(
                "--table cannot be combined with --spark: a run needs one process and bounded memory"
            )
        if self.table is not None and set(partition_by) not in _OF_TABLES:
            raise usage_error(
                f"--partition-by {','.join(partition_by)}: a table is partitioned by topic,day (default) or topic,hour"
            )


_OF_TABLES = [set(), {"day"}, {"hour"}, {"topic", "day"}, {"topic", "hour"}]


def _names(option: str, given: list[str] | None) -> tuple[str, ...]:
    found = tuple(name.strip() for text in given or [] for name in text.split(",") if name.strip())
    if given and not found:
        raise usage_error(f"{option} must not be empty")
    return found


@dataclass(frozen=True, slots=True)
class Transforming(OptionGroup):
    """The options of the transform between reading rows and writing them."""

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
    registry: Annotated[
        str | None,
        Option(
            "--registry",
            metavar="URL",
            help="Instead of --decode: add the column value, the body typed by the schema of this registry (Confluent's "
            "API) that the body names.",
        ),
    ] = None
    registry_auth: Annotated[
        Path | None,
        Option("--registry-auth", metavar="FILE", help="With --registry: USER:PASSWORD, or a bearer token."),
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

    def transform(self, *, quarantine: bool) -> Transform:
        """Return the transform. Raises usage errors, and SchemaError for a schema that cannot be used."""
        from rmqcli.export.transform.transform import Transform, parse_sample

        self._check_registry()
        sample = None if self.sample is None else parse_sample("--sample", self.sample)
        return Transform(sample, self._decoding(quarantine=quarantine), self._masks())

    def _masks(self) -> Masks | None:
        from rmqcli.export.transform.masking import parse_masks, read_key

        if not self.mask:
            if self.mask_key_file is not None:
                raise usage_error("--mask-key-file requires --mask FIELD:hash")
            return None
        key = b"" if self.mask_key_file is None else read_key(self.mask_key_file)
        return parse_masks(self.mask, key, has_value=self.decode is not None or self.registry is not None)

    def _decoding(self, *, quarantine: bool) -> Decoding | None:
        from rmqcli.export.transform.decoding import FAIL, QUARANTINE, read_decoding

        if quarantine and self.on_error is not None:
            raise usage_error("--quarantine and --on-error cannot be combined")
        on_error = self.on_error or FAIL
        if self.registry is not None:
            if self.decode is not None or self.schema is not None:
                raise usage_error("--registry replaces --decode and --schema")
            require("decode", "fastavro", "google.protobuf")
            from rmqcli.export.transform.registered import read_registry

            found = read_registry(self.registry, self.registry_auth, on_error)
        elif self.decode is not None:
            if self.schema is None:
                raise usage_error("--decode requires --schema FILE")
            found = read_decoding(self.decode, self.schema, on_error)
        elif self.schema is not None or self.on_error is not None or quarantine:
            raise usage_error("--schema, --on-error and --quarantine require --decode or --registry")
        else:
            return None
        return replace(found, on_error=QUARANTINE) if quarantine else found

    def jobs(self, jobs: int | None, store: Sequence[Path] | None, *, spark: bool, again: bool) -> int | None:
        """Return the number of processes that read stores: only one can let columns grow."""
        if self.registry is None:
            return jobs
        if spark or (jobs or 1) > 1:
            raise usage_error(
                "--registry cannot be combined with --spark or --jobs: columns grow in one process"
            )
        if again:
            raise usage_error("--registry with --resume requires --table: the columns of --out do not grow")
        return 1 if store else None

    def _check_registry(self) -> None:
        if self.registry_auth is not None and self.registry is None:
            raise usage_error("--registry-auth requires --registry")
        if self.registry is not None and any(mask.startswith("value") for mask in self.mask or ()):
            raise usage_error(
                "--mask of value requires --schema: the fields of --registry are not known before"
            )
