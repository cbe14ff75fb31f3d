"""Files that are opened before it is their turn: by threads, each once, and what nobody took is closed."""

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


def test_a_file_is_opened_once_and_others_as_they_are_asked_for(files: PacedFiles) -> None:
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


def test_what_opening_has_raised_is_raised_by_who_asks(files: PacedFiles) -> None:
    with PrefetchedInputs(files) as coming:
        coming.begin("s3://lake/c", 1)
        with pytest.raises(FileNotFoundError):
            coming.open_input("s3://lake/c")


def test_what_nobody_took_is_closed(files: PacedFiles) -> None:
    pool = pool_of(files.read_ahead)
    assert pool is not None
    alone = pool.share(1)
    with PrefetchedInputs(files) as coming:
        coming.begin("s3://lake/a", 3 * MIB)
        coming.begin("s3://lake/c", 1)
        # What no thread has begun to open by then is not opened at all.
        wait(future for future, _ in coming._opening.values())
    assert pool.share(1) == alone
    assert [source.closed for source in files.inputs] == [True]
