"""Read-ahead of several streams of batches by threads, in an order that does not depend on their speed."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from interbed.storage.base.prefetch import PrefetchingIterator, chain_prefetched

QUEUED_BATCHES = 1
"""The number of batches that each thread reads ahead."""
_POLL_SECONDS = 0.2

Source = Callable[[], Iterator[pa.RecordBatch]]


def read_ahead(sources: Sequence[Source], threads: int, *, ahead: int = 0) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of all sources. `threads` sources are read at once, and their batches alternate.

    After the first batch, up to `ahead` of the next sources are prefetched up to their first batch, before a thread is
    free for them, so that their requests do not delay the current sources. The batches of a source stay in order; the
    order of sources depends on the number of threads only. An error of a source is raised after the batches before it.
    Threads end soon after the iterator is closed or exhausted.
    """
    if threads <= 1 or len(sources) <= 1:
        if ahead:
            yield from chain_prefetched(sources, [0] * len(sources), most=ahead + 1, weight=0)
            return
        for source in sources:
            yield from source()
        return
    pending = _PendingSources(sources[threads:], ahead)
    cancelled = threading.Event()
    readers = [_SourceReader(source, cancelled) for source in sources[:threads]]
    try:
        while readers:
            remaining = []
            for reader in readers:
                batch = reader.next()
                pending.begin()
                if batch is not None:
                    yield batch
                    remaining.append(reader)
                    continue
                following = pending.next()
                if following is not None:
                    remaining.append(_SourceReader(following, cancelled))
            readers = remaining
    finally:
        cancelled.set()
        for reader in readers:
            reader.join()
        pending.close()


class _PendingSources:
    """The sources that no thread reads yet; the first `ahead` of them are prefetched."""

    def __init__(self, sources: Sequence[Source], ahead: int) -> None:
        self._sources = deque(sources)
        self._ahead = ahead
        self._prefetched: deque[PrefetchingIterator[pa.RecordBatch]] = deque()

    def begin(self) -> None:
        """Prefetch sources up to the limit."""
        while self._sources and len(self._prefetched) < self._ahead:
            self._prefetched.append(PrefetchingIterator(self._sources.popleft()))

    def next(self) -> Source | None:
        """Return the next source; None after the last."""
        if self._prefetched:
            batches = self._prefetched.popleft()
            self.begin()
            return lambda: batches
        return self._sources.popleft() if self._sources else None

    def close(self) -> None:
        """Close the prefetched sources that were not read."""
        while self._prefetched:
            self._prefetched.popleft().close()


@dataclass(frozen=True, slots=True)
class _Failure:
    error: BaseException


class _SourceReader:
    """One source, which a thread reads into a bounded queue."""

    def __init__(self, source: Source, cancelled: threading.Event) -> None:
        self._source = source
        self._cancelled = cancelled
        self._queue: queue.Queue[pa.RecordBatch | _Failure | None] = queue.Queue(QUEUED_BATCHES)
        self._thread = threading.Thread(target=self._run, name="interbed-read", daemon=True)
        self._thread.start()

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch, None at the end; raises what the source raised."""
        while True:
            try:
                item = self._queue.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                # The thread always puts an item before it ends, so an empty queue of a dead thread is a bug.
                if self._thread.is_alive() or not self._queue.empty():
                    continue
                raise RuntimeError("a reading thread ended without a result") from None
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
        except BaseException as error:  # noqa: BLE001 - the consuming thread raises every error
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
