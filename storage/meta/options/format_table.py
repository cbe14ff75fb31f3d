"""Options of format tables: which tables are such, and which options have an effect on them.

A format table is a directory of files of one format; see storage.table.format_table.
"""

from collections.abc import Mapping

TYPE = "type"
FORMAT_TABLE = "format-table"
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


def applies(key: str) -> bool:
    """Return whether an option may have an effect on a format table, or is a property of the user."""
    if key in USED or key.startswith(USED_PREFIXES):
        return True
    # By use: opening a table does not need them.
    from interbed.storage.meta.options.known.check import known_option
    from interbed.storage.meta.options.known.refused import OptionStatus

    option = known_option(key)
    return option is None or option.status is OptionStatus.HARMLESS
