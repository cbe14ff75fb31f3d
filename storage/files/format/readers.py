"""Readers by file format, loaded by use or in advance by a thread."""

import gc
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.api import FormatReader
from interbed.storage.io.api import FileIO, ReadAhead, read_ahead_of


def _parquet() -> FormatReader:
    # Footers need it, and loading it takes a while: see begin_loading.
    import pyarrow.parquet  # noqa: F401

    from interbed.storage.files.format.parquet import ParquetReader

    return ParquetReader()


def _orc() -> FormatReader:
    from interbed.storage.files.format.orc import OrcReader

    return OrcReader()


def _avro() -> FormatReader:
    from interbed.storage.files.format.avro import AvroReader

    return AvroReader()


# Loaded by use: a table seldom has files of two formats.
_READERS: dict[str, Callable[[], FormatReader]] = {"parquet": cache(_parquet), "orc": cache(_orc), "avro": cache(_avro)}
_FUNCTIONS = "functions"
_BEGUN: set[object] = set()
"""Formats and other modules that were loaded, or are being loaded by a thread."""


def reader_for(file_format: str, path: str) -> FormatReader:
    """Return the reader of a format. Raises NotSupportedError naming the file for an unknown format."""
    reader = _READERS.get(file_format.lower())
    if reader is None:
        raise NotSupportedError(
            f"The data file {path} is of the format '{file_format}'; this version reads {', '.join(sorted(_READERS))}."
        )
    return reader()


def begin_loading(file_io: FileIO, file_format: str, *, many: bool = False, merging: bool = False) -> None:
    """Load the code of a format's reader in a thread, while the caller plans a read of an object store.

    For `many` files the thread also starts the threads of the read-ahead, for `merging` it loads Arrow's functions.
    Does nothing for local files.
    """
    name = file_format.lower()
    if name not in _READERS or not file_io.capabilities.slow_requests:
        return
    wanted: dict[object, Callable[[], object]] = {name: _READERS[name]}
    if merging:
        wanted[_FUNCTIONS] = _load_functions
    limits = read_ahead_of(file_io)
    if many and limits is not None:
        wanted[limits] = partial(_start_read_ahead, limits)
    steps = [step for key, step in wanted.items() if key not in _BEGUN]
    _BEGUN.update(wanted)
    if steps:
        threading.Thread(target=_load, args=(steps,), name="interbed-load").start()


def _load_functions() -> None:
    import pyarrow.compute  # noqa: F401


def _start_read_ahead(limits: ReadAhead) -> None:
    # By use: local files need no read-ahead.
    import interbed.storage.io.prefetch.inputs  # noqa: F401
    from interbed.storage.io.prefetch.pool import pool_of

    pool = pool_of(limits)
    if pool is not None:
        pool.start_threads()


def _load(steps: Sequence[Callable[[], object]]) -> None:
    # The later read of a file reports a missing module.
    with suppress(Exception):
        for step in steps:
            step()
    # Loading creates many objects. A collection now avoids one while responses arrive.
    gc.collect()
