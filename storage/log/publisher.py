"""Publisher of a table's snapshots in its log, exactly once each and in order, after their commit.

The records of a snapshot are those of a stream of the table's files. They are appended from committed snapshots, in one
transaction for each that also has its marker. So nothing is prepared before a commit, and nothing is resolved after a
crash: a publisher takes the log over, reads its last marker, and continues after that. Snapshots that a dead process
left are published with the next commit of any process, or by `Table.maintenance.publish_log`.

A publisher whose log is taken over leaves the rest to the other one, which has looked for snapshots after that.
"""

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa

from interbed.storage.base.errors import (
    InterbedError,
    InvalidOptionError,
    LogUnavailableError,
    NotSupportedError,
    SnapshotNotFoundError,
)
from interbed.storage.log.api import LogMarker, LogRecords, LogTakenOverError, LogWriter, PublishedMarker, RecordCodec
from interbed.storage.log.kafka import LogSettings, identity_of, partition_of
from interbed.storage.log.kafka_log import KafkaLogWriter
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.log import LOG_SYSTEM, LogConsistency
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import LogPosition, LogPositions
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.scan.change_plan import ChangeFiles, SnapshotChangeRules, splits_of_snapshot
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split

_log = logging.getLogger(__name__)

SECONDS_AFTER_COMMIT = 5.0
"""Time for which a commit waits for an answer of the log, which it does not need."""

PAUSE_SECONDS = 30.0
"""Time for which commits skip a log that did not answer."""

_MOST_TAKEOVERS = 2
_MOST_WRITERS = 32

WriterFactory = Callable[[LogSettings, float], LogWriter]


@dataclass(slots=True)
class _OwnedLog:
    """Log that this process has taken over, and its last marker."""

    writer: LogWriter
    published: PublishedMarker | None
    process: int
    is_new: bool = True
    """Whether the last marker was read just now."""


_owned_logs: OrderedDict[tuple[object, ...], _OwnedLog] = OrderedDict()
_pauses: dict[tuple[object, ...], float] = {}
_guard = Lock()
_locks: dict[tuple[object, ...], Lock] = {}


def publishes(store: FileStore) -> bool:
    """Return whether snapshots of the table are published in its log after their commit."""
    return store.log_consistency is LogConsistency.TRANSACTIONAL


def publish_after_commit(store: FileStore, clock: Callable[[], float] = time.monotonic) -> None:
    """Publish what was committed. Failures are logged and do not affect the commit.

    A later commit tries again.
    """
    if not publishes(store):
        return
    try:
        identity = LogSettings.of(store.options).identity
        if clock() < _pauses.get(identity, 0.0):
            return
        try:
            publish(store, seconds=SECONDS_AFTER_COMMIT)
        except LogUnavailableError:
            _pauses[identity] = clock() + PAUSE_SECONDS
            raise
        _pauses.pop(identity, None)
    except (InterbedError, OSError, pa.ArrowException) as error:
        _log.warning(
            "The newest snapshots of %s are not in its log yet; a later commit, or table.maintenance.publish_log(), "
            "publishes them: %s",
            store.location,
            error,
        )


def publish(store: FileStore, *, seconds: float = 10.0, connect: WriterFactory | None = None) -> int | None:
    """Publish all snapshots that are not in the log yet, and return the newest one in it.

    None for a table without snapshots. `seconds` is the timeout of each request. Raises LogUnavailableError,
    NotSupportedError for a table whose snapshots are not published, InvalidOptionError for a topic of another table,
    and as reads do.
    """
    if not publishes(store):
        raise NotSupportedError(
            f"The table at {store.location} has no log in which its snapshots are published; '{LOG_SYSTEM}' is "
            f"'{store.options.log_system}', 'log.consistency' is '{store.options.log_consistency}', and branches have "
            "none."
        )
    settings = LogSettings.of(store.options)
    with _lock_of(settings):
        for _ in range(_MOST_TAKEOVERS):
            owned = _take_over(settings, seconds, connect or _connect)
            try:
                return _PublicationRun(store, owned).run()
            except LogTakenOverError:
                _close_log(settings)
            except BaseException:
                _close_log(settings)
                raise
    _log.info("Another process publishes the snapshots of %s.", store.location)
    return store.snapshots.latest_id()


