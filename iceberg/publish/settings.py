"""The options `metadata.iceberg.*` of a table, with Paimon's names and defaults.

Source: documentation page `iceberg/configurations`, paimon-core's IcebergOptions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pyiceberg.typedef import TableVersion

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.core import CoreOptions

STORAGE = "metadata.iceberg.storage"
STORAGE_LOCATION = "metadata.iceberg.storage-location"
FORMAT_VERSION = "metadata.iceberg.format-version"
MANIFEST_COMPRESSION = "metadata.iceberg.manifest-compression"
DATABASE = "metadata.iceberg.database"
TABLE = "metadata.iceberg.table"
URI = "metadata.iceberg.uri"
REST = "metadata.iceberg.rest."
"""Prefix of the properties of a REST catalog."""

_CODECS = {
    "snappy": "snappy",
    "zstd": "zstandard",
    "zstandard": "zstandard",
    "deflate": "deflate",
    "gzip": "deflate",
    "bzip2": "bzip2",
    "null": "null",
    "none": "null",
    "uncompressed": "null",
}
"""Avro's codecs by the values of the option."""


class Storage(StrEnum):
    """The kind of publication of the table."""

    DISABLED = "disabled"
    TABLE_LOCATION = "table-location"
    HADOOP_CATALOG = "hadoop-catalog"
    HIVE_CATALOG = "hive-catalog"
    REST_CATALOG = "rest-catalog"


class StorageLocation(StrEnum):
    """The place of the metadata: below the table, or in a warehouse of their own beside the database."""

    TABLE_LOCATION = "table-location"
    CATALOG_LOCATION = "catalog-location"


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """The options of a table. `databases` and `table` name entries of a catalog, by default the table's own names.
    `rest` are the properties of a REST catalog.
    """

    storage: Storage
    location: StorageLocation
    format_version: TableVersion
    codec: str
    legacy_lists: bool
    compact_min: int
    compact_max: int
    deletes_old: bool
    previous_max: int
    target_bytes: int
    databases: tuple[str, ...]
    table: str | None
    uri: str | None
    conf_directories: tuple[str, ...]
    skips_statistics: bool
    skips_archive: bool
    rest: Mapping[str, str]

    @staticmethod
    def of(options: CoreOptions) -> "PublishSettings":
        """Return the settings of a table. Raises InvalidOptionError for invalid values."""
        storage = options.choice(STORAGE, Storage.DISABLED)
        beside = storage is Storage.TABLE_LOCATION
        default = StorageLocation.TABLE_LOCATION if beside else StorageLocation.CATALOG_LOCATION
        directories = (
            options.text("metadata.iceberg.hive-conf-dir", ""),
            options.text("metadata.iceberg.hadoop-conf-dir", ""),
        )
        return PublishSettings(
            storage=storage,
            location=options.choice(STORAGE_LOCATION, default),
            format_version=_version(options),
            codec=_codec(options),
            legacy_lists=options.boolean("metadata.iceberg.manifest-legacy-version", False),
            compact_min=options.integer("metadata.iceberg.compaction.min.file-num", 10),
            compact_max=options.integer("metadata.iceberg.compaction.max.file-num", 50),
            deletes_old=options.boolean("metadata.iceberg.delete-after-commit.enabled", True),
            previous_max=max(0, options.integer("metadata.iceberg.previous-versions-max", 0)),
            target_bytes=options.manifest_target_file_size,
            databases=tuple(part.strip() for part in options.text(DATABASE, "").split(";") if part.strip()),
            table=options.text(TABLE, "") or None,
            uri=options.text(URI, "") or options.raw.get("hive.metastore.uris") or None,
            conf_directories=tuple(filter(None, directories)),
            skips_statistics=options.boolean("metadata.iceberg.hive-skip-update-stats", False),
            skips_archive=options.boolean("metadata.iceberg.glue.skip-archive", False),
            rest={key.removeprefix(REST): value for key, value in options.raw.items() if key.startswith(REST)},
        )


def shows_vectors(options: CoreOptions) -> bool:
    """Return whether readers of Iceberg get the table's deletion vectors, and with them all of its rows."""
    return (
        options.deletion_vectors_enabled
        and options.deletion_vectors_bitmap64
        and options.integer(FORMAT_VERSION, 2) == 3
    )


def _version(options: CoreOptions) -> TableVersion:
    match options.integer(FORMAT_VERSION, 2):
        case 2:
            return 2
        case 3:
            return 3
        case other:
            raise InvalidOptionError(f"Option '{FORMAT_VERSION}' takes 2 or 3, not '{other}'.")


def _codec(options: CoreOptions) -> str:
    name = options.text(MANIFEST_COMPRESSION, "snappy")
    codec = _CODECS.get(name.lower())
    if codec is None:
        raise InvalidOptionError(f"Option '{MANIFEST_COMPRESSION}' takes one of {', '.join(_CODECS)}, not '{name}'.")
    return codec
