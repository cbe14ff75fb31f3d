"""Publish a table's snapshots in its log, exactly once each and in order, after they were made.

The records of a snapshot are those that a stream of the table's files has of it. They are appended from committed
snapshots, in one transaction for each that also has its marker, so that there is nothing to be prepared before a commit
and nothing to be resolved after a crash: whoever publishes takes the log over, reads what it ends with, and goes on
after that. What a process that died left is published with the next commit of anybody, or by `Table.publish_log`.

Who is taken over while he publishes leaves the rest to the other, who has looked for snapshots after that.
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
from interbed.storage.log.api import LogMarker, LogTakenOverError, LogWriter, Published
from interbed.storage.log.kafka import partition_of
from interbed.storage.log.kafka_log import KafkaLogWriter
from interbed.storage.log.records import LogRecords, RecordCodec
from interbed.storage.log.settings import LogSettings, identity_of
from interbed.storage.meta.options.log import LOG_SYSTEM, LogConsistency
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.progress import LogPosition, LogPositions
from interbed.storage.meta.snapshot.snapshot import FIRST_SNAPSHOT_ID, CommitKind, Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.scan.change_plan import ChangeFiles, SnapshotChangeRules, splits_of_snapshot
from interbed.storage.scan.scan import TableScan
from interbed.storage.scan.split import Split

_log = logging.getLogger(__name__)

SECONDS_AFTER_COMMIT = 5.0
"""How long a commit waits for an answer of the log, which it does not need."""

PAUSE_SECONDS = 30.0
"""How long commits leave a log alone that did not answer."""

_MOST_TAKEOVERS = 2
_MOST_WRITERS = 32

WriterFactory = Callable[[LogSettings, float], LogWriter]


@dataclass(slots=True)
class _Held:
    """A log that this process has taken over, and what it ends with."""

    writer: LogWriter
    published: Published | None
    process: int
    is_new: bool = True
    """Whether what the log ends with was read just now."""


_held: OrderedDict[tuple[object, ...], _Held] = OrderedDict()
_pauses: dict[tuple[object, ...], float] = {}
_guard = Lock()
_turns: dict[tuple[object, ...], Lock] = {}


def publishes(store: TableStore) -> bool:
    """Whether snapshots of the table are published in its log after they were made."""
    return store.log_consistency is LogConsistency.TRANSACTIONAL


def publish_after_commit(store: TableStore, clock: Callable[[], float] = time.monotonic) -> None:
    """Publish what was committed. The commit stands whatever becomes of this: failures are logged, and tried again
    after a later commit.
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
            "The newest snapshots of %s are not in its log yet; a later commit, or table.publish_log(), publishes "
            "them: %s",
            store.location,
            error,
        )


def publish(store: TableStore, *, seconds: float = 10.0, connect: WriterFactory | None = None) -> int | None:
    """Publish all snapshots that are not in the log yet; the newest that is, None for a table without snapshots.

    `seconds` is how long each answer is waited for. Raises LogUnavailableError, NotSupportedError for a table whose
    snapshots are not published, InvalidOptionError for a topic of another table, and as reads do.
    """
    if not publishes(store):
        raise NotSupportedError(
            f"The table at {store.location} has no log in which its snapshots are published; '{LOG_SYSTEM}' is "
            f"'{store.options.log_system}', 'log.consistency' is '{store.options.log_consistency}', and branches have "
            "none."
        )
    settings = LogSettings.of(store.options)
    with _turn_of(settings):
        for _ in range(_MOST_TAKEOVERS):
            held = _taken_over(settings, seconds, connect or _connect)
            try:
                return _Publication(store, held).run()
            except LogTakenOverError:
                _let_go(settings)
            except BaseException:
                _let_go(settings)
                raise
    _log.info("Another process publishes the snapshots of %s.", store.location)
    return store.snapshots.latest_id()


def forget_writers() -> None:
    """Let go of all logs that this process has taken over; they are taken over again when they are needed."""
    with _guard:
        held, names = list(_held.values()), list(_held)
        for name in names:
            del _held[name]
        _pauses.clear()
    for each in held:
        if each.process == os.getpid():
            each.writer.close()


def release(store: TableStore) -> None:
    """Let go of the log of a table that is dropped."""
    _let_go(LogSettings.of(store.options))


