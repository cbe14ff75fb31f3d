"""Options of the files of a table: formats, codecs, sizes, statistics, external paths, durability, order of the rows.

Names and defaults are Paimon's (documentation: maintenance/configurations). Source of `data-file.external-paths` and
its strategies: paimon-core `AbstractFileStore.createExternalPaths`, paimon-common `fs.ExternalPathProvider`.

Sources of the options of schema merges and of the order of sort compaction: Paimon's documentation pages
`spark/sql-write` ("Write Merge Schema") and `maintenance/dedicated-compaction` (sort compact). Paimon's newest release
widens types only with `write.merge-schema.type-widening`; older releases, which lack that option, always do, and so
does interbed unless the option is false.

Options of tables of files: which tables are such, and which options have an effect on them.

A format table is a directory of files of one format (storage.table.format_table), an object table a list of any files
(storage.table.object_table).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.reader import OptionReader

FILE_FORMATS = ("parquet", "orc", "avro")
"""Formats of data files and of manifests."""
COMPRESSIONS = frozenset(
    {
        *("none", "uncompressed", "null", "snappy", "gzip", "lz4", "lz4_raw", "zstd", "brotli", "zlib", "lzo"),
        *("deflate", "bzip2", "xz", "zstandard"),
    }
)
"""Codecs of Parquet, ORC and Avro files; `files.format.layout` has those of each format."""


@dataclass(frozen=True, slots=True)
class FormatOptions(OptionReader):
    """Options of data files. Sizes in bytes."""

    @property
    def file_format(self) -> str:
        """Format of data files: parquet, orc or avro."""
        return self.text("file.format", "parquet").lower()

    @property
    def manifest_format(self) -> str:
        """Format of manifests: parquet, orc or avro."""
        value = self.text("manifest.format", "avro").lower()
        if value not in FILE_FORMATS:
            known = ", ".join(FILE_FORMATS)
            raise InvalidOptionError(f"Option 'manifest.format' takes one of {known}, not '{value}'.")
        return value

    @property
    def file_compression(self) -> str:
        """Codec of data files."""
        return self.text("file.compression", "zstd").lower()

    @property
    def zstd_level(self) -> int:
        """Level of zstd compression of data files."""
        return self.integer("file.compression.zstd-level", 1)

    @property
    def format_by_level(self) -> dict[int, str]:
        """Formats of data files of some levels, where they differ."""
        return self.by_level("file.format.per.level")

    @property
    def compression_by_level(self) -> dict[int, str]:
        """Codecs of data files of some levels, where they differ."""
        return self.by_level("file.compression.per.level")

    @property
    def stats_mode_by_level(self) -> dict[int, str]:
        """Modes of statistics of some levels, where they differ."""
        return self.by_level("metadata.stats-mode.per.level")

    @property
    def changelog_format(self) -> str | None:
        """Format of changelog files; None for that of data files."""
        return self.text("changelog-file.format", "").lower() or None

    @property
    def changelog_compression(self) -> str | None:
        """Codec of changelog files; None for that of data files."""
        return self.text("changelog-file.compression", "").lower() or None

    @property
    def changelog_stats_mode(self) -> str | None:
        """Mode of the statistics of changelog files in manifests; None for that of data files."""
        return self.text("changelog-file.stats-mode", "").lower() or None

    @property
    def file_block_size(self) -> int | None:
        """Bytes of a Parquet row group or an ORC stripe; None for the writer's own choice."""
        return self.optional_memory("file.block-size")

    @property
    def parquet_block_size(self) -> int | None:
        """Bytes in memory of the rows of a row group; `file.block-size` goes before Parquet's own option."""
        size = self.file_block_size
        return self.optional_memory("parquet.block.size") if size is None else size

    @property
    def parquet_page_size(self) -> int:
        """Uncompressed bytes at which a page of a Parquet file is closed."""
        return self.memory("parquet.page.size", 1 << 20)

    @property
    def parquet_page_rows(self) -> int | None:
        """Rows at which a page of a Parquet file is closed; unset means 8192 for files of level 0, otherwise 20000."""
        return self.optional_integer("parquet.page.row.count.limit")

    @property
    def parquet_dictionary(self) -> bool:
        """Whether columns of Parquet files may have dictionaries."""
        return self.boolean("parquet.enable.dictionary", True)

    @property
    def parquet_dictionary_size(self) -> int:
        """Bytes of a dictionary above which the rest of a column is written without one."""
        return self.memory("parquet.dictionary.page.size", 1 << 20)

    @property
    def parquet_zstd_level(self) -> int:
        """Level of zstd compression of Parquet files."""
        return self.integer("parquet.compression.codec.zstd.level", self.zstd_level)

    @property
    def orc_stripe_size(self) -> int:
        """Bytes at which a stripe of an ORC file is closed; `file.block-size` goes before ORC's own option."""
        size = self.file_block_size
        return self.memory("orc.stripe.size", 64 << 20) if size is None else size

    @property
    def orc_block_size(self) -> int:
        """Uncompressed bytes that are compressed at once in ORC files."""
        return self.memory("orc.compress.size", 256 << 10)

    @property
    def orc_row_index_stride(self) -> int:
        """Number of rows that share statistics in an ORC file."""
        return self.integer("orc.row.index.stride", 10_000)

    @property
    def orc_dictionary_threshold(self) -> float:
        """The share of distinct values up to which a column of an ORC file has a dictionary."""
        return self.number("orc.dictionary.key.threshold", 0.8)

    @property
    def orc_bloom_filter_columns(self) -> tuple[str, ...]:
        """Columns for which ORC files have Bloom filters."""
        return self.names("orc.bloom.filter.columns")

    @property
    def orc_bloom_filter_fpp(self) -> float:
        """False-positive rate of those Bloom filters."""
        return self.number("orc.bloom.filter.fpp", 0.01)

    @property
    def orc_zstd_level(self) -> int:
        """Level of zstd compression of ORC files; liborc knows two, for speed (1) and for size."""
        return self.integer("orc.compression.zstd.level", self.zstd_level)

    @property
    def suffix_includes_compression(self) -> bool:
        """Whether names of data files contain their codec, as in `.zstd.parquet`."""
        return self.boolean("file.suffix.include.compression", False)

    @property
    def target_file_rows(self) -> int | None:
        """Rows at which a newly written data file is rolled; None for no such bound. Compaction ignores it."""
        rows = self.optional_integer("target-file-row-num")
        if rows is not None and rows < 1:
            raise InvalidOptionError(f"Option 'target-file-row-num' is {rows}; a file has at least 1 row.")
        return rows

    @property
    def stats_mode(self) -> str:
        """Statistics in manifests: none, counts, truncate(n) or full."""
        return self.text("metadata.stats-mode", "truncate(16)").lower()


