"""A run of ingestion: messages are polled, decoded, written to their tables, and committed at intervals.

Each table keeps in its snapshots the positions up to which it has the rows (storage.commit.stream_commits). A run
begins at the least of these positions, and each table skips the messages that it has. So a run that ends at any step,
also between the commits of two tables, neither loses nor repeats a row. A table gets a position before another table
commits rows of the same messages.

If the source has transactions, commits are at their ends. An unfinished transaction is written and not committed,
however long it is.

If the source has the tables themselves, a table that is not known yet gets its rows by one commit, with the position
after them. Then all tables are read from the least position on.

A commit that is interrupted leaves: nothing -> positions of some tables (their rows were not written) -> the snapshots
of some tables -> all snapshots. Then the position is reported to the source, for its own tools only.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.changes import (
    BadMessage,
    DecodedMessages,
    EndedTables,
    RowChanges,
    SourceTable,
    TableTruncation,
    identity_of,
)
from interbed.ingest.flow.messages import BadMessageError, Messages, Positions, least_of, refusal_text
from interbed.ingest.formats.format import Decoder
from interbed.ingest.run_settings import BACKOFF, RETRIED, BadMessages, DeadLetters, IngestResult, IngestSettings
from interbed.ingest.sources.source import MessageSource, SnapshotSource
from interbed.ingest.tables.computed_columns import with_computed
from interbed.ingest.tables.new_columns import TypesBefore, as_one_by_one, types_after
from interbed.ingest.tables.source_tables import TableNames, check_refused
from interbed.ingest.tables.table_sink import (
    KnownColumns,
    TableSettings,
    TableSink,
    TypesChangedError,
    create_sink,
    error_of_ended,
    first_rows,
    for_new_table,
    open_sink,
    unread_sinks,
)

_log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
POLL_MESSAGES = 20_000
LEAST_DECODED = 200
"""The number of messages decoded at once after a message that ends or truncates a table."""
IDLE_NOTE_SECONDS = 60.0
"""The interval at which a table without new rows gets a position, so that a run need not begin before it."""
LAG_SECONDS = 5.0
"""The interval at which the ends of the topics are read."""
REST_SECONDS = 30.0
"""How long the end of a run waits for the rest of transactions."""


class _TornTransactionError(Exception):
    """Tables were created or changed within a transaction; the rows written before can't be committed without it."""


class _NewTableError(Exception):
    """Changes were read of a table whose rows must be read first."""


class _StoppedError(Exception):
    """The run was stopped before anything was written that could be committed."""


