"""Functions of obstore with their arguments, results and errors, and counts of the requests of this process.

obstore repeats some requests itself, and divides a listing into pages. A call counts as one request here; each part of
an upload counts. The bytes of a body that is read later are counted by its range.

A panic of obstore's Rust code, which derives only from BaseException, becomes an error of obstore: it is not known
whether the request was carried out.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any


class _BodyBytes:
    """Bytes of one request and of its response."""

    read = 0
    written = 0


@contextmanager
def _counted(kind: str) -> Iterator[_BodyBytes]:
    content, started, failed = _BodyBytes(), time.perf_counter(), 1
    try:
        with panics_translated():
            yield content
        failed = 0
    except BaseException as error:
        failed = int(not _is_answer(error))
        raise
    finally:
        counts = RequestCounts(
            requests=1,
            failed=failed,
            read_bytes=content.read,
            written_bytes=content.written,
            wait_seconds=time.perf_counter() - started,
        )
        count(kind, counts)


@contextmanager
def panics_translated() -> Iterator[None]:
    """Raise a panic as an error of obstore; other exceptions, such as an interrupt, pass."""
    try:
        yield
    except BaseException as error:
        # PyO3 creates the class at the first panic; no module has it.
        if type(error).__name__ != "PanicException":
            raise
        from obstore.exceptions import GenericError

        raise GenericError(f"the client of the store has panicked, so that an option may be wrong: {error}") from None


def _is_answer(error: BaseException) -> bool:
    """Return whether the error is a regular response: the object is missing, exists, or is unchanged."""
    from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError

    return isinstance(error, FileNotFoundError | AlreadyExistsError | NotModifiedError | PreconditionError)


def get(store: Any, path: str, *, options: Any = None) -> Any:
    import obstore

    with _counted("get") as content:
        found = obstore.get(store, path, options=options)
        if not (options or {}).get("head"):
            content.read = found.range[1] - found.range[0]
        return found


def read(store: Any, path: str) -> bytes:
    """Return all bytes of an object, by obstore.get."""
    import obstore

    with _counted("get") as content:
        found = bytes(obstore.get(store, path).bytes())
        content.read = len(found)
        return found


def get_range(store: Any, path: str, *, start: int, end: int) -> Any:
    import obstore

    with _counted("get") as content:
        found = obstore.get_range(store, path, start=start, end=end)
        content.read = len(found)
        return found


def head(store: Any, path: str) -> Any:
    import obstore

    with _counted("head"):
        return obstore.head(store, path)


def put(store: Any, path: str, file: Any, **more: Any) -> Any:
    import obstore

    with _counted("put") as content:
        content.written = len(file)
        return obstore.put(store, path, file, **more)


def list_pages(store: Any, prefix: str | None = None, **more: Any) -> Iterator[Any]:
    """Yield the pages of obstore.list; each counts as a request."""
    import obstore

    with panics_translated():
        pages = iter(obstore.list(store, prefix, **more))
    while True:
        with _counted("list"):
            page = next(pages, None)
        if page is None:
            return
        yield page


def list_with_delimiter(store: Any, prefix: str | None = None) -> Any:
    import obstore

    with _counted("list"):
        return obstore.list_with_delimiter(store, prefix)


def delete(store: Any, paths: Any) -> None:
    import obstore

    with _counted("delete"):
        obstore.delete(store, paths)


def copy(store: Any, from_: str, to: str, *, overwrite: bool = True) -> None:
    import obstore

    with _counted("copy"):
        obstore.copy(store, from_, to, overwrite=overwrite)


def open_writer(store: Any, path: str, *, buffer_size: int, **more: Any) -> "CountedWriter":
    import obstore

    with panics_translated():
        return CountedWriter(obstore.open_writer(store, path, buffer_size=buffer_size, **more), buffer_size)


class CountedWriter:
    """Writer of obstore, whose requests are counted when it ends."""

    def __init__(self, writer: Any, part_bytes: int) -> None:
        self._writer = writer
        self._part_bytes = part_bytes
        self._bytes = 0
        self._wait = 0.0

    def write(self, content: Any) -> None:
        """Write the bytes; a part is sent when it is full."""
        started = time.perf_counter()
        try:
            with panics_translated():
                self._writer.write(content)
        finally:
            self._wait += time.perf_counter() - started
        self._bytes += len(content)

    def close(self) -> None:
        """Send the remaining bytes, and end."""
        self._end(self._writer.close)

    def __exit__(self, *given: Any) -> None:
        self._end(lambda: self._writer.__exit__(*given))

    def _end(self, step: Any) -> None:
        started, failed = time.perf_counter(), 1
        try:
            with panics_translated():
                step()
            failed = 0
        finally:
            wait = self._wait + time.perf_counter() - started
            # A file of one part is one put; otherwise two requests begin and end the upload.
            parts = -(-self._bytes // self._part_bytes)
            count(
                "put",
                RequestCounts(
                    requests=parts + 2 if parts > 1 else 1, failed=failed, written_bytes=self._bytes, wait_seconds=wait
                ),
            )
            self._bytes, self._wait = 0, 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Requests of one kind; a request that was repeated after an error counts once. Bytes are those of contents.

    `wait_seconds` is the sum over all requests, also over parallel ones.
    """

    requests: int = 0
    failed: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    wait_seconds: float = 0.0

    def plus(self, other: "RequestCounts") -> "RequestCounts":
        """Return the sum of both counts."""
        return RequestCounts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def minus(self, other: "RequestCounts") -> "RequestCounts":
        """Return the requests since the other counts."""
        return RequestCounts(**{name: value - getattr(other, name) for name, value in asdict(self).items()})