EXTERNAL_PATHS = "data-file.external-paths"
_STRATEGY = "data-file.external-paths.strategy"
_SPECIFIC_FS = "data-file.external-paths.specific-fs"
_WEIGHTS = "data-file.external-paths.weights"
_URI = re.compile(r"^([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?(/.*)$", re.DOTALL)


class ExternalPathStrategy(StrEnum):
    """Strategy for choosing the external path of a new file."""

    NONE = "none"
    SPECIFIC_FS = "specific-fs"
    ROUND_ROBIN = "round-robin"
    ENTROPY_INJECT = "entropy-inject"
    WEIGHTED = "weight-robin"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalPaths:
    """Directories outside of the table, as URIs in Java's spelling; `weights` are those of a weighted choice."""

    roots: tuple[str, ...]
    strategy: ExternalPathStrategy
    weights: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class ExternalPathOptions(OptionReader):
    """Options of data files outside of the table's directory."""

    @property
    def external_roots(self) -> tuple[str, ...]:
        """URIs of external directories, in the table's file system, below which the strategy puts data files."""
        return tuple(_root(text) for text in self.names(EXTERNAL_PATHS))

    @property
    def external_paths(self) -> ExternalPaths | None:
        """Strategy and directories for the external paths of new data files; None for the table's own directory."""
        strategy = self.choice(_STRATEGY, ExternalPathStrategy.NONE)
        roots = self.external_roots
        if strategy is ExternalPathStrategy.NONE or not roots:
            return None
        if strategy is ExternalPathStrategy.SPECIFIC_FS:
            scheme = self.text(_SPECIFIC_FS, "").lower()
            if not scheme:
                raise InvalidOptionError(f"Option '{_STRATEGY}' = '{strategy}' needs '{_SPECIFIC_FS}'.")
            chosen = tuple(root for root in roots if root.partition(":")[0].lower() == scheme)
            if not chosen:
                raise InvalidOptionError(
                    f"Option '{_SPECIFIC_FS}' = '{scheme}' is the scheme of no path of '{EXTERNAL_PATHS}'."
                )
            return ExternalPaths(roots=chosen, strategy=strategy)
        if strategy is ExternalPathStrategy.WEIGHTED:
            return ExternalPaths(roots=roots, strategy=strategy, weights=self._weights(len(roots)))
        return ExternalPaths(roots=roots, strategy=strategy)

    def _weights(self, paths: int) -> tuple[int, ...] | None:
        texts = self.names(_WEIGHTS)
        if not texts:
            return None
        weights = tuple(int(text) if text.isdecimal() else 0 for text in texts)
        if min(weights) < 1 or len(weights) != paths:
            raise InvalidOptionError(
                f"Option '{_WEIGHTS}' takes a positive number for each path of '{EXTERNAL_PATHS}', "
                f"not '{self.raw[_WEIGHTS]}'."
            )
        return weights


