"""pypaimon's builder of streaming reads: a plan for each snapshot, as a generator or an asynchronous generator."""

import time
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import Predicate, bind
from interbed.storage.base.row.kind import RowKind
from interbed.storage.base.types.column_names import check_asked_once
from interbed.storage.base.types.data_type import DataField
from interbed.storage.meta.file_store import FileStore
from interbed.storage.read.change_read import ROW_KIND, ChangeRead
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.split import Split
from interbed.storage.views.builder.read import BuiltPlan, BuiltRead
from interbed.storage.views.builder.rows_read import PredicateBuilder
from interbed.storage.views.stream.stream_scan import StreamScan, streamed

_KIND_TEXTS = array_of([kind.short for kind in RowKind], pa.string())


class BuiltStreamScan:
    """Plans a stream: first the rows of the newest snapshot (or by the scan's options), then changes."""

    def __init__(
        self,
        scan: StreamScan,
        poll_seconds: float,
        bucket_filter: Callable[[int], bool] | None,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        self._scan = scan
        self._poll_seconds = poll_seconds
        self._bucket_filter = bucket_filter
        self._wait = wait

    @property
    def next_snapshot_id(self) -> int | None:
        """The next snapshot to read; None before the first plan. Setting it makes the stream resume from there."""
        return self._scan.checkpoint()

    @next_snapshot_id.setter
    def next_snapshot_id(self, snapshot_id: int | None) -> None:
        self._scan.restore(snapshot_id)

    def plan(self) -> BuiltPlan | None:
        """Return the next plan; None if there is nothing new. The call confirms that the plan before is processed."""
        self._scan.notify_checkpoint_complete(self._scan.checkpoint())
        plan = self._scan.plan()
        if plan is None or self._bucket_filter is None:
            return None if plan is None else BuiltPlan(plan)
        return BuiltPlan(replace(plan, splits=tuple(s for s in plan.splits if self._bucket_filter(s.bucket))))

    def stream_sync(self) -> Generator[BuiltPlan]:
        """Yield plans of new snapshots, without an end."""
        while not self._scan.is_finished:
            plan = self.plan()
            if plan is None:
                self._wait(self._poll_seconds)
            else:
                yield plan

    async def stream(self) -> AsyncGenerator[BuiltPlan]:
        """Yield plans for `async for`; planning runs in a thread."""
        # Imported by use: few processes have an event loop.
        import asyncio

        while not self._scan.is_finished:
            plan = await asyncio.to_thread(self.plan)
            if plan is None:
                await asyncio.sleep(self._poll_seconds)
            else:
                yield plan


@dataclass(frozen=True, slots=True)
class KindRead:
    """Reads changes with their kinds in the first column, `_row_kind`: +I, -U, +U or -D."""

    changes: ChangeRead

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        columns = [field for field in self.changes.schema if field.name != ROW_KIND]
        return pa.schema([pa.field(ROW_KIND, pa.string()), *columns])

    def to_reader(self, splits: Sequence[Split]) -> pa.RecordBatchReader:
        """Return the rows of the splits."""
        return pa.RecordBatchReader.from_batches(self.schema, self._batches(splits))

    def _batches(self, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
        for batch in self.changes.to_reader(splits):
            kinds: Any = _KIND_TEXTS.take(batch.column(ROW_KIND))
            yield pa.RecordBatch.from_arrays(
                [kinds, *(batch.column(name) for name in self.schema.names[1:])], schema=self.schema
            )


class StreamReadBuilder:
    """Builder of a streaming read; every `with_…` returns the builder itself, as in pypaimon."""

    def __init__(self, store: FileStore) -> None:
        self._store = streamed(store)
        self._predicate: Predicate | None = None
        self._columns: tuple[str, ...] | None = None
        self._poll_seconds = 1.0
        self._with_kinds = False
        self._bucket_filter: Callable[[int], bool] | None = None

    def with_filter(self, predicate: Predicate | None) -> "StreamReadBuilder":
        """Read only rows that the predicate selects, all for None; see `new_predicate_builder`."""
        self._predicate = None if predicate is None else bind(predicate, self._store.schema.fields)
        return self

    def with_projection(self, projection: Sequence[str] | None) -> "StreamReadBuilder":
        """Read only these columns, in this order; all for None. Raises InvalidInputError for an unknown column."""
        known = self._store.schema.by_name
        check_asked_once(projection)
        unknown = [name for name in projection or () if name not in known]
        if unknown:
            raise InvalidInputError(f"The table has no column {unknown[0]!r}; it has {', '.join(known)}.")
        self._columns = None if projection is None else tuple(projection)
        return self

    def with_poll_interval_ms(self, poll_interval_ms: int) -> "StreamReadBuilder":
        """Set the interval of polling for new snapshots, in milliseconds; 1000 by default."""
        if poll_interval_ms < 0:
            raise InvalidInputError(f"A poll interval is zero or more milliseconds, not {poll_interval_ms}.")
        self._poll_seconds = poll_interval_ms / 1000
        return self

    def with_include_row_kind(self, include: bool = True) -> "StreamReadBuilder":
        """Read the kinds of changes as a first column, `_row_kind`; without it retracted rows are left out."""
        self._with_kinds = include
        return self

    def with_consumer_id(self, consumer_id: str) -> "StreamReadBuilder":
        """Store the progress in the table under this consumer id, and resume from it."""
        self._store = self._store.with_options({"consumer-id": consumer_id})
        return self

    def with_bucket_filter(self, bucket_filter: Callable[[int], bool]) -> "StreamReadBuilder":
        """Read only buckets for whose number the function returns true."""
        self._bucket_filter = bucket_filter
        return self

    def with_buckets(self, bucket_ids: Collection[int]) -> "StreamReadBuilder":
        """Read only the buckets of these numbers."""
        return self.with_bucket_filter(frozenset(bucket_ids).__contains__)

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates over the table's columns."""
        return PredicateBuilder(self._store.schema.fields)

    def read_type(self) -> list[DataField]:
        """Return the columns that will be read."""
        return list(
            self._store.schema.fields_named(self._store.schema.names if self._columns is None else self._columns)
        )

    def new_streaming_scan(self) -> BuiltStreamScan:
        """Return the scan, which plans the stream."""
        scan = StreamScan(self._store, predicate=self._predicate)
        return BuiltStreamScan(scan, self._poll_seconds, self._bucket_filter)

    def new_read(self) -> BuiltRead:
        """Return the read of planned splits."""
        if self._with_kinds:
            return BuiltRead(KindRead(ChangeRead(self._store, self._columns, self._predicate)))
        return BuiltRead(TableRead(self._store, self._columns, self._predicate))
