"""Typed access to table options, with Paimon's names and defaults (documentation: maintenance/configurations).

Each property parses one option and raises InvalidOptionError naming the key, the value and the valid values.
"""

from dataclasses import dataclass

from interbed.storage.base.errors import InvalidOptionError, plain_errors
from interbed.storage.base.shown_text import all_masked
from interbed.storage.meta.options.format import (
    COMPRESSIONS,
    ExternalPathOptions,
    FormatOptions,
    SortOptions,
    WriteOptions,
)
from interbed.storage.meta.options.log import LogOptions
from interbed.storage.meta.options.lsm import LsmOptions
from interbed.storage.meta.options.optimizing import OptimizingOptions
from interbed.storage.meta.options.stream import StreamOptions
from interbed.storage.meta.options.version import VersionOptions

BUCKET = "bucket"
BUCKET_KEY = "bucket-key"
DELETION_VECTORS = "deletion-vectors.enabled"
DATA_FILE_PREFIX = "data-"
"""Default prefix of the names of data files."""
PATH = "path"
PRIMARY_KEY = "primary-key"
PARTITION = "partition"

_SWITCHES = ("deletion-vectors.merge-on-read", "force-lookup", "lookup-wait", "changelog-producer.lookup-wait")
"""Switches that a property reads only where others are set."""


def option_text(value: object) -> str:
    """Return an option's value as it is stored; booleans are spelled as in option files.

    Raises InvalidOptionError for None.
    """
    if value is None:
        raise InvalidOptionError("An option has no value: leave it out, or remove it.")
    return str(value).lower() if isinstance(value, bool) else str(value)


