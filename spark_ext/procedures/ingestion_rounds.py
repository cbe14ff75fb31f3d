"""The driver's part of ingestion: rounds of two jobs each, and a commit after them.

A round is planned from the positions of the tables. Its first job decodes ranges of offsets. If tables or columns are
missing, the driver creates them, and the ranges are decoded again. If a message truncates a table, the round ends
before that message, and the truncation follows after its commit. It also ends before a message that ends the source
table of a table, and the call fails after its commit. The second job writes the rows, and the tables are committed one
after the other, each with the positions after the round. A driver that dies at any point leaves the same state as a
process of `interbed ingest`, and either of them can continue.

The only state between the steps is the token of the job, so that any planner process can take the next step.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from interbed.ingest.flow.changes import ChangesShape
from interbed.ingest.flow.messages import BadMessageError, Positions, SourceChangedError, least_of, refusal_text
from interbed.ingest.job import IDLE_NOTE_SECONDS
from interbed.ingest.run_settings import BACKOFF, RETRIED, BadMessages
from interbed.ingest.sources.kafka.source import REQUEST_SECONDS, KafkaRange, KafkaSource, packed, ranges_between
from interbed.ingest.sources.kafka.topics import KafkaTopicIds
from interbed.ingest.tables.table_sink import TableSink, create_sink, open_sink
from interbed.spark_ext.ingestion import writing
from interbed.spark_ext.ingestion.reading import MessagePlace, ReadReport, SchemaGap, SourceSeen, payload_of
from interbed.spark_ext.ingestion.round import IngestionRound, RunProgress, digest
from interbed.spark_ext.ingestion.settings import ReadPlan, RunSettings, TargetTable
from interbed.spark_ext.ingestion.writing import table_number
from interbed.spark_ext.procedures.procedure import Answer, Job, ProcedureCall, begun, handle_of
from interbed.spark_ext.write.writer import CommitToken
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.storage.base.errors import CommitConflictError, CommitFailedError, CommitStateUnknownError, InterbedError
from interbed.storage.base.prefetch import spread
from interbed.storage.table.table import Table
from interbed.storage.upkeep.job_files import delete_unnamed
from interbed.storage.write.commit_message import CommitMessage

_log = logging.getLogger(__name__)

TASK_MESSAGES_MIN, TASK_MESSAGES_MAX = 2_000, 50_000
"""Bounds of the number of messages of a task: fewer cost more to fetch than to decode."""
PASSES = 100
"""Attempts at a round, at most: each adds tables or columns that the messages need."""
WAIT_SECONDS = 5.0
_LOOKS = ExponentialBackoff(
    first_seconds=0.5, growth=1.0, jitter=NO_JITTER, timeout_seconds=WAIT_SECONDS, pause_within_timeout=False
)
"""Interval and timeout of a wait for new messages within a call, so that Spark can cancel the query."""


class IngestionRounds:
    """The steps of one call of the procedure."""

    def __init__(
        self,
        call: ProcedureCall,
        settings: RunSettings,
        *,
        records_all: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """With `records_all` every table gets the positions at the end, otherwise only at intervals."""
        self._call = call
        self._catalog = call.catalog
        self._settings = replace(settings, names=settings.names.in_catalog(call.catalog))
        self._group = settings.kafka.group
        self._records_all = records_all
        self._clock = clock
        self._committed: Counter[str] = Counter()
        """Rows by table that the last commit has made visible; the commit may have failed for later tables."""

    def begin(self, progress: RunProgress) -> Answer:
        """Plan the first round, and return its job, or the rows at the end."""
        first = IngestionRound(progress=progress)
        return self._carried_out(first, lambda: first)

    def resume(self, token: bytes, results: Sequence[bytes]) -> Answer:
        """Take the results of a job, and return the next job, or the rows at the end."""
        done = IngestionRound.from_bytes(token)
        if done.tokens is not None:
            return self._carried_out(done, lambda: self._commit(done, writing.messages_of(results)))
        reports = [ReadReport.from_bytes(result) for result in results]
        return self._carried_out(done, lambda: self._decoded(replace(done, reports=reports)))

    def abort(self, token: bytes) -> None:
        """Delete the files of the tasks of a failed job."""
        self._discard(IngestionRound.from_bytes(token))

    def _carried_out(self, done: IngestionRound, step: Callable[[], Answer | IngestionRound]) -> Answer:
        """Carry out a step, and plan the rounds that follow, up to a job or the end.

        After a transient error the round is planned again from the positions of the tables.
        """
        while True:
            try:
                found = step()
            except CommitStateUnknownError:
                # A snapshot that is not visible yet may have the files.
                raise
            except RETRIED as error:
                self._discard(done)
                what = "reading on from the last commit"
                retries = BACKOFF.start(what, _log, logging.WARNING, count=done.progress.failures)
                if not retries.pause(error):
                    raise
                rows = Counter(done.progress.rows) + self._committed
                found = IngestionRound(progress=replace(done.progress, rows=dict(rows), failures=retries.count))
            except InterbedError:
                self._discard(done)
                raise
            if not isinstance(found, IngestionRound):
                return found
            done, step = found, partial(self._plan, found)

    # Planning

    def _plan(self, before: IngestionRound) -> Answer | IngestionRound:
        """Plan the next messages: return the job that decodes them, or the rows of the call's result at the end."""
        if before.passes > PASSES:
            raise CommitFailedError(
                f"The tables lack columns of the messages after {PASSES} attempts, since another process changes their "
                "columns at the same time. Call the procedure again."
            )
        sinks = self._present()
        progress = before.progress
        own = {name: sink.positions for name, sink in sinks.items()}
        known = {name: progress.position_of(name, each) for name, each in own.items() if each is not None}
        begins = least_of(known.values()) if known else progress.read
        kafka = self._settings.kafka
        source = KafkaSource(
            kafka.servers,
            kafka.topics,
            kafka.pattern,
            group=kafka.group,
            start=kafka.start,
            settings=kafka.client,
            # The tasks fetch the messages.
            fetches=False,
        )
        with closing(source):
            source.check({**{name: each for name, each in own.items() if each is not None}, "": progress.read})
            source.seek(begins)
            latest = source.ends()
            progress = replace(
                progress,
                read=source.positions(),
                notes={name: digest(own[name] or Positions()) for name in known},
                ends=progress.ends or (latest if self._settings.until_end else None),
            )
            if progress.commits and not before.passes:
                source.note(progress.read)
            ends = progress.ends or self._awaited(source, progress)
        for limit in before.limits:
            ends = _limited(ends, limit)
        size = progress.size or TASK_MESSAGES_MAX
        # The first messages of a group show the tables to be created, and are read twice.
        most = self._settings.round_rows if known else min(self._settings.round_rows, size)
        ranges = ranges_between(progress.read, ends, most=most)
        is_at_end = not ranges and self._settings.until_end and not before.limits
        progress = self._announced(progress, sinks, known, is_at_end=is_at_end)
        planned = replace(before, progress=progress, ranges=ranges, reports=(), tokens=None)
        if is_at_end:
            return [_answer(progress, progress.read.lag_behind(latest))]
        if not ranges and before.limits:
            return self._commit(planned, {})
        if ranges:
            planned = replace(planned, progress=replace(progress, planned=self._clock()))
        return self._read_job(replace(planned, targets=self._targets(sinks, known, ranges)))

    def _awaited(self, source: KafkaSource, progress: RunProgress) -> Positions:
        """Wait for a commit to be due, and return the ends of the topics; after a timeout return the read positions."""
        due = progress.planned + self._settings.commit_interval
        looks = _LOOKS.start()
        while True:
            ends = source.ends()
            lag = progress.read.lag_behind(ends)
            if lag >= self._settings.round_rows or (lag and self._clock() >= due):
                return ends
            if not looks.pause():
                return progress.read

    def _present(self) -> dict[str, TableSink]:
        """Return the sinks of this run's existing tables; in a database, of those with matching names."""
        return self._opened(self._settings.names.present(self._catalog))

    def _opened(self, names: Iterable[str]) -> dict[str, TableSink]:
        """Return the sinks of existing tables."""
        return {name: sink for name in names if (sink := open_sink(self._catalog, name, self._group)) is not None}

    def _announced(
        self,
        progress: RunProgress,
        sinks: Mapping[str, TableSink],
        known: Mapping[str, Positions],
        *,
        is_at_end: bool,
    ) -> RunProgress:
        """Record the positions in tables without new rows if that is due, and return the progress."""
        now = self._clock()
        if not (is_at_end and self._records_all) and now - progress.noted < IDLE_NOTE_SECONDS:
            return progress
        for name in known:
            sinks[name].advance(progress.read)
        notes = {name: digest(sinks[name].positions or Positions()) for name in known}
        return replace(progress, noted=now, notes=notes)

    def _targets(
        self, sinks: Mapping[str, TableSink], known: Mapping[str, Positions], ranges: Sequence[KafkaRange]
    ) -> list[TargetTable]:
        places = {(each.topic, each.partition) for each in ranges}
        return [
            TargetTable(
                name=name,
                handle=handle_of(self._call, name, sink.table).to_bytes().decode(),
                positions=known.get(name, Positions()).of_partitions(places).to_json(),
                unit=sink.table.access.bucket_unit(),
            )
            for name, sink in sinks.items()
        ]

    def _read_job(self, planned: IngestionRound) -> Job:
        most = planned.progress.size or TASK_MESSAGES_MAX
        whole = sum(len(each) for each in planned.ranges)
        size = min(most, max(TASK_MESSAGES_MIN, -(-whole // self._call.task_slots)))
        tasks = packed(planned.ranges, size)
        return Job(
            description=f"Read {whole} offsets of Kafka for {self._group}",
            tasks=[payload_of(number, ranges) for number, ranges in enumerate(tasks)],
            shared=ReadPlan(settings=self._settings, targets=planned.targets).to_bytes(),
            token=replace(planned, passes=planned.passes + 1).to_bytes(),
            gives_blocks=True,
        )

    # After the messages were decoded

    def _decoded(self, done: IngestionRound) -> Answer | IngestionRound:
        """Return the job that writes the rows, or the round again when messages have to be decoded again."""
        reports = done.reports
        if any(report.too_much for report in reports):
            size = max(1, max(report.messages for report in reports if report.too_much) // 2)
            return replace(done, progress=replace(done.progress, size=size))
        truncations = [place for report in reports for place in report.truncations]
        lacks = [lack for report in reports for lack in report.lacks]
        self._make_ready(lacks, done.progress.read)
        if truncations or lacks:
            return replace(done, limits=[*done.limits, *truncations])
        self._check_bad(reports)
        ended = self._ended(reports, self._opened({target.name for target in done.targets}))
        if ended is not None:
            place, error = ended
            if (done.progress.read.get(place.topic, place.partition) or 0) >= place.offset:
                raise error
            # The messages before it are committed first.
            return replace(done, limits=[*done.limits, place])
        self._admit(reports, self._opened({seen.table for report in reports for seen in report.sources}))
        groups: Counter[str] = Counter()
        for report in reports:
            groups.update(report.rows)
        if not groups:
            return self._commit(done, {})
        return self._write_job(done, groups)

    def _check_bad(self, reports: Sequence[ReadReport]) -> None:
        for report in reports:
            for place in report.places:
                if self._settings.bad_messages is BadMessages.STOP:
                    raise BadMessageError.at(str(place), place.about)
                _log.warning("%s It is skipped.", refusal_text(str(place), place.about))

    def _ended(
        self, reports: Sequence[ReadReport], sinks: Mapping[str, TableSink]
    ) -> tuple[MessagePlace, SourceChangedError] | None:
        """Return the first message that ends a source table of which a table has rows, and its error."""
        before: list[SourceSeen] = []
        for report in reports:
            for ended in report.ended:
                seen = [*before, *report.sources[: ended.sources]]
                for name, sink in sinks.items():
                    had = (sink.positions or Positions()).get(ended.place.topic, ended.place.partition) or 0
                    if name in self._settings.accept_changed_source or had > ended.place.offset:
                        continue
                    error = sink.sources.ended_by(
                        ended.names,
                        str(ended.place),
                        wanted=lambda source, name=name: self._settings.names.possible(source) == name,  # type: ignore[misc]
                        more=[each.identity.source for each in seen if each.table == name],
                    )
                    if error is not None:
                        return ended.place, error
            before += report.sources
        return None

    def _admit(self, reports: Sequence[ReadReport], sinks: Mapping[str, TableSink]) -> None:
        """Check that changes are of the source tables of the tables' rows; the sinks record new sources."""
        for report in reports:
            for seen in report.sources:
                if seen.table in sinks:
                    sinks[seen.table].sources.admit(
                        seen.identity,
                        seen.place,
                        only=self._settings.names.table is None,
                        chosen_key=bool(self._settings.tables.primary_keys),
                        accepted=seen.table in self._settings.accept_changed_source,
                    )

    def _make_ready(self, lacks: Sequence[SchemaGap], read: Positions) -> None:
        """Create tables, columns and types; further gaps show when the messages are read again."""
        shapes: dict[str, ChangesShape] = {}
        for lack in lacks:
            if not lack.is_new:
                continue
            before = shapes.get(lack.table, lack.shape)
            only = before.only_insertions and lack.shape.only_insertions
            shapes[lack.table] = replace(before, key=before.key or lack.shape.key, only_insertions=only)
        for name, shape in shapes.items():
            sink = create_sink(self._catalog, name, self._settings.tables, self._group, shape)
            sink.advance(read)
        changed: set[tuple[str, str]] = set()
        for lack in lacks:
            columns = [f for f in lack.shape.columns if (lack.table, f.name) not in changed]
            if lack.is_new or not columns:
                continue
            table = open_sink(self._catalog, lack.table, self._group)
            if table is not None:
                table.follow(columns)
                changed |= {(lack.table, f.name) for f in columns}

    def _write_job(self, done: IngestionRound, groups: Mapping[str, int]) -> Job:
        numbers = sorted({table_number(group) for group in groups})
        tables = {n: self._catalog.get_table(done.targets[n].name) for n in numbers}
        tokens = {n: begun(self._call, done.targets[n].name, tables[n]) for n in numbers}
        # A table that was altered meanwhile is written at the schema of the rows.
        for n in numbers:
            handle = type(tokens[n].handle).from_bytes(done.targets[n].handle.encode())
            tokens[n] = replace(tokens[n], handle=handle)
        takes = _balanced(groups, self._call.task_slots)
        return Job(
            description=f"Write {sum(groups.values())} rows of {len(numbers)} tables for {self._group}",
            tasks=[writing.payload_of({group: groups[group] for group in each}) for each in takes],
            shared=writing.shared_of(tokens),
            token=replace(done, tokens=tokens).to_bytes(),
            takes=takes,
        )

    # After the rows were written

    def _commit(self, done: IngestionRound, messages: Mapping[int, Sequence[CommitMessage]]) -> IngestionRound:
        """Commit the written rows, and return the next round."""
        self._committed.clear()
        notes = dict(done.progress.notes)
        read = done.read
        if done.tokens or done.limits:
            self._check_topics(done, read)
        for number, token in (done.tokens or {}).items():
            target = done.targets[number]
            sink = self._unchanged(target, done)
            self._admit(done.reports, {target.name: sink})
            sink.publish(messages.get(number, ()), read)
            self._finish(token, messages.get(number, ()))
            notes[target.name] = digest(sink.positions or Positions())
            count = sum(n for r in done.reports for g, n in r.rows.items() if table_number(g) == number)
            self._committed[target.name] += count
            _log.info("Committed %d rows of %s", count, target.name)
        commits = done.progress.commits + bool(done.tokens)
        truncations = [p for p in done.limits if p.about and read.get(p.topic, p.partition) == p.offset]
        for place in truncations:
            after = Positions({place.topic: {place.partition: place.offset + 1}})
            read = read.beyond(after)
            truncated = open_sink(self._catalog, place.about, self._group)
            if truncated is not None:
                truncated.sources.check_truncation(None, str(place))
                truncated.empty()
                truncated.commit(read)
                notes[place.about] = digest(truncated.positions or Positions())
                commits += 1
                _log.info("Deleted all rows of %s: the message at %s truncates it", place.about, place)
        progress = replace(
            done.progress,
            messages=done.progress.messages + sum(r.messages for r in done.reports) + len(truncations),
            bad=done.progress.bad + sum(r.bad for r in done.reports),
            rows=dict(Counter(done.progress.rows) + self._committed),
            commits=commits,
            read=read,
            notes=notes,
            failures=0,
        )
        return IngestionRound(progress=progress)

    def _check_topics(self, done: IngestionRound, read: Positions) -> None:
        """Raise SourceGapError when topics of the round were deleted and created again under their names."""
        kafka = self._settings.kafka
        ids = KafkaTopicIds(kafka.servers, kafka.client, request_seconds=REQUEST_SECONDS)
        ids.check({**{target.name: read for target in done.targets}, "": read})

    def _unchanged(self, target: TargetTable, done: IngestionRound) -> TableSink:
        """Return the sink of a table. Raises CommitConflictError if its position has changed since the planning."""
        sink = open_sink(self._catalog, target.name, self._group)
        if sink is None:
            raise CommitConflictError(f"The table {target.name} was dropped while rows of it were written.")
        if sink.positions is None and target.name not in done.progress.notes:
            # A new table gets the positions before its first rows.
            sink.advance(done.progress.read)
        elif digest(sink.positions or Positions()) != done.progress.notes.get(target.name):
            raise CommitConflictError(
                f"Another process has read on for the group '{self._group}' in {target.name}. Run one process of a "
                "group at a time."
            )
        return sink

    def _finish(self, token: CommitToken, messages: Sequence[CommitMessage]) -> None:
        """End the job of a table: tasks that still run find no mark, and files that were not committed are deleted."""
        files = token.files(self._table_of(token))
        files.unmark()
        files.sweep(messages)

    def _discard(self, done: IngestionRound) -> None:
        """Delete written files that are in no snapshot."""
        for token in (done.tokens or {}).values():
            files = token.files(self._table_of(token))
            files.unmark()
            delete_unnamed([files])

    def _table_of(self, token: CommitToken) -> Table:
        return token.handle.open()


def _limited(ends: Positions, limit: MessagePlace) -> Positions:
    """Return the ends, up to the limit."""
    offset = min(ends.get(limit.topic, limit.partition) or 0, limit.offset)
    return Positions({**ends.of, limit.topic: {**ends.of.get(limit.topic, {}), limit.partition: offset}})


def _balanced(groups: Mapping[str, int], tasks: int) -> list[list[str]]:
    """Distribute the groups over tasks with similar numbers of rows."""
    names = sorted(groups)
    return [[names[i] for i in each] for each in spread([groups[name] for name in names], max(1, tasks))]


def _answer(progress: RunProgress, lag: int) -> tuple[Any, ...]:
    rows = dict(sorted(progress.rows.items()))
    after = replace(progress, ends=None)
    return (
        progress.messages,
        sum(rows.values()),
        progress.bad,
        progress.commits,
        json.dumps(rows),
        after.to_json(),
        lag,
    )
