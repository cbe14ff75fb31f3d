"""Reading and writing data files: the protocols of the formats, and how failures of reading are reported."""

import lzma
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from interbed.storage.base.arrays import Positions
from interbed.storage.base.errors import (
    CorruptFileError,
    FileGoneError,
    InterbedError,
    NotSupportedError,
    StorageAccessError,
)
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.decode_tally import DecodeTally

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
