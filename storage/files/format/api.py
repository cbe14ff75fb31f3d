"""Reading and writing data files: the protocols of the formats, and how failures of reading are reported."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of a file in order, in batches of at most `batch_rows`, in memory bounded by some pages or a stripe.

        Each batch comes with the position of its first row in the file; the rows of a batch are consecutive. `fields`
        are columns as the file's schema names and types them. A column that the file does not have is left out; Arrow
        types are those that the format gives, which may differ from those of the fields in units and in the names and
        nullability of nested fields. Parts of the file that can't hold a row that satisfies `predicate` (over columns
        of the file), or any of the positions `wanted`, which ascend, may be skipped; rows are not filtered.
        `use_threads` decodes columns in parallel.

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
            f"The data file {path} is gone: the snapshot that names it has probably expired. Plan the read again."
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise NotSupportedError(f"The data file {path} can't be read by this version: {error}") from error
    except OSError as error:
        # Decoders report bad bytes as an OSError without the system's error number.
        if error.errno is None:
            raise CorruptFileError(f"The data file {path} can't be decoded: {error}") from error
        raise StorageAccessError(f"Can't read {path}: {error.strerror or error}.") from error
    except (pa.ArrowException, ValueError, EOFError, LookupError, TypeError, OverflowError, SystemError) as error:
        # What fastavro meets in damaged bytes it reports as whatever Python makes of them.
        raise CorruptFileError(f"The data file {path} can't be decoded: {error}") from error
