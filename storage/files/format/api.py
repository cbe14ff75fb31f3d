"""Reading and writing data files: the protocols of the formats, and how errors of reading are reported.

Readers count what they decode in a `DecodeTally`. Encoders that would close their file write to an `OpenSink`, which
the caller closes.
"""

import lzma
import struct
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from interbed.storage.base.arrays import Positions
from interbed.storage.base.errors import (
    CorruptFileError,
    FileGoneError,
    InterbedError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.data_type import DataField
from interbed.storage.io.api import FileIO


class DecodeTally:
    """How many values files gave, by why they were decoded. Threads add to it.

    What stands for a reason is the number of values of all columns, the number of columns, and the bytes in memory.
    """

    FILTER, REST, PAGES, WHOLE = (
        "pages of the filter's columns",
        "pages of the other columns",
        "pages of all columns",
        "whole row groups",
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, tuple[int, int, int]] = {}

    def add(self, reason: str, values: int, columns: int, nbytes: int) -> None:
        """Note so many values of so many columns together, and their bytes."""
        with self._lock:
            before, most, total = self._found.get(reason, (0, 0, 0))
            self._found[reason] = before + values, max(most, columns), total + nbytes

    def add_whole(self, batch: pa.RecordBatch) -> None:
        """Note rows of whole row groups."""
        self.add(self.WHOLE, batch.num_rows * batch.num_columns, batch.num_columns, batch.nbytes)

    def by_reason(self) -> dict[str, tuple[int, int, int]]:
        """Values, columns and bytes by reason."""
        with self._lock:
            return dict(self._found)


class OpenSink:
    """Passes bytes on to a file object and leaves it open."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        """Write bytes; how many there were."""
        self._sink.write(data)
        return len(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """The sink is closed by the one who opened it."""


class QuietSink(OpenSink):
    """A sink that never raises: it keeps its first error, and drops what comes after it.

    For encoders that write once more when they are destroyed, and end the process if that fails.
    """

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._written = 0
        self._error: BaseException | None = None

    def write(self, data: Any) -> int:
        """Write bytes, or drop them; how many there were."""
        if self._error is None:
            try:
                super().write(data)
            except BaseException as error:  # noqa: BLE001 - what went through the encoder would end the process
                # check() raises it.
                self._error = error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._written

    def check(self) -> None:
        """Raise the error that was kept."""
        if self._error is not None:
            raise self._error


if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

# What decoders meet in damaged bytes they report as whatever Python makes of them.
_DAMAGE: tuple[type[Exception], ...] = (
    pa.ArrowException,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    SystemError,
    MemoryError,
    RecursionError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    ZstdError,
)


class FileWriter(Protocol):
    """Writes batches of one schema to a file object that the caller opened and closes."""

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append the batches; a columnar format keeps them together in one group of rows."""
        ...

    def position(self) -> int:
        """Bytes written so far."""
        ...

    def finish(self) -> int:
        """Write what belongs at the end; the size of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChecks:
    """What of a file is compared while it is read: its `rows` where they are known, and the checksums of its parts.

    Without `checksums` those are not verified that cost time; damage may then come back as other values. The `size` of
    the file in bytes, where it is known, is not compared: a store sends less when it is told.
    """

    rows: int | None = None
    checksums: bool = True
    size: int | None = None

    def expect_rows(self, found: int) -> None:
        """Raise ValueError when the file has another number of rows."""
        if self.rows not in (None, found):
            raise ValueError(f"it has {found} rows where the manifest says {self.rows}")


CHECKSUMS = ReadChecks()
"""The checksums alone: for files of which no manifest tells anything."""


class FormatReader(Protocol):
    """Reads files of one format."""

    def positioned(
        self,
        path: str,
        fields: Sequence[DataField],
        *,
        file_io: FileIO,
        batch_rows: int,
        predicate: Predicate | None = None,
        wanted: Positions | None = None,
        use_threads: bool = False,
        checks: ReadChecks = CHECKSUMS,
        tally: DecodeTally | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of a file in order, in batches of at most `batch_rows`, in memory bounded by some pages or a stripe.

        Each batch comes with the position of its first row in the file; the rows of a batch are consecutive. `fields`
        are columns as the file's schema names and types them. A column that the file does not have is left out; Arrow
        types are those that the format gives, which may differ from those of the fields in units and in the names and
        nullability of nested fields. Parts of the file that can't hold a row that satisfies `predicate` (over columns
        of the file), or any of the positions `wanted`, which ascend, may be skipped; rows are not filtered.
        `use_threads` decodes columns in parallel. What does not pass the `checks` is damaged, which may show after
        some batches. What is decoded is noted in the `tally`. A reader of files that say where things are opens the
        file when it is called, and asks a store for what is needed of it; others do when the first batch is asked for.

        Raises CorruptFileError, NotSupportedError and StorageAccessError, all naming the file.
        """
        ...


@contextmanager
def data_file_errors(path: str) -> Iterator[None]:
    """Turn what a decoder or the store raises while the file is read into errors that name it."""
    try:
        yield
    except InterbedError:
        raise
    except FileNotFoundError as error:
        raise FileGoneError(
            f"The data file {path} is gone: the snapshot that names it has expired, or the table was dropped or "
            "renamed. Plan the read again."
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(f"The data file {path} can't be read by this version: {error}") from error
    except OSError as error:
        # Decoders report bad bytes as an OSError without the system's error number.
        if error.errno is None:
            raise CorruptFileError(f"The data file {path} can't be decoded: {error}") from error
        raise StorageAccessError(f"Can't read {path}: {error.strerror or error}.") from error
    except _DAMAGE as error:
        raise CorruptFileError(f"The data file {path} can't be decoded: {error}") from error
