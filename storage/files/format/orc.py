"""Reading ORC data files.

Rows are decoded batch by batch, so that the plain rows of a stripe, which may be many times its 64 MB in the file, are
never in memory all at once. Columns are found by name, as Paimon does.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import orc

from interbed.storage.base.arrays import Positions
from interbed.storage.base.columnar.orc_checks import check_orc
from interbed.storage.base.errors import NotSupportedError
from interbed.storage.base.fileio.ahead.needs import open_sized
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.decode_tally import DecodeTally
from interbed.storage.files.format.api import CHECKSUMS, ReadChecks, data_file_errors

_OUT_OF_RANGE = "out of range for nanosecond"


class OrcReader:
    """FormatReader of ORC files; holds no state. Nothing is skipped: pyarrow does not show statistics of stripes.

    Files that interbed wrote have a checksum of the whole file, which is verified before anything is decoded, where the
    file is on this machine. Elsewhere that would read it twice.
    """

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
        """See FormatReader."""
        with data_file_errors(path), open_sized(file_io, path, checks.size) as source:
            if checks.checksums and isinstance(source, pa.MemoryMappedFile):
                check_orc(source)
            file = orc.ORCFile(source)
            checks.expect_rows(file.nrows)
            present = set(file.schema.names)
            names = [f.name for f in fields if f.name in present]
            if not names:
                # Without columns pyarrow reads all; rows are counted by the narrowest stand-in.
                yield from _empty_columns(file.nrows, batch_rows)
                return
            if any("." in name for name in present):
                with _range_errors(path):
                    yield from _by_stripe(file, names, batch_rows, tally)
                return
            readable: Any = source
            # By use: it brings pandas along where that is installed.
            import pyarrow.dataset as ds

            fragment: Any = ds.OrcFileFormat().make_fragment(readable)
            scanner = fragment.scanner(
                columns=names, batch_size=batch_rows, use_threads=False, batch_readahead=0, fragment_readahead=0
            )
            position = 0
            with _range_errors(path):
                for batch in scanner.to_batches():
                    if tally is not None:
                        tally.add_whole(batch)
                    yield position, batch
                    position += batch.num_rows
            checks.expect_rows(position)


def _by_stripe(
    file: "orc.ORCFile", names: Sequence[str], batch_rows: int, tally: DecodeTally | None
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Read all columns of each stripe: to Arrow a name with a dot is the path of a field in another column."""
    position = 0
    for number in range(file.nstripes):
        stripe: Any = file.read_stripe(number)
        if tally is not None:
            tally.add_whole(stripe)
        chosen = stripe.select(names)
        for offset in range(0, stripe.num_rows, batch_rows):
            yield position + offset, chosen.slice(offset, batch_rows)
        position += stripe.num_rows


@contextmanager
def _range_errors(path: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        if _OUT_OF_RANGE not in str(error):
            raise
        raise NotSupportedError(
            f"The data file {path} has timestamps before 1678 or after 2261, which are not read from ORC files: {error}"
        ) from error


def _empty_columns(rows: int, batch_rows: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    for start in range(0, rows, batch_rows):
        yield start, pa.record_batch([pa.nulls(min(batch_rows, rows - start))], names=["rows"]).select([])