def forget_writers() -> None:
    """Close all logs that this process has taken over; they are taken over again when they are needed."""
    with _guard:
        owned, names = list(_owned_logs.values()), list(_owned_logs)
        for name in names:
            del _owned_logs[name]
        _pauses.clear()
    for each in owned:
        if each.process == os.getpid():
            each.writer.close()


def release(store: FileStore) -> None:
    """Close the log of a table that is dropped."""
    _close_log(LogSettings.of(store.options))


class _PublicationRun:
    """One run of a publisher that has taken over the log."""

    def __init__(self, store: FileStore, owned: _OwnedLog) -> None:
        self._store = store
        self._owned_log = owned
        self._table = identity_of(store)
        self._positions = LogPositions(store.file_io, store.paths)
        self._changelogs = ChangelogManager(store.file_io, store.paths)

    def run(self) -> int | None:
        """Publish all missing snapshots. Return the newest snapshot in the log."""
        self._check_table()
        while True:
            latest = self._store.snapshots.latest()
            if latest is None:
                return None
            published = self._owned_log.published
            if published is not None and not self._is_in_history(published.marker, latest):
                self._append(self._rollback_marker(published.marker, latest), (), latest.time_millis)
                continue
            if published is not None and published.marker.last >= latest.id:
                self._record_position(published)
                return published.marker.last
            self._publish_next(published, latest)

    def _check_table(self) -> None:
        published = self._owned_log.published
        if published is not None and published.marker.table != self._table:
            if not self._owned_log.is_new:
                # The topic may have been deleted since, with the table that it belonged to.
                raise LogTakenOverError
            raise InvalidOptionError(
                f"The {LogSettings.of(self._store.options).place} is the log of another table than the one at "
                f"{self._store.location}, or of one that was dropped. Delete the topic if it is not needed, or give "
                "this table another one by 'kafka.topic'."
            )

    def _is_in_history(self, marker: LogMarker, latest: Snapshot) -> bool:
        """Return whether the snapshot that was published last is still in the table's history."""
        if marker.last > latest.id:
            return False
        try:
            found = self._store.snapshots.snapshot(marker.last)
        except SnapshotNotFoundError:
            # It has expired, as far as is known.
            return True
        return marker.uuid is None or found.uuid is None or marker.uuid == found.uuid

    def _rollback_marker(self, before: LogMarker, latest: Snapshot) -> LogMarker:
        """Return the marker of a rollback: readers find the table up to the newest snapshot in its files."""
        _log.warning(
            "The table at %s was rolled back to before snapshot %d, which is in its log; its readers have to start "
            "again.",
            self._store.location,
            before.last,
        )
        return LogMarker(
            first=FIRST_SNAPSHOT_ID,
            last=latest.id,
            uuid=latest.uuid,
            line=before.line + 1,
            table=self._table,
            schema_id=latest.schema_id,
            told=False,
        )

    def _publish_next(self, published: PublishedMarker | None, latest: Snapshot) -> None:
        """Publish the next snapshot, with those after it that change nothing."""
        first = FIRST_SNAPSHOT_ID if published is None else published.marker.last + 1
        line = 0 if published is None else published.marker.line
        snapshot = self._find(first)
        if snapshot is None:
            self._skip_expired(first, line)
            return
        rules = SnapshotChangeRules.of_stream(self._store)
        kind = rules.files_of(snapshot)
        splits = self._splits(snapshot, kind)
        last = snapshot
        while last.id < latest.id:
            following = self._find(last.id + 1)
            if following is None or self._replaces(following, rules):
                break
            if self._splits(following, rules.files_of(following)):
                break
            last = following
        store = self._store_of(snapshot)
        marker = LogMarker(
            first=first,
            last=last.id,
            uuid=last.uuid,
            line=line,
            table=self._table,
            schema_id=store.schema.id,
            replaces=self._replaces(snapshot, rules),
        )
        records = _records(store, splits, self._owned_log.writer.partitions)
        self._append(marker, records, snapshot.time_millis)

    def _skip_expired(self, first: int, line: int) -> None:
        """Append a marker for snapshots that expired before they were published."""
        there = [*self._store.snapshots.ids(), *(c.id for c in self._changelogs.all())]
        oldest = min((i for i in there if i > first), default=None)
        if oldest is None:
            raise SnapshotNotFoundError(f"The snapshots of {self._store.location} vanish while they are published.")
        _log.warning(
            "Snapshots %d to %d of %s have expired before they were published; its log has a gap there.",
            first,
            oldest - 1,
            self._store.location,
        )
        marker = LogMarker(
            first=first,
            last=oldest - 1,
            uuid=None,
            line=line,
            table=self._table,
            schema_id=self._store.schema.id,
            told=False,
        )
        self._append(marker, (), int(time.time() * 1000))

    def _find(self, snapshot_id: int) -> Snapshot | None:
        """Return the snapshot, or its changelog that outlives it; None when both have expired."""
        try:
            return self._store.snapshots.read(snapshot_id)
        except SnapshotNotFoundError:
            return self._changelogs.find(snapshot_id)

    def _splits(self, snapshot: Snapshot, kind: ChangeFiles) -> list[Split]:
        return splits_of_snapshot(self._store, TableScan(self._store), snapshot, kind)

    def _replaces(self, snapshot: Snapshot, rules: SnapshotChangeRules) -> bool:
        """Return whether rows were replaced without records of the changes."""
        return snapshot.commit_kind is CommitKind.OVERWRITE and rules.files_of(snapshot) is ChangeFiles.NOTHING

    def _store_of(self, snapshot: Snapshot) -> FileStore:
        """Return the table with the columns of the snapshot, if that has a newer schema."""
        if snapshot.schema_id <= self._store.schema.id:
            return self._store
        return self._store.with_schema(self._store.schema_of(snapshot.schema_id))

    def _append(self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int) -> None:
        offsets = self._owned_log.writer.append(marker, records, time_millis)
        self._owned_log.published = PublishedMarker(marker=marker, offsets=offsets)
        self._record_position(self._owned_log.published)

    def _record_position(self, published: PublishedMarker) -> None:
        """Record the published position in a file of the table.

        A failure is only logged, because the log itself has the position.
        """
        marker = published.marker
        position = LogPosition(snapshot=marker.last, offsets=published.offsets, line=marker.line)
        try:
            if self._positions.read() != position:
                self._positions.write(position)
        except (InterbedError, OSError) as error:
            _log.warning("The log position of %s was not recorded: %s", self._store.location, error)