class _Publication:
    """One run of a publisher that has taken over the log."""

    def __init__(self, store: TableStore, held: _Held) -> None:
        self._store = store
        self._held = held
        self._table = identity_of(store)
        self._positions = LogPositions(store.file_io, store.paths)
        self._changelogs = ChangelogManager(store.file_io, store.paths)

    def run(self) -> int | None:
        """Publish what is missing; the newest snapshot in the log."""
        self._check_table()
        while True:
            latest = self._store.snapshots.latest()
            if latest is None:
                return None
            published = self._held.published
            if published is not None and not self._is_in_line(published.marker, latest):
                self._append(self._new_line(published.marker, latest), (), latest.time_millis)
                continue
            if published is not None and published.marker.last >= latest.id:
                self._note(published)
                return published.marker.last
            self._publish_next(published, latest)

    def _check_table(self) -> None:
        published = self._held.published
        if published is not None and published.marker.table != self._table:
            if not self._held.is_new:
                # The topic may have been deleted since, with the table that it was of.
                raise LogTakenOverError
            raise InvalidOptionError(
                f"The {LogSettings.of(self._store.options).place} is the log of another table than the one at "
                f"{self._store.location}, or of one that was dropped. Delete the topic if nobody needs it, or give "
                "this table another one by 'kafka.topic'."
            )

    def _is_in_line(self, marker: LogMarker, latest: Snapshot) -> bool:
        """Whether the snapshot that was published last is one of the table's still."""
        if marker.last > latest.id:
            return False
        try:
            found = self._store.snapshots.snapshot(marker.last)
        except SnapshotNotFoundError:
            # It has expired, as far as anybody can tell.
            return True
        return marker.uuid is None or found.uuid is None or marker.uuid == found.uuid

    def _new_line(self, before: LogMarker, latest: Snapshot) -> LogMarker:
        """What tells readers that the table was taken back: up to the newest snapshot, they find it in its files."""
        _log.warning(
            "The table at %s was taken back to before snapshot %d, which is in its log; its readers have to start "
            "anew.",
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

    def _publish_next(self, published: Published | None, latest: Snapshot) -> None:
        """Publish the next snapshot, with those after it that change nothing."""
        first = FIRST_SNAPSHOT_ID if published is None else published.marker.last + 1
        line = 0 if published is None else published.marker.line
        snapshot = self._find(first)
        if snapshot is None:
            self._pass_over(first, line)
            return
        rules = SnapshotChangeRules.of_stream(self._store)
        told_by = rules.files_of(snapshot)
        splits = self._splits(snapshot, told_by)
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
        records = _records(store, splits, self._held.writer.partitions)
        self._append(marker, records, snapshot.time_millis)

    def _pass_over(self, first: int, line: int) -> None:
        """Say that snapshots have expired which were never published."""
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
        """The snapshot, or its changelog that outlives it; None when both have expired."""
        try:
            return self._store.snapshots.read(snapshot_id)
        except SnapshotNotFoundError:
            return self._changelogs.find(snapshot_id)

    def _splits(self, snapshot: Snapshot, told_by: ChangeFiles) -> list[Split]:
        return splits_of_snapshot(self._store, TableScan(self._store), snapshot, told_by)

    def _replaces(self, snapshot: Snapshot, rules: SnapshotChangeRules) -> bool:
        """Whether rows were replaced, without a record that says so."""
        return snapshot.commit_kind is CommitKind.OVERWRITE and rules.files_of(snapshot) is ChangeFiles.NOTHING

    def _store_of(self, snapshot: Snapshot) -> TableStore:
        """The table with the columns of the snapshot, if it has some that this object does not know of."""
        if snapshot.schema_id <= self._store.schema.id:
            return self._store
        return self._store.with_schema(self._store.schema_of(snapshot.schema_id))

    def _append(self, marker: LogMarker, records: Iterable[tuple[int, LogRecords]], time_millis: int) -> None:
        offsets = self._held.writer.append(marker, records, time_millis)
        self._held.published = Published(marker=marker, offsets=offsets)
        self._note(self._held.published)

    def _note(self, published: Published) -> None:
        """Note beside the table what is in the log; the log knows it, so that a failure is not one of publishing."""
        marker = published.marker
        position = LogPosition(snapshot=marker.last, offsets=published.offsets, line=marker.line)
        try:
            if self._positions.read() != position:
                self._positions.write(position)
        except (InterbedError, OSError) as error:
            _log.warning("How far %s is in its log was not noted: %s", self._store.location, error)


def _records(store: TableStore, splits: Sequence[Split], partitions: int) -> Iterator[tuple[int, LogRecords]]:
    read = ChangeRead(store)
    codec = RecordCodec(store.schema)
    for split in splits:
        for batch in read.to_batches(split):
            kinds = batch.column(ROW_KIND).to_numpy()
            yield partition_of(split.bucket, partitions), codec.encoded(batch.select(store.schema.names), kinds)


def _connect(settings: LogSettings, seconds: float) -> LogWriter:
    return KafkaLogWriter(settings, request_seconds=seconds)


def _turn_of(settings: LogSettings) -> Lock:
    """What the threads of this process take before they publish in the same log."""
    with _guard:
        return _turns.setdefault(settings.identity, Lock())


def _taken_over(settings: LogSettings, seconds: float, connect: WriterFactory) -> _Held:
    """The log, taken over now or before."""
    with _guard:
        held = _held.get(settings.identity)
        if held is not None and held.process == os.getpid():
            _held.move_to_end(settings.identity)
            held.is_new = False
            return held
    writer = connect(settings, seconds)
    held = _Held(writer, writer.published(), os.getpid())
    with _guard:
        _held[settings.identity] = held
        if len(_held) > _MOST_WRITERS:
            _held.popitem(last=False)
    return held


def _let_go(settings: LogSettings) -> None:
    with _guard:
        held = _held.pop(settings.identity, None)
    if held is not None and held.process == os.getpid():
        held.writer.close()
