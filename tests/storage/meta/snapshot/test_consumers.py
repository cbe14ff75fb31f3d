"""Consumer files that another process overwrites are empty for a moment."""

from pathlib import Path

import pytest

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.io.api import WrappedFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.progress import ConsumerManager


class _RewrittenFiles(WrappedFileIO):
    """A FileIO whose files are empty for a given number of reads."""

    def __init__(self, times: int) -> None:
        super().__init__(LocalFileIO())
        self.left = times

    def read_bytes(self, path: str) -> bytes:
        content = self.inner.read_bytes(path)
        self.left -= 1
        return b"" if self.left >= 0 else content


def test_a_file_that_is_being_written_is_read_again(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path))
    ConsumerManager(LocalFileIO(), paths).reset("reports", 7)
    assert ConsumerManager(_RewrittenFiles(2), paths).all() == {"reports": 7}


def test_a_file_that_stays_empty_is_refused_by_name(tmp_path: Path) -> None:
    paths = TablePaths(str(tmp_path))
    ConsumerManager(LocalFileIO(), paths).reset("reports", 7)
    io = _RewrittenFiles(1000)
    with pytest.raises(CorruptFileError, match=r"consumer-reports is not a consumer's file: .*Reset the consumer"):
        ConsumerManager(io, paths).min_next_snapshot()
    assert io.left == 1000 - 5
