"""Files that are opened ahead of their use: by threads, each once; files that were not used are closed."""

from concurrent.futures import wait
from pathlib import Path

import pytest

from interbed.storage.io.prefetch.inputs import PrefetchedInputs
from interbed.storage.io.prefetch.pool import pool_of
from tests.support.paced_files import PacedFiles

MIB = 1 << 20


@pytest.fixture
def files(tmp_path: Path) -> PacedFiles:
    (tmp_path / "a").write_bytes(b"a" * 3 * MIB)
    (tmp_path / "b").write_bytes(b"b")
    return PacedFiles("s3://lake", tmp_path)


def test_a_prefetched_file_is_opened_once_and_others_on_demand(files: PacedFiles) -> None:
    pool = pool_of(files.read_ahead)
    assert pool is not None
    alone = pool.share(1)
    with PrefetchedInputs(files) as coming:
        for _ in range(2):
            coming.begin("s3://lake/a", 3 * MIB)
        assert pool.share(1) < alone
        for _ in range(2):
            with coming.open_sized("s3://lake/a", 3 * MIB) as source, coming.open_input("s3://lake/b") as other:
                assert (source.read(1), other.read()) == (b"a", b"b")
        assert pool.share(1) == alone
    assert [path for path in files.opened if path.endswith("a")] == ["s3://lake/a"] * 2


def test_an_error_while_opening_is_raised_to_the_reader_of_the_file(files: PacedFiles) -> None:
    with PrefetchedInputs(files) as coming:
        coming.begin("s3://lake/c", 1)
        with pytest.raises(FileNotFoundError):
            coming.open_input("s3://lake/c")


def test_files_that_were_not_used_are_closed(files: PacedFiles) -> None:
    pool = pool_of(files.read_ahead)
    assert pool is not None
    alone = pool.share(1)
    with PrefetchedInputs(files) as coming:
        coming.begin("s3://lake/a", 3 * MIB)
        coming.begin("s3://lake/c", 1)
        # Files that no thread has begun to open by then are not opened.
        wait(future for future, _ in coming._opening.values())
    assert pool.share(1) == alone
    assert [source.closed for source in files.inputs] == [True]