def _records(store: FileStore, splits: Sequence[Split], partitions: int) -> Iterator[tuple[int, LogRecords]]:
    read = ChangeRead(store)
    codec = RecordCodec(store.schema)
    for split in splits:
        for batch in read.to_batches(split):
            kinds = batch.column(ROW_KIND).to_numpy()
            yield partition_of(split.bucket, partitions), codec.encoded(batch.select(store.schema.names), kinds)


def _connect(settings: LogSettings, seconds: float) -> LogWriter:
    return KafkaLogWriter(settings, request_seconds=seconds)


def _lock_of(settings: LogSettings) -> Lock:
    """Return the lock of the threads of this process that publish in the same log."""
    with _guard:
        return _locks.setdefault(settings.identity, Lock())


def _take_over(settings: LogSettings, seconds: float, connect: WriterFactory) -> _OwnedLog:
    """Return the log, taken over now or before."""
    with _guard:
        owned = _owned_logs.get(settings.identity)
        if owned is not None and owned.process == os.getpid():
            _owned_logs.move_to_end(settings.identity)
            owned.is_new = False
            return owned
    writer = connect(settings, seconds)
    owned = _OwnedLog(writer, writer.published(), os.getpid())
    with _guard:
        _owned_logs[settings.identity] = owned
        if len(_owned_logs) > _MOST_WRITERS:
            _owned_logs.popitem(last=False)
    return owned


def _close_log(settings: LogSettings) -> None:
    with _guard:
        owned = _owned_logs.pop(settings.identity, None)
    if owned is not None and owned.process == os.getpid():
        owned.writer.close()
