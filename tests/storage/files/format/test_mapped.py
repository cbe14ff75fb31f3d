"""Memory-mapped pages that were read: they are released from the process, and loaded again on access."""

import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from interbed.storage.files.format.parquet import RELEASE_BYTES, MappedPages
from interbed.storage.io.local import LocalFileIO

FILE_BYTES = 64 << 20


def mapped_bytes(path: Path) -> int:
    """Return the bytes of the file that are resident in this process, where the system reports it."""
    if not sys.platform.startswith("linux"):
        return 0
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            return next(int(field.split()[1]) << 10 for field in lines if field.startswith("Rss:"))
    return 0


def test_pages_that_were_read_are_released_from_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    np.arange(FILE_BYTES // 8).tofile(path)
    with LocalFileIO().open_input(str(path)) as source:
        pages = MappedPages(source)
        content = np.frombuffer(cast(Any, source.read_buffer()), np.int64)
        total = content.sum()
        touched = mapped_bytes(path)
        pages.read(RELEASE_BYTES - 1)
        assert mapped_bytes(path) == touched
        pages.read(1)
        assert mapped_bytes(path) <= touched // 10
        assert content.sum() == total == (FILE_BYTES // 8) * (FILE_BYTES // 8 - 1) // 2


def test_reading_a_buffer_that_is_not_mapped_releases_nothing() -> None:
    MappedPages(pa.BufferReader(b"x")).read(RELEASE_BYTES)
