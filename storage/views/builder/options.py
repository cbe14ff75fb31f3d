"""The keys of table options by pypaimon's names for them: `OptionNames.SCAN_SNAPSHOT_ID` is `scan.snapshot-id`."""

_KEYS = (
    "add-column-before-partition",
    "branch",
    "bucket",
    "bucket-key",
    "changelog-file.format",
    "changelog-producer",
    "commit.max-retries",
    "commit.max-retry-wait",
    "commit.min-retry-wait",
    "commit.timeout",
    "commit.user-prefix",
    "data-file.external-paths",
    "data-file.prefix",
    "dynamic-bucket.max-buckets",
    "dynamic-bucket.target-row-num",
    "dynamic-partition-overwrite",
    "file.block-size",
    "file.compression",
    "file.compression.per.level",
    "file.compression.zstd-level",
    "file.format",
    "file.format.per.level",
    "ignore-delete",
    "incremental-between-timestamp",
    "manifest.compression",
    "manifest.merge-min-count",
    "manifest.target-file-size",
    "merge-engine",
    "metadata.stats-mode",
    "partition.default-name",
    "path",
    "primary-key.nullable",
    "read.batch-size",
    "scan.creation-time-millis",
    "scan.fallback-branch",
    "scan.file-creation-time-millis",
    "scan.mode",
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.watermark",
    "sequence.field",
    "sequence.field.sort-order",
    "source.split.open-file-cost",
    "source.split.target-size",
    "target-file-row-num",
    "target-file-size",
    "type",
)


class ConfigOption(str):
    """The key of an option, as text; `key()` is how pypaimon asks for it."""

    __slots__ = ()

    def key(self) -> str:
        """The key."""
        return str(self)


class _ByName(type):
    """Finds options by name."""

    def __getattr__(cls, name: str) -> ConfigOption:
        key = _BY_NAME.get(name)
        if key is None:
            raise AttributeError(
                f"interbed has no name {name!r} for an option; give its key as text, such as 'scan.snapshot-id'."
            )
        return key

    def __dir__(cls) -> list[str]:
        return sorted(_BY_NAME)


class OptionNames(metaclass=_ByName):
    """What pypaimon's CoreOptions names: options as class attributes, `.` and `-` of their keys as `_`."""


_BY_NAME = {key.upper().replace(".", "_").replace("-", "_"): ConfigOption(key) for key in _KEYS}