class Ingestion:
    """Reads a source into tables of a catalog. Not for use by several threads."""

    def __init__(
        self,
        catalog: Catalog,
        source: MessageSource,
        decoder: Callable[[], Decoder],
        names: TableNames,
        tables: TableSettings,
        settings: IngestSettings,
        *,
        dead_letters: DeadLetters | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._catalog = catalog
        self._source = source
        self._new_decoder = decoder
        self._names = names.in_catalog(catalog)
        self._tables = tables
        self._settings = settings
        self._dead_letters = dead_letters
        self._clock = clock
        self._backoff = replace(BACKOFF, sleep=pause)
        self._sinks: dict[str, TableSink] = {}
        self._decoder = decoder()
        self._read = Positions()
        self._is_whole = True
        """Whether the messages read so far are complete transactions of the source."""
        self._commits_early = False
        """Whether something was written that must be committed before the interval ends."""
        self._committed = Positions()
        self._idle_noted = clock()
        self._began = clock()
        self._lag_looked: float | None = None
        self._left_out: frozenset[SourceTable] = frozenset()
        self._warned_of: set[str] = set()
        self._types_before = TypesBefore()
        self.result = IngestResult(lag_unit=source.lag_unit)
        """The counters so far. Rows count when they are committed."""

    def run(self, stopped: Callable[[], bool] = lambda: False, committed: Callable[[], None] = lambda: None) -> None:
        """Read and commit until the wanted end, or until `stopped` returns true; then commit what was read.

        `committed` is called after each commit. Conflicts and failed connections are retried a few times in a row.
        Raises BadMessageError, SourceGapError, SourceChangedError, SchemaMismatchError, and what a commit raises. The
        next run reads everything that was not committed again.
        """
        retries = self._backoff.start("reading on from the last commit", _log, logging.WARNING)
        ends: Positions | None = None
        while True:
            commits = self.result.commits
            try:
                self._begin(stopped, committed)
                if ends is None and self._settings.until_end:
                    ends = self._source.ends()
                self._read_on(stopped, committed, ends)
                return
            except _StoppedError:
                return
            except _NewTableError:
                _log.info("Reading again from the last commit, after the initial rows of new tables.")
            except (_TornTransactionError, TypesChangedError):
                _log.info("Reading again from the last commit: the tables have the new columns now.")
            except RETRIED as error:
                if self.result.commits > commits:
                    retries.reset()
                if not retries.pause(error):
                    raise
            finally:
                self._forget()

    def _begin(self, stopped: Callable[[], bool], committed: Callable[[], None]) -> None:
        """Open the tables, and seek to the least of their positions."""
        self._decoder = self._new_decoder()
        for name in self._names.present(self._catalog):
            sink = open_sink(self._catalog, name, self._settings.group)
            if sink is not None and sink.positions is not None and self._gets_changes(name, sink):
                self._sinks[name] = sink
        grown = [(name, sink.types_before) for name, sink in self._sinks.items()]
        self._types_before = TypesBefore({name: types for name, types in grown if types is not None})
        if isinstance(self._source, SnapshotSource):
            self._fill(self._source, stopped, committed)
            self._compare_sources()
        known = {name: s.positions or Positions() for name, s in self._sinks.items()}
        self._source.check(known)
        self._source.seek(least_of(known.values()))
        # Including the beginnings of partitions without messages, where the next run begins as well.
        self._read = self._committed = self._source.positions()
        self._is_whole, self._commits_early = True, False
        self._idle_noted = self._clock()

    def _gets_changes(self, name: str, sink: TableSink) -> bool:
        """Return whether the run reads the source tables that a table was filled from.

        Otherwise its position stays: a later run reads on from there, or finds that the source has not kept it.
        """
        left_out = sink.sources.left_out(lambda source: self._names.of(source) == name)
        if left_out and len(left_out) == len(list(sink.sources.identities)):
            if name not in self._warned_of:
                self._warned_of.add(name)
                _log.warning("%s gets no changes: this run skips its source table %s.", name, left_out[0])
            return False
        if name in self._settings.accept_changed_source:
            sink.sources.forget(left_out)
        else:
            sink.sources.check_none_left_out(left_out)
        return True

    def _fill(self, source: SnapshotSource, stopped: Callable[[], bool], committed: Callable[[], None]) -> None:
        """Fill tables that are not known yet with the rows of their source tables."""
        self._leave_out(source)
        source.begin({name: s.positions or Positions() for name, s in self._sinks.items()})
        names = self._names.one_each(source.tables())
        new = [table for table, name in names.items() if name not in self._sinks]
        if not new:
            return
        with source.snapshots(new) as snapshots:
            for snapshot in snapshots:
                name = names[snapshot.source]
                sink: TableSink | None = None
                for messages in snapshot.messages():
                    if stopped():
                        raise _StoppedError
                    sink, bad = first_rows(
                        self._catalog,
                        name,
                        self._decoder.decode(messages),
                        self._tables,
                        self._settings.group,
                        sink,
                        only=self._names.table is None,
                    )
                    self._sinks[name] = sink
                    self._handle(messages, bad)
                    self.result.messages += len(messages)
                if sink is None:
                    continue
                if self._dead_letters is not None:
                    self._dead_letters.flush()
                rows = sink.rows
                sink.sources.compare({snapshot.source: snapshot.identity}, wanted=lambda source: True)
                sink.commit(snapshot.positions)
                self._count({name: rows})
                _log.info("Filled %s with the %d rows of %s.", name, rows, snapshot.source)
                committed()

    def _leave_out(self, source: SnapshotSource) -> None:
        """Forget the tables of the lake whose source tables are skipped: no position is written for them."""
        self._left_out = frozenset(source.left_out())
        for name in self._names.own_tables_of(self._left_out):
            self._sinks.pop(name, None)

    def _read_on(self, stopped: Callable[[], bool], committed: Callable[[], None], ends: Positions | None) -> None:
        due = self._clock() + self._settings.commit_interval
        give_up: float | None = None
        while True:
            ending = give_up is not None or stopped() or (ends is not None and self._source.has_reached(ends))
            if ending and give_up is None:
                give_up = self._clock() + REST_SECONDS
            wanted = ending or self._is_full() or self._clock() >= due
            if wanted and self._source.is_whole(wanted=True):
                due = self._clock() + self._settings.commit_interval
                if self._commit(everything=ending):
                    committed()
                if ending:
                    break
            elif give_up is not None and self._clock() >= give_up:
                _log.warning(
                    "The rest of a transaction did not come within %g s; the next run reads the transaction again.",
                    REST_SECONDS,
                )
                break
            for messages in self._source.poll(timeout_seconds=POLL_SECONDS, most=POLL_MESSAGES):
                self._take(messages)
                self._is_whole = self._source.is_whole()
            # Offsets after the last message may belong to no message.
            self._read = self._source.positions()
            self._update_counters()
        self._update_counters(ending=True)

    def _is_full(self) -> bool:
        """Return whether a commit is due before the interval ends, because of the number of rows or a truncation."""
        rows, most = sum(s.rows for s in self._sinks.values()), self._settings.commit_rows
        return self._commits_early or (most is not None and rows >= most)

    def _update_counters(self, *, ending: bool = False) -> None:
        """Update the counters that are only shown."""
        now = self._clock()
        self.result.seconds = now - self._began
        if ending or self._lag_looked is None or now - self._lag_looked >= LAG_SECONDS:
            self._lag_looked = now
            self.result.lag = self._read.lag_behind(self._source.ends())

    def _take(self, messages: Messages) -> None:
        """Write the rows of the next messages."""
        most = max(1, len(messages))
        while len(messages):
            part = messages.slice(0, min(most, len(messages)))
            decoded = self._decoder.decode(part)
            check_refused(decoded.refused, self._name_of)
            bad = list(decoded.bad)
            changes = self._by_table(decoded, part, bad)
            self._ensure_sinks(changes, part)
            for name, each in changes:
                bad += self._sinks[name].write(each)
            self._handle(part, bad)
            last = decoded.last
            if last is None:
                self._advance(part)
                messages, most = messages.slice(len(part), len(messages)), 2 * most
                continue
            self._advance(part.slice(0, last.index))
            # The messages read so far end within a transaction.
            self._is_whole = self._is_whole and not self._source.is_transactional
            if isinstance(last, TableTruncation):
                self._truncate(last, part)
            else:
                self._skip_ended(last, part)
            # The rest of the part must be decoded again. Where there are many such messages, small parts waste less
            # work.
            messages, most = messages.slice(last.index + 1, len(messages)), max(LEAST_DECODED, 2 * last.index)

    def _advance(self, messages: Messages) -> None:
        if len(messages):
            self._read = self._read.after(messages)
            self.result.messages += len(messages)

    def _by_table(
        self, decoded: DecodedMessages, messages: Messages, bad: list[BadMessage]
    ) -> list[tuple[str, RowChanges]]:
        """Return the changes by table, without those that the table has already. Bad messages are added to `bad`."""
        found = []
        columns: dict[str, KnownColumns] = {}
        for changes in decoded.changes:
            name = self._name_of(changes.source)
            if name is None or not len(changes.kinds):
                continue
            sink = self._known(name, changes.source)
            if sink is not None:
                new = (sink.positions or Positions()).new_in(messages)[changes.messages]
                if not new.any():
                    continue
                if not new.all():
                    changes = changes.where(new)
                self._admit(name, sink, changes, messages)
            changes, refused = with_computed(changes, self._tables.computed, () if sink is None else sink.columns)
            bad += refused
            if sink is None:
                changes, refused = for_new_table(name, changes, self._tables)
                bad += refused
            if name not in columns:
                own = KnownColumns.of(sink.table.schema) if sink else KnownColumns.of_new_table(self._tables, changes)
                is_committed = sink is None or sink.types_before is None
                types = self._types_before.of(name, own.types, is_committed=is_committed)
                columns[name] = replace(own, types=types)
            known = columns[name]
            changes, refused = as_one_by_one(changes, known.types, known.fixed)
            bad += refused
            if len(changes.kinds):
                columns[name] = replace(known, types=types_after(changes, known.types))
                found.append((name, self._types_before.follow(name, changes, columns[name].types)))
        return found

    def _admit(self, name: str, sink: TableSink, changes: RowChanges, messages: Messages) -> None:
        """Check that changes are of a source table that the sink has rows of."""
        sink.sources.admit(
            identity_of(changes),
            messages.place(int(changes.messages[0])),
            only=self._names.table is None,
            chosen_key=bool(self._tables.primary_keys),
            accepted=name in self._settings.accept_changed_source,
        )

    def _compare_sources(self) -> None:
        """Check that the source tables in the catalog of the source are those that the tables have rows of."""
        if not isinstance(self._source, SnapshotSource):
            return
        found = self._source.identities()
        for name, sink in self._sinks.items():
            sink.sources.compare(
                found,
                wanted=lambda source, name=name: self._names.of(source) == name,  # type: ignore[misc]
                accepted=name in self._settings.accept_changed_source,
            )

    def _ensure_sinks(self, changes: Sequence[tuple[str, RowChanges]], messages: Messages) -> None:
        """Ensure that there is a sink for each of the changes, and that its table has their columns."""
        new = [
            (name, each)
            for name, each in changes
            if (sink := self._known(name, each.source)) is None or sink.lacking(each)
        ]
        if not new:
            return
        # The files of a commit have one schema, and a table needs a position before it gets rows.
        if self._is_whole:
            self._commit(everything=True)
        for name, each in new:
            sink = self._known(name, each.source) or self._created(name, each)
            self._admit(name, sink, each, messages)
            # Earlier changes in the same messages may have added the columns.
            if lacking := sink.lacking(each):
                sink.follow(lacking, each.source)
        if not self._is_whole:
            raise _TornTransactionError

    def _name_of(self, source: SourceTable | None) -> str | None:
        """Return the table that changes of a source table go to; None if they are skipped."""
        return None if source in self._left_out else self._names.of(source)

    def _known(self, name: str, source: SourceTable | None) -> TableSink | None:
        """Return the sink of a table; None if there is no such table yet."""
        if name not in self._sinks:
            if isinstance(self._source, SnapshotSource) and source in self._source.tables():
                raise _NewTableError
            sink = open_sink(self._catalog, name, self._settings.group)
            if sink is None:
                return None
            if sink.positions is None:
                sink.advance(self._committed)
            self._sinks[name] = sink
        return self._sinks[name]

    def _created(self, name: str, changes: RowChanges) -> TableSink:
        sink = create_sink(self._catalog, name, self._tables, self._settings.group, changes.shape)
        sink.begin(self._committed)
        self._sinks[name] = sink
        return sink

    def _handle(self, messages: Messages, bad: Sequence[BadMessage]) -> None:
        for message in sorted(bad, key=lambda b: b.index):
            place = messages.place(message.index)
            match self._settings.bad_messages:
                case BadMessages.STOP:
                    raise BadMessageError.at(place, message.reason, has_topics=messages.has_topics)
                case BadMessages.SKIP:
                    _log.warning("%s It is skipped.", refusal_text(place, message.reason))
                case BadMessages.DEAD_LETTER:
                    assert self._dead_letters is not None
                    self._dead_letters.put(messages, message.index, message.reason)
            self.result.bad += 1

    def _truncate(self, truncation: TableTruncation, messages: Messages) -> None:
        """Truncate a table. The positions include all messages before the truncation already."""
        name = self._name_of(truncation.source)
        at = truncation.index
        one = messages.slice(at, at + 1)
        sink = None if name is None else self._known(name, truncation.source)
        if sink is not None and bool(np.all((sink.positions or Positions()).new_in(one))):
            sink.sources.check_truncation(truncation.source, messages.place(at))
            if self._source.is_transactional:
                # Committed with the rest of the transaction, which usually inserts the rows again.
                sink.empty()
                self._commits_early = True
            else:
                self._commit(everything=True)
                sink.empty()
                sink.commit(self._read.after(one))
                self.result.commits += 1
        self._advance(one)

    def _skip_ended(self, ended: EndedTables, messages: Messages) -> None:
        """Skip a message that ends source tables, unless a table has rows of one of them.

        Raises SourceChangedError after the messages before it were committed.
        """
        one = messages.slice(ended.index, ended.index + 1)
        accepted, group = self._settings.accept_changed_source, self._settings.group
        sinks = {**unread_sinks(self._catalog, ended, self._names, self._sinks, group), **self._sinks}
        error = error_of_ended(ended, one, self._names, {n: s for n, s in sinks.items() if n not in accepted})
        if error is not None:
            if self._is_whole:
                self._commit(everything=True)
            raise error
        self._advance(one)

    def _commit(self, *, everything: bool = False) -> bool:
        """Commit the written rows, and return whether there were any.

        Tables without rows get the position as well if `everything` is set or IDLE_NOTE_SECONDS are over.
        """
        if self._dead_letters is not None:
            self._dead_letters.flush()
        written = {name: sink.rows for name, sink in self._sinks.items() if sink.has_changes}
        idle = everything or self._clock() - self._idle_noted >= IDLE_NOTE_SECONDS
        if written or idle:
            self._source.check(dict.fromkeys(self._sinks, self._read))
            self._compare_sources()
        for name in written:
            self._sinks[name].commit(self._read)
        if idle:
            for name, sink in self._sinks.items():
                if name not in written:
                    sink.advance(self._read)
            self._idle_noted = self._clock()
        self._committed = self._read
        self.result.has_positions |= bool(self._sinks)
        self._commits_early = False
        self.result.positions = self._read
        if written:
            self._count(written)
        if written or idle:
            # A source deletes what is before the reported position, so report the least position of all tables.
            keeps = isinstance(self._source, SnapshotSource) and bool(self._sinks)
            positions = [sink.positions or Positions() for sink in self._sinks.values()]
            self._source.note(least_of(positions) if keeps else self._read)
        return bool(written)

    def _count(self, rows: Mapping[str, int]) -> None:
        """Add the rows of a commit to the counters."""
        for name, count in rows.items():
            self.result.rows[name] = self.result.rows.get(name, 0) + count
        self.result.commits += 1

    def _forget(self) -> None:
        while self._sinks:
            self._sinks.popitem()[1].close()