@dataclass(slots=True)
class RequestReport:
    """Requests by kind (`get`, `put`, `list`, …); `str` for people, `to_json` for programs."""

    kinds: Mapping[str, RequestCounts] = field(default_factory=dict[str, RequestCounts])

    @property
    def total(self) -> RequestCounts:
        """Sum over all kinds of requests."""
        total = RequestCounts()
        for counts in self.kinds.values():
            total = total.plus(counts)
        return total

    def since(self, before: "RequestReport") -> "RequestReport":
        """Return the requests since an earlier report."""
        changed = {k: c.minus(before.kinds.get(k, RequestCounts())) for k, c in self.kinds.items()}
        return RequestReport({k: c for k, c in sorted(changed.items()) if c.requests})

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        kinds = {kind: asdict(counts) for kind, counts in self.kinds.items()}
        return {"total": asdict(self.total), "kinds": kinds}

    def __str__(self) -> str:
        total = self.total
        kinds = ", ".join(f"{counts.requests:,} {kind}" for kind, counts in self.kinds.items())
        failed = f", {total.failed:,} of them failed" if total.failed else ""
        return (
            f"{total.requests:,} requests ({kinds or 'none'}){failed}; {total.read_bytes / 1024:,.0f} KiB read, "
            f"{total.written_bytes / 1024:,.0f} KiB written; {total.wait_seconds * 1000:,.0f} ms waited"
        )


_guard = threading.Lock()
_counts: dict[str, RequestCounts] = {}


def count(kind: str, counts: RequestCounts) -> None:
    """Add requests of a kind to the counts of the process."""
    with _guard:
        _counts[kind] = _counts.get(kind, RequestCounts()).plus(counts)


def requests_so_far() -> RequestReport:
    """Return all requests since the start of the process."""
    with _guard:
        return RequestReport(dict(_counts))


@contextmanager
def counted_requests() -> Iterator[RequestReport]:
    """Count the requests of the whole process within the block; the report is complete at its end."""
    before, report = requests_so_far(), RequestReport()
    try:
        yield report
    finally:
        report.kinds = requests_so_far().since(before).kinds
