"""The functions of obstore that are used here, counted: their arguments, results and errors.

obstore repeats requests by itself in some places, and divides a listing into pages; each call counts as one here, and
of an upload in parts each part. What a body takes that is still to be read is counted with the bytes of its range.

A panic of its Rust code, which derives from BaseException alone, becomes one of obstore's own errors, that of a request
of which it is not known whether it was carried out.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interbed.storage.io.stores.tally import RequestCounts, count


class _Bytes:
    """What came and went with a request."""

    read = 0
    written = 0


@contextmanager
def _counted(kind: str) -> Iterator[_Bytes]:
    content, started, failed = _Bytes(), time.perf_counter(), 1
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
    """Let a panic be an error of obstore's; whoever ends the program is let through."""
    try:
        yield
    except BaseException as error:
        # PyO3 makes the class when the first panic comes; no module has it.
        if type(error).__name__ != "PanicException":
            raise
        from obstore.exceptions import GenericError

        raise GenericError(f"the client of the store has panicked, so that an option may be wrong: {error}") from None


def _is_answer(error: BaseException) -> bool:
    """Whether it only says that something is not there, or is there already, or unchanged."""
    from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError

    return isinstance(error, FileNotFoundError | AlreadyExistsError | NotModifiedError | PreconditionError)


def get(store: Any, path: str, *, options: Any = None) -> Any:
    """See obstore.get."""
    import obstore

    with _counted("get") as content:
        found = obstore.get(store, path, options=options)
        if not (options or {}).get("head"):
            content.read = found.range[1] - found.range[0]
        return found


def read(store: Any, path: str) -> bytes:
    """All bytes of an object, by obstore.get."""
    import obstore

    with _counted("get") as content:
        found = bytes(obstore.get(store, path).bytes())
        content.read = len(found)
        return found


def get_range(store: Any, path: str, *, start: int, end: int) -> Any:
    """See obstore.get_range."""
    import obstore

    with _counted("get") as content:
        found = obstore.get_range(store, path, start=start, end=end)
        content.read = len(found)
        return found


def head(store: Any, path: str) -> Any:
    """See obstore.head."""
    import obstore

    with _counted("head"):
        return obstore.head(store, path)


def put(store: Any, path: str, file: Any, **more: Any) -> Any:
    """See obstore.put."""
    import obstore

    with _counted("put") as content:
        content.written = len(file)
        return obstore.put(store, path, file, **more)


def list_pages(store: Any, prefix: str | None = None, **more: Any) -> Iterator[Any]:
    """See obstore.list; each step of it is counted."""
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
    """See obstore.list_with_delimiter."""
    import obstore

    with _counted("list"):
        return obstore.list_with_delimiter(store, prefix)


def delete(store: Any, paths: Any) -> None:
    """See obstore.delete."""
    import obstore

    with _counted("delete"):
        obstore.delete(store, paths)


def copy(store: Any, from_: str, to: str, *, overwrite: bool = True) -> None:
    """See obstore.copy."""
    import obstore

    with _counted("copy"):
        obstore.copy(store, from_, to, overwrite=overwrite)


def open_writer(store: Any, path: str, *, buffer_size: int, **more: Any) -> "CountedWriter":
    """See obstore.open_writer."""
    import obstore

    with panics_translated():
        return CountedWriter(obstore.open_writer(store, path, buffer_size=buffer_size, **more), buffer_size)


class CountedWriter:
    """A writer of obstore's; what it has sent is counted when it ends."""

    def __init__(self, writer: Any, part_bytes: int) -> None:
        self._writer = writer
        self._part_bytes = part_bytes
        self._bytes = 0
        self._wait = 0.0

    def write(self, content: Any) -> None:
        """Take the bytes; a part is sent when it is full."""
        started = time.perf_counter()
        try:
            with panics_translated():
                self._writer.write(content)
        finally:
            self._wait += time.perf_counter() - started
        self._bytes += len(content)

    def close(self) -> None:
        """Send the rest."""
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
            # A file of one part is one put; else the upload is begun and ended as well.
            parts = -(-self._bytes // self._part_bytes)
            count(
                "put",
                RequestCounts(
                    requests=parts + 2 if parts > 1 else 1, failed=failed, written_bytes=self._bytes, wait_seconds=wait
                ),
            )
            self._bytes, self._wait = 0, 0.0
