"""The reader of each file format."""

import gc
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.files.format.api import FormatReader
from interbed.storage.io.api import FileIO
from interbed.storage.io.prefetch.needs import ReadAhead, read_ahead_of


def _parquet() -> FormatReader:
    # Reading a footer needs it, and loading it takes a while: see begin_loading.
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
"""Formats whose readers were loaded, or are being loaded by a thread, and what else was."""


def reader_for(file_format: str, path: str) -> FormatReader:
    """The reader of a format; raises NotSupportedError naming the file for an unknown one."""
    reader = _READERS.get(file_format.lower())
    if reader is None:
        raise NotSupportedError(
            f"The data file {path} is of the format '{file_format}'; this version reads {', '.join(sorted(_READERS))}."
        )
    return reader()


def begin_loading(file_io: FileIO, file_format: str, *, many: bool = False, merging: bool = False) -> None:
    """Have a thread load the code of a format's reader, while a store is asked which files there are to be read.

    Where there may be `many`, it gets ready for that as well, and where they are merged it loads Arrow's functions.
    Does nothing for files that are at hand.
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
    # By use: the files at hand need none of it.
    import interbed.storage.io.prefetch.inputs  # noqa: F401
    from interbed.storage.io.prefetch.pool import pool_of

    pool = pool_of(limits)
    if pool is not None:
        pool.start_threads()


def _load(steps: Sequence[Callable[[], object]]) -> None:
    # Whoever reads a file is told what is missing.
    with suppress(Exception):
        for step in steps:
            step()
    # The interpreter looks through all of it when there is a quarter more: better now than among the answers to come.
    gc.collect()
