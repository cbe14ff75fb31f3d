"""Protocols of the file formats for reads and writes of data files, and the errors of reads.

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
    """Counts of decoded values by the reason of decoding. Safe for use by several threads.

    The entry of a reason is the number of values of all columns, the number of columns, and the bytes in memory.
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
        """Record a number of values in all of some columns, and their bytes."""
        with self._lock:
            before, most, total = self._found.get(reason, (0, 0, 0))
            self._found[reason] = before + values, max(most, columns), total + nbytes

    def add_whole(self, batch: pa.RecordBatch) -> None:
        """Record rows of whole row groups."""
        self.add(self.WHOLE, batch.num_rows * batch.num_columns, batch.num_columns, batch.nbytes)

    def by_reason(self) -> dict[str, tuple[int, int, int]]:
        """Return values, columns and bytes by reason."""
        with self._lock:
            return dict(self._found)


class OpenSink:
    """Sink that writes to a file object and leaves it open."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        """Write bytes, and return their number."""
        self._sink.write(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return int(self._sink.tell())

    def flush(self) -> None:
        """Do nothing: the sink has no buffer."""

    def close(self) -> None:
        """Do nothing: the caller that opened the file object closes it."""


class QuietSink(OpenSink):
    """Sink that never raises: it keeps its first error, and drops later bytes.

    For encoders that write once more when they are destroyed, and end the process if that fails.
    """

    def __init__(self, sink: Any) -> None:
        super().__init__(sink)
        self._written = 0
        self._error: BaseException | None = None

    def write(self, data: Any) -> int:
        """Write bytes, or drop them after an error, and return their number."""
        if self._error is None:
            try:
                super().write(data)
            except BaseException as error:  # noqa: BLE001 - what went through the encoder would end the process
                # check() raises the error.
                self._error = error
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._written

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self._error is not None:
            raise self._error


if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

# The errors of decoders for damaged bytes.
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
    """Writer of batches of one schema to a file object that the caller opened and closes."""

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append the batches; a columnar format writes them as one row group."""
        ...

    def position(self) -> int:
        """Return the number of bytes written so far."""
        ...

    def finish(self) -> int:
        """Write the end of the file, and return the size of the file."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChecks:
    """Checks of a file while it is read: its number of `rows` where it is known, and the checksums of its parts.

    Without `checksums` the costly ones are not verified; damage may then be read as other values. The `size` of the
    file in bytes, where it is known, is not checked: it saves a request to an object store.
    """

    rows: int | None = None
    checksums: bool = True
    size: int | None = None

    def expect_rows(self, found: int) -> None:
        """Raise ValueError when the file has another number of rows than expected."""
        if self.rows not in (None, found):
            raise ValueError(f"it has {found} rows where the manifest says {self.rows}")


CHECKSUMS = ReadChecks()
"""Checks of the checksums only, for files without an entry in a manifest."""


class FormatReader(Protocol):
    """Reader of the files of one format."""

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
        """Return the rows of a file in order, in batches of at most `batch_rows`; memory is some pages or a stripe.

        Each batch comes with the position of its first row in the file; the rows of a batch are consecutive. `fields`
        are columns with the names and types of the file's schema. A column that the file lacks is left out. Arrow types
        are those of the format, which may differ from the fields in units and in the names and nullability of nested
        fields. Parts of the file without a row that satisfies `predicate` (over columns of the file), or without any of
        the ascending positions `wanted`, may be skipped; rows are not filtered. `use_threads` decodes columns in
        parallel. A file that fails the `checks` is damaged, which may be detected after some batches. Decoded values
        are recorded in the `tally`. The reader of a format with a footer opens the file and requests the needed ranges
        before it returns; other readers do so for the first batch.

        Raises CorruptFileError, NotSupportedError and StorageAccessError, all naming the file.
        """
        ...


@contextmanager
def data_file_errors(path: str) -> Iterator[None]:
    """Convert errors of decoders and of the file system while a file is read to errors that name the file."""
    try:
        yield
    except InterbedError:
        raise
    except FileNotFoundError as error:
        raise FileGoneError(
            f"The data file {path} is missing: the snapshot that names it has expired, or the table was dropped or "
            "renamed. Plan the read again."
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(f"The data file {path} can't be read by this version: {error}") from error
    except OSError as error:
        # Decoders report damaged bytes as an OSError without an error number.
        if error.errno is None:
            raise CorruptFileError(f"The data file {path} can't be decoded: {error}") from error
        raise StorageAccessError(f"Can't read {path}: {error.strerror or error}.") from error
    except _DAMAGE as error:
        raise CorruptFileError(f"The data file {path} can't be decoded: {error}") from error