def _root(text: str) -> str:
    match = _URI.match(text)
    if match is None:
        raise InvalidOptionError(
            f"Option '{EXTERNAL_PATHS}' takes URIs such as 'file:///data/t' or 's3://bucket/t', not '{text}'."
        )
    if {".", ".."} & set(match[3].split("/")):
        raise InvalidOptionError(f"Option '{EXTERNAL_PATHS}' takes paths without '.' and '..', not '{text}'.")
    authority = f"//{match[2]}" if match[2] else ""
    # Java's Path drops an empty authority, and manifests have its spelling.
    return f"{match[1]}:{authority}{re.sub('/+', '/', match[3]).rstrip('/')}"


MERGE_SCHEMA = "write.merge-schema"
TYPE_WIDENING = "write.merge-schema.type-widening"
EXPLICIT_CAST = "write.merge-schema.explicit-cast"
COMMIT_SYNC = "commit.sync"


class CommitSync(StrEnum):
    """Files that are durable when a commit returns: all that its snapshot refers to, its own file alone, or none."""

    FULL = "full"
    SNAPSHOT = "snapshot"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class WriteOptions(OptionReader):
    """Options of schema merges and of the durability of writes."""

    @property
    def commit_sync(self) -> CommitSync:
        """Data that survives a power cut once a commit to a local file system has returned.

        `full`: all of it. `snapshot`: the file of the snapshot and small files of metadata, but not the files that they
        refer to. `none`: only schemas. Without effect on object stores, whose writes are durable.
        """
        return self.choice(COMMIT_SYNC, CommitSync.FULL)

    @property
    def merges_schema(self) -> bool:
        """Whether columns that only the rows have are added to the table."""
        return self.boolean(MERGE_SCHEMA, False)

    @property
    def widens_types(self) -> bool:
        """Whether merging also gives a column a type that holds both its own values and those of the rows."""
        return self.boolean(TYPE_WIDENING, True)

    @property
    def casts_types(self) -> bool:
        """Whether merging also gives a column the rows' type where old values may lose precision."""
        return self.boolean(EXPLICIT_CAST, False)


class RangeStrategy(StrEnum):
    """Quantity that is about equal in ranges of sorted rows."""

    SIZE = "size"
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class SortOptions(OptionReader):
    """Options of the sort compaction."""

    @property
    def sort_range_strategy(self) -> RangeStrategy:
        """Whether the ranges of a sort have the same bytes or the same number of rows."""
        return self.choice("sort-compaction.range-strategy", RangeStrategy.SIZE)

    @property
    def sort_sample_magnification(self) -> int:
        """Number of rows that are sampled for each range of a sort; at least 20."""
        return self.integer("sort-compaction.local-sample.magnification", 1000)


TYPE = "type"
FORMAT_TABLE = "format-table"
OBJECT_TABLE = "object-table"
IMPLEMENTATION = "format-table.implementation"
ONLY_VALUES = "format-table.partition-path-only-value"
COMPRESSION = "format-table.file.compression"
COMMIT_HIVE_SYNC = "format-table.commit-hive-sync-url"
PARTITIONED_IN_CATALOG = "metastore.partitioned-table"
COMPRESSION_KEYS = ("file.compression", COMPRESSION, "compression")

USED = frozenset(
    {
        *(TYPE, "path", "file.format", *COMPRESSION_KEYS, IMPLEMENTATION, ONLY_VALUES, PARTITIONED_IN_CATALOG),
        *("partition", "partition.default-name", "partition.legacy-name", "dynamic-partition-overwrite"),
        *("target-file-size", "target-file-row-num", "data-file.prefix", "file.suffix.include.compression"),
        *("file.compression.zstd-level", "file.block-size", "read.verify-checksums"),
    }
)
USED_PREFIXES = ("csv.", "json.", "text.", "parquet.", "orc.", "avro.")


def is_format_table(options: Mapping[str, str]) -> bool:
    """Return whether the options are those of a format table."""
    return options.get(TYPE, "").strip().lower() == FORMAT_TABLE


def is_object_table(options: Mapping[str, str]) -> bool:
    """Return whether the options are those of an object table."""
    return options.get(TYPE, "").strip().lower() == OBJECT_TABLE


def applies(key: str, *, to_objects: bool = False) -> bool:
    """Return whether an option may have an effect on a format table, or with `to_objects` on an object table, or is a
    property of the user.
    """
    if key in (TYPE, "path") or (not to_objects and (key in USED or key.startswith(USED_PREFIXES))):
        return True
    # By use: opening a table does not need them.
    from interbed.storage.meta.options.known.check import known_option
    from interbed.storage.meta.options.known.refused import OptionStatus

    option = known_option(key)
    return option is None or option.status is OptionStatus.HARMLESS