@plain_errors
@dataclass(frozen=True, slots=True)
class CoreOptions(
    LsmOptions,
    StreamOptions,
    FormatOptions,
    VersionOptions,
    SortOptions,
    WriteOptions,
    ExternalPathOptions,
    LogOptions,
    OptimizingOptions,
):
    """Options of one table; `raw` is the map of the schema file with the caller's dynamic options on top."""

    def __repr__(self) -> str:
        return f"CoreOptions(raw={all_masked(self.raw)!r})"

    def check(self) -> None:
        """Raise InvalidOptionError for the first option with an invalid value."""
        for owner in (*CoreOptions.__bases__, CoreOptions):
            for name, member in vars(owner).items():
                if isinstance(member, property):
                    getattr(self, name)
        self._check_others()
        if self.file_compression not in COMPRESSIONS:
            known = ", ".join(sorted(COMPRESSIONS))
            raise InvalidOptionError(f"Option 'file.compression' takes one of {known}, not '{self.file_compression}'.")

    def _check_others(self) -> None:
        """Check the options that no property reads in all cases, by the table that documents them."""
        from interbed.storage.meta.options.known.meanings import kind_of

        for key in self.raw:
            kind = "boolean" if key in _SWITCHES else kind_of(key)
            if kind is not None:
                self.check_kind(key, kind)

    # -- layout ----------------------------------------------------------------------------------------------------

    @property
    def bucket(self) -> int:
        """Number of buckets; -1 is dynamic (primary key) or unaware (append), -2 postponed."""
        return self.integer(BUCKET, -1)

    @property
    def bucket_key(self) -> tuple[str, ...]:
        """Columns whose hash selects the bucket; empty means the primary key without partition columns."""
        return self.names(BUCKET_KEY)

    @property
    def manifest_compression(self) -> str:
        """Compression codec of manifest files."""
        return self.text("manifest.compression", "zstd").lower()

    @property
    def partition_default_name(self) -> str:
        """Directory name of a null or blank partition value; no new row has it as a text."""
        return self.text("partition.default-name", "__DEFAULT_PARTITION__")

    @property
    def partition_legacy_name(self) -> bool:
        """Whether partition values are rendered as in old versions of Paimon (dates as days, for instance)."""
        return self.boolean("partition.legacy-name", True)

    @property
    def data_file_prefix(self) -> str:
        """Prefix of the names of data files."""
        return self.name_prefix("data-file.prefix", DATA_FILE_PREFIX)

    @property
    def data_file_directory(self) -> str | None:
        """Directory below the table's that holds partitions and buckets; None for the table's own."""
        return self.inner_directory("data-file.path-directory")

    @property
    def thin_mode(self) -> bool:
        """Whether new data files leave out the `_KEY_*` columns."""
        return self.boolean("data-file.thin-mode", False)

    @property
    def row_tracking_enabled(self) -> bool:
        """Whether each row of an append table keeps an id through rewrites of its file."""
        return self.boolean("row-tracking.enabled", False)

    @property
    def data_evolution_enabled(self) -> bool:
        """Whether the rows of a table that tracks rows are put together from files of some of their columns."""
        return self.boolean("data-evolution.enabled", False)

    @property
    def row_ids_by_partition(self) -> bool:
        """Whether a commit gives the new rows of each partition ids without gaps."""
        return self.boolean("row-tracking.partition-group-on-commit", True)

    # -- write -----------------------------------------------------------------------------------------------------

    @property
    def write_buffer_size(self) -> int:
        """Bytes that all buckets of one writer buffer together before flushing."""
        return self.memory("write-buffer-size", 256 << 20)

    @property
    def target_file_size(self) -> int:
        """Bytes at which a data file is rolled; target_file_size_for has the default of append tables."""
        return self.memory("target-file-size", 128 << 20)

    def target_file_size_for(self, *, primary_key: bool) -> int:
        """Return the bytes at which a data file is rolled: 128 MB with a primary key, 256 MB without, unless set."""
        return self.memory("target-file-size", (128 if primary_key else 256) << 20)

    @property
    def write_only(self) -> bool:
        """Whether writers leave compaction to a dedicated job."""
        return self.boolean(self.first("write-only", "write.compaction-skip"), False)

    @property
    def dynamic_partition_overwrite(self) -> bool:
        """Whether an overwrite without a partition replaces only the partitions that the data touches."""
        return self.boolean("dynamic-partition-overwrite", True)

    # -- commit ----------------------------------------------------------------------------------------------------

    @property
    def commit_max_retries(self) -> int:
        """How often a commit that lost the race for a snapshot id tries again."""
        return self.integer("commit.max-retries", 10)

    @property
    def commit_timeout_millis(self) -> int | None:
        """How long a commit may retry in all; None means as long as it has retries."""
        return self.duration_millis("commit.timeout", 0) or None

    @property
    def commit_min_retry_wait_millis(self) -> int:
        """First pause between two tries of a commit."""
        return self.duration_millis("commit.min-retry-wait", 10)

    @property
    def commit_max_retry_wait_millis(self) -> int:
        """Longest pause between two tries of a commit."""
        return self.duration_millis("commit.max-retry-wait", 10_000)

    @property
    def manifest_target_file_size(self) -> int:
        """Suggested bytes of a manifest."""
        return self.memory("manifest.target-file-size", 8 << 20)

    @property
    def manifest_full_compaction_size(self) -> int:
        """Bytes of small or deleting manifests that trigger their full rewrite."""
        return self.memory("manifest.full-compaction-threshold-size", 16 << 20)

    @property
    def manifest_merge_min_count(self) -> int:
        """Number of small manifests that triggers merging them."""
        return self.integer("manifest.merge-min-count", 30)

    @property
    def file_index_in_manifest_threshold(self) -> int:
        """Bytes up to which the indexes of a data file go into the manifest instead of a file of their own."""
        return self.memory("file-index.in-manifest-threshold", 500)

    @property
    def file_index_read_enabled(self) -> bool:
        """Whether reads use file indexes."""
        return self.boolean("file-index.read.enabled", True)

    # -- scan ------------------------------------------------------------------------------------------------------

    @property
    def split_target_size(self) -> int:
        """Bytes of data files that are packed into one split."""
        return self.memory("source.split.target-size", 128 << 20)

    @property
    def split_open_file_cost(self) -> int:
        """Bytes that opening a file counts for when splits are packed."""
        return self.memory("source.split.open-file-cost", 4 << 20)

    @property
    def read_verify_checksums(self) -> bool:
        """Whether reads verify the checksums of data files that have some; Paimon does not know this option."""
        return self.boolean("read.verify-checksums", True)
