"""Options of reads: the start of a read, and how changes are read as a stream or between two points.

Names and defaults are Paimon's (documentation: maintenance/configurations).
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from interbed.storage.base.clock import instant_millis
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.reader import OptionReader

SCAN_MODE = "scan.mode"
SCAN_SNAPSHOT_ID = "scan.snapshot-id"
SCAN_TIMESTAMP = "scan.timestamp"
SCAN_TIMESTAMP_MILLIS = "scan.timestamp-millis"
SCAN_WATERMARK = "scan.watermark"
SCAN_VERSION = "scan.version"
SCAN_TAG_NAME = "scan.tag-name"
SCAN_FILE_CREATION_TIME = "scan.file-creation-time-millis"
SCAN_CREATION_TIME = "scan.creation-time-millis"
FALLBACK_BRANCH = "scan.fallback-branch"
INCREMENTAL_BETWEEN = "incremental-between"
INCREMENTAL_BETWEEN_TIMESTAMP = "incremental-between-timestamp"
INCREMENTAL_TO_AUTO_TAG = "incremental-to-auto-tag"

READ_CHANGELOG = "read.changelog"

_MIN_ROWS = ("read.stream.minRowsPerTrigger", "read.stream.maxTriggerDelayMs")
_TIMES = (SCAN_TIMESTAMP_MILLIS, "log.scan.timestamp-millis", SCAN_TIMESTAMP)
_SNAPSHOTS = (SCAN_SNAPSHOT_ID, SCAN_TAG_NAME, SCAN_WATERMARK, SCAN_VERSION)
_INCREMENTS = (INCREMENTAL_BETWEEN, INCREMENTAL_BETWEEN_TIMESTAMP, INCREMENTAL_TO_AUTO_TAG)


class StartupMode(StrEnum):
    """Mode that determines the start of a read."""

    DEFAULT = "default"
    LATEST_FULL = "latest-full"
    FULL = "full"
    LATEST = "latest"
    COMPACTED_FULL = "compacted-full"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_FILE_CREATION_TIME = "from-file-creation-time"
    FROM_CREATION_TIMESTAMP = "from-creation-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"
    INCREMENTAL = "incremental"


OF_ONE_SNAPSHOT = (StartupMode.LATEST_FULL, StartupMode.LATEST, StartupMode.COMPACTED_FULL)
"""Modes in which a batch read sees one whole snapshot."""


class IncrementalScanMode(StrEnum):
    """Source of the changes between snapshots: new files, changelog files, a comparison, or what is available."""

    AUTO = "auto"
    DELTA = "delta"
    CHANGELOG = "changelog"
    DIFF = "diff"


@dataclass(frozen=True, slots=True)
class StreamOptions(OptionReader):
    """Options of reads. Times in milliseconds since the epoch, durations in milliseconds."""

    @property
    def startup_mode(self) -> StartupMode:
        """Mode of `scan.mode`, or the one that the other options imply; raises InvalidOptionError."""
        mode = self.choice(self.first(SCAN_MODE, "log.scan"), StartupMode.DEFAULT)
        if mode is StartupMode.FULL:
            mode = StartupMode.LATEST_FULL
        elif mode is StartupMode.DEFAULT:
            implied = (
                (StartupMode.FROM_TIMESTAMP, _TIMES),
                (StartupMode.FROM_SNAPSHOT, _SNAPSHOTS),
                (StartupMode.FROM_FILE_CREATION_TIME, (SCAN_FILE_CREATION_TIME,)),
                (StartupMode.FROM_CREATION_TIMESTAMP, (SCAN_CREATION_TIME,)),
                (StartupMode.INCREMENTAL, _INCREMENTS),
            )
            found = (m for m, keys in implied if any(k in self.raw for k in keys))
            mode = next(found, StartupMode.LATEST_FULL)
        self._check_startup(mode)
        return mode

    @property
    def scan_snapshot_id(self) -> int | None:
        """Snapshot that a read starts from."""
        return self.optional_integer(SCAN_SNAPSHOT_ID)

    @property
    def scan_time_millis(self) -> int | None:
        """Time that a read starts from; `scan.timestamp` is in the local time zone."""
        key = self.first(SCAN_TIMESTAMP_MILLIS, "log.scan.timestamp-millis")
        if key in self.raw:
            return self.integer(key, 0)
        text = self.raw.get(SCAN_TIMESTAMP)
        return None if text is None else parse_local_millis(SCAN_TIMESTAMP, text)

    @property
    def scan_file_creation_millis(self) -> int | None:
        """Time before which files must not have been created, by their own clock."""
        return self.optional_integer(SCAN_FILE_CREATION_TIME)

    @property
    def scan_creation_millis(self) -> int | None:
        """Time of the first snapshot to read; without such a snapshot the creation time of files decides."""
        return self.optional_integer(SCAN_CREATION_TIME)

    @property
    def scan_watermark(self) -> int | None:
        """Watermark that the snapshot to read must have at least."""
        return self.optional_integer(SCAN_WATERMARK)

    @property
    def bounded_watermark(self) -> int | None:
        """Watermark after which a stream ends: at the first snapshot with a greater one."""
        return self.optional_integer("scan.bounded.watermark")

    @property
    def streaming_read_overwrite(self) -> bool:
        """Whether streams of a primary-key table contain the changes of overwrites (`none` and `input` changelogs)."""
        return self.boolean("streaming-read-overwrite", False)

    @property
    def streaming_read_append_overwrite(self) -> bool:
        """Whether streams of an append table have the new rows of overwrites."""
        return self.boolean("streaming-read-append-overwrite", False)

    @property
    def streaming_read_delay_millis(self) -> int | None:
        """Age that a snapshot must have before a stream reads it."""
        return self.optional_duration_millis("streaming.read.snapshot.delay")

    @property
    def discovery_interval_millis(self) -> int:
        """Interval at which a stream looks for new snapshots."""
        return self.duration_millis("continuous.discovery-interval", 10_000)

    @property
    def epoch_note_retained_millis(self) -> int:
        """Time for which the last commit of a stream into the table is recorded; Paimon has no such records."""
        return self.duration_millis("stream.epoch-note.time-retained", 30 * 24 * 3_600_000)

    @property
    def fallback_branch(self) -> str | None:
        """Branch from which batch reads take partitions that the table lacks."""
        return self.text(FALLBACK_BRANCH, "").strip() or None

    @property
    def consumer_id(self) -> str | None:
        """Name under which a stream keeps its progress with the table."""
        return self.text("consumer-id", "") or None

    @property
    def consumer_ignore_progress(self) -> bool:
        """Whether a stream ignores progress that was kept."""
        return self.boolean("consumer.ignore-progress", False)

    @property
    def max_files_per_trigger(self) -> int | None:
        """Greatest number of files of a micro-batch."""
        return self.optional_integer("read.stream.maxFilesPerTrigger")

    @property
    def max_bytes_per_trigger(self) -> int | None:
        """Greatest number of bytes of a micro-batch."""
        return self.optional_integer("read.stream.maxBytesPerTrigger")

    @property
    def max_rows_per_trigger(self) -> int | None:
        """Greatest number of rows of a micro-batch, before merging."""
        return self.optional_integer("read.stream.maxRowsPerTrigger")

    @property
    def min_rows_per_trigger(self) -> tuple[int, int] | None:
        """Least number of rows of a micro-batch, and the milliseconds after which fewer are taken."""
        rows, delay = (self.optional_integer(key) for key in _MIN_ROWS)
        if rows is None or delay is None:
            if rows is not None or delay is not None:
                raise InvalidOptionError(f"Give both of the options '{_MIN_ROWS[0]}' and '{_MIN_ROWS[1]}', or neither.")
            return None
        return rows, delay

    @property
    def reads_changelog(self) -> bool:
        """Whether Spark reads the audit log instead of the table."""
        return self.boolean(READ_CHANGELOG, False)

    @property
    def incremental_between(self) -> tuple[str, str] | None:
        """Snapshot after which the changes to read begin, and the last one: their ids, or two tags."""
        return self._pair(INCREMENTAL_BETWEEN, "two snapshot ids such as '5,10', or two tags")

    @property
    def incremental_between_millis(self) -> tuple[int, int] | None:
        """Time after which the changes to read were committed, and the last time."""
        key = INCREMENTAL_BETWEEN_TIMESTAMP
        pair = self._pair(key, "two times such as '2026-01-01 00:00:00,2026-01-02 00:00:00'")
        if pair is None:
            return None
        numbers = all(t.lstrip("-").isdigit() for t in pair)
        first, last = (int(t) if numbers else parse_local_millis(key, t) for t in pair)
        if last < first:
            raise InvalidOptionError(f"Option '{key}' ends before it begins: '{self.raw[key]}'.")
        return first, last

    @property
    def incremental_to_auto_tag(self) -> str | None:
        """Automatic tag up to which changes are read, beginning with the tag before it."""
        return self.raw.get(INCREMENTAL_TO_AUTO_TAG)

    @property
    def incremental_tags_are_snapshots(self) -> bool:
        """Whether the changes between two tags are those of the snapshots between them, instead of a comparison."""
        return self.boolean("incremental-between-tag-to-snapshot", False)

    @property
    def incremental_scan_mode(self) -> IncrementalScanMode:
        """Source of the changes between two snapshots."""
        return self.choice("incremental-between-scan-mode", IncrementalScanMode.AUTO)

    @property
    def reads_sequence_numbers(self) -> bool:
        """Whether audit log and binlog have a column with sequence numbers."""
        return self.boolean("table-read.sequence-number.enabled", False)

    def _pair(self, key: str, takes: str) -> tuple[str, str] | None:
        text = self.raw.get(key)
        if text is None:
            return None
        parts = [p.strip() for p in text.split(",")]
        if len(parts) != 2 or not all(parts):
            raise InvalidOptionError(f"Option '{key}' takes {takes}, not '{text}'.")
        return parts[0], parts[1]

    def _check_startup(self, mode: StartupMode) -> None:
        """Raise InvalidOptionError unless exactly the options that the mode takes are given."""
        takes: tuple[str, ...] = ()
        if mode is StartupMode.FROM_TIMESTAMP:
            takes = _TIMES
        elif mode is StartupMode.FROM_SNAPSHOT:
            takes = _SNAPSHOTS
        elif mode is StartupMode.FROM_SNAPSHOT_FULL:
            takes = (SCAN_SNAPSHOT_ID,)
        elif mode is StartupMode.INCREMENTAL:
            takes = _INCREMENTS
        elif mode is StartupMode.FROM_FILE_CREATION_TIME:
            takes = (SCAN_FILE_CREATION_TIME,)
        elif mode is StartupMode.FROM_CREATION_TIMESTAMP:
            takes = (SCAN_CREATION_TIME,)
        # As in Paimon, a creation time is ignored beside another start.
        known = (*_TIMES, *_SNAPSHOTS, *_INCREMENTS, SCAN_FILE_CREATION_TIME)
        given = [k for k in dict.fromkeys((*known, *takes)) if k in self.raw]
        wrong = [k for k in given if k not in takes]
        if wrong and given != wrong:
            raise InvalidOptionError(
                f"Give only one of the options '{wrong[0]}' and '{next(k for k in given if k in takes)}'."
            )
        if wrong:
            raise InvalidOptionError(f"Option '{wrong[0]}' must not be given with '{SCAN_MODE}' = '{mode}'.")
        if len(given) > 1:
            raise InvalidOptionError(f"Give only one of the options '{given[0]}' and '{given[1]}'.")
        if takes and not given:
            raise InvalidOptionError(f"'{SCAN_MODE}' = '{mode}' needs the option '{takes[0]}'.")


def parse_local_millis(key: str, text: str) -> int:
    """Return a local date, or date and time, in milliseconds since the epoch; raises InvalidOptionError."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidOptionError(f"Option '{key}' takes a time such as '2026-01-31 12:30:00', not '{text}'.") from None
    return instant_millis(moment)
