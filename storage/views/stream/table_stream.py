"""A stream of a table's changes as an iterator, which waits for what is yet to come.

for changes in table.stream(from_snapshot=1): apply(changes.to_arrow())
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.read.arrow_rows import ArrowRows, SplitsRead
from interbed.storage.scan.split import Plan, Split
from interbed.storage.views.stream.position import StreamCheckpoint
from interbed.storage.views.stream.stream_scan import StreamScan


@dataclass(frozen=True, kw_only=True)
class StreamedChanges(ArrowRows):
    """The changes of one snapshot, or a part of them; or the rows of the snapshot with which a stream begins.

    `checkpoint` is where a stream goes on that is started after these were processed: the `from_snapshot` of another
    one. It is the id of the next snapshot, and knows the commit before it; `checkpoint.to_text()` is what to keep
    outside of the process. While a snapshot is handed out in parts it stays at that snapshot, None for one that is
    read as a whole.
    """

    plan: Plan
    checkpoint: StreamCheckpoint | None
    read: SplitsRead

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot."""
        return self.plan.snapshot_id

    @property
    def splits(self) -> tuple[Split, ...]:
        """The splits, for reading them elsewhere by `Table.new_change_read`."""
        return self.plan.splits

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the columns asked for, and `_row_kind`."""
        return self.read.schema

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """The changes as a stream of batches, in memory bounded by a block."""
        return self.read.to_reader(self.plan.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """How much is handed out at a time, None for all that a snapshot changed: at most so many splits and files.

    A split is never torn, so that one of more files comes alone.
    """

    splits: int | None = None
    files: int | None = None

    def __post_init__(self) -> None:
        for what, value in (("splits", self.splits), ("files", self.files)):
            if value is not None and value < 1:
                raise InvalidInputError(f"A stream hands out at least one at a time, not {value} {what}.")

    def parts(self, splits: Sequence[Split]) -> list[tuple[Split, ...]]:
        """The splits in order, cut to the limits; one part without splits when there are none."""
        parts: list[list[Split]] = [[]]
        for split in splits:
            held = sum(_files_of(s) for s in parts[-1])
            too_many = self.splits is not None and len(parts[-1]) >= self.splits
            too_large = self.files is not None and held + _files_of(split) > self.files
            if parts[-1] and (too_many or too_large):
                parts.append([])
            parts[-1].append(split)
        return [tuple(part) for part in parts]


@dataclass(frozen=True, kw_only=True)
class TableStream:
    """What `Table.stream` returns: an iterator over StreamedChanges that waits for new snapshots.

    It looks for them every `poll_seconds`, and ends when none came for `idle_seconds` (None: never; 0: at once), or at
    `scan.bounded.watermark`. Asking for the next changes says that those before are done with: then the progress is
    kept with the table, if the stream has a `consumer-id`. `now` and `wait` are the clock, in seconds.
    """

    scan: StreamScan
    read: SplitsRead
    limits: StreamLimits = StreamLimits()
    poll_seconds: float = 10.0
    idle_seconds: float | None = None
    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] = time.sleep

    def __iter__(self) -> Generator[StreamedChanges]:
        last_news = self.now()
        noted: int | None = None
        while True:
            plan = self.scan.plan()
            if plan is not None:
                yield from self.parts(plan)
                last_news = self.now()
            if self.scan.checkpoint() != noted:
                noted = self.scan.checkpoint()
                self.scan.notify_checkpoint_complete(noted)
            if plan is not None:
                continue
            if self.scan.is_finished:
                return
            pause = self.poll_seconds
            if self.idle_seconds is not None:
                left = last_news + self.idle_seconds - self.now()
                if left <= 0:
                    return
                pause = min(pause, left)
            self.wait(pause)

    def parts(self, plan: Plan) -> Iterator[StreamedChanges]:
        """What the scan has planned last, cut to the limits."""
        parts = self.limits.parts(plan.splits)
        for part in parts[:-1]:
            again = self.scan.checkpoint_before() if part[0].tells_changes else None
            yield StreamedChanges(plan=replace(plan, splits=part), checkpoint=again, read=self.read)
        yield StreamedChanges(plan=replace(plan, splits=parts[-1]), checkpoint=self.scan.checkpoint(), read=self.read)


def _files_of(split: Split) -> int:
    return len(split.files) + len(split.before or ())
