"""Several streams of batches read ahead by threads, handed out in an order that does not depend on their speed."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.base.prefetch import PrefetchingIterator, chain_prefetched

QUEUED_BATCHES = 1
"""Batches that each thread reads ahead."""
_POLL_SECONDS = 0.2

Source = Callable[[], Iterator[pa.RecordBatch]]


def read_ahead(sources: Sequence[Source], threads: int, *, ahead: int = 0) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all sources. `threads` sources are read at once, and their batches are handed out in turn.

    Once there is a first batch, up to `ahead` of those that come next are begun, up to theirs, before a thread is free
    for them: what they ask for does not keep those waiting that are read. Each source's batches stay in order; which
    one comes after which depends on the number of threads alone. An error of a source is raised here, after the batches
    before it. Threads end soon after the iterator is closed or exhausted.
    """
    if threads <= 1 or len(sources) <= 1:
        if ahead:
            yield from chain_prefetched(sources, [0] * len(sources), most=ahead + 1, weight=0)
            return
        for source in sources:
            yield from source()
        return
    waiting = _Waiting(sources[threads:], ahead)
    cancelled = threading.Event()
    lanes = [_Lane(source, cancelled) for source in sources[:threads]]
    try:
        while lanes:
            remaining = []
            for lane in lanes:
                batch = lane.next()
                waiting.begin()
                if batch is not None:
                    yield batch
                    remaining.append(lane)
                    continue
                following = waiting.next()
                if following is not None:
                    remaining.append(_Lane(following, cancelled))
            lanes = remaining
    finally:
        cancelled.set()
        for lane in lanes:
            lane.join()
        waiting.close()


class _Waiting:
    """The sources that no thread reads yet, the first `ahead` of which are begun."""

    def __init__(self, sources: Sequence[Source], ahead: int) -> None:
        self._sources = deque(sources)
        self._ahead = ahead
        self._begun: deque[PrefetchingIterator[pa.RecordBatch]] = deque()

    def begin(self) -> None:
        """Begin as many as may be."""
        while self._sources and len(self._begun) < self._ahead:
            self._begun.append(PrefetchingIterator(self._sources.popleft()))

    def next(self) -> Source | None:
        """The next one; None after the last."""
        if self._begun:
            begun = self._begun.popleft()
            self.begin()
            return lambda: begun
        return self._sources.popleft() if self._sources else None

    def close(self) -> None:
        """Close those that nobody took."""
        while self._begun:
            self._begun.popleft().close()


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class _Lane:
    """One source, read by a thread of its own into a bounded queue."""

    def __init__(self, source: Source, cancelled: threading.Event) -> None:
        self._source = source
        self._cancelled = cancelled
        self._queue: queue.Queue[pa.RecordBatch | _Failure | None] = queue.Queue(QUEUED_BATCHES)
        self._thread = threading.Thread(target=self._run, name="interbed-read", daemon=True)
        self._thread.start()

    def next(self) -> pa.RecordBatch | None:
        """The next batch, None at the end; raises what the source raised."""
        while True:
            try:
                item = self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                # The thread puts something before it ends, so an empty queue of a dead thread is a defect.
                if self._thread.is_alive() or not self._queue.empty():
                    continue
                raise RuntimeError("a reading thread ended without a word") from None
            if isinstance(item, _Failure):
                raise item.error
            return item

    def join(self) -> None:
        """Wait for the thread, which ends at its next batch after cancellation."""
        self._thread.join(timeout=30)

    def _run(self) -> None:
        batches: Iterator[pa.RecordBatch] | None = None
        try:
            batches = self._source()
            for batch in batches:
                if not self._put(batch):
                    return
            self._put(None)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread that takes the rows raises it
            self._put(_Failure(error))
        finally:
            close = getattr(batches, "close", None)
            if close is not None:
                close()

    def _put(self, item: "pa.RecordBatch | _Failure | None") -> bool:
        while not self._cancelled.is_set():
            try:
                self._queue.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False
