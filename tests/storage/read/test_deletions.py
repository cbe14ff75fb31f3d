"""Index files of deletion vectors are read once for each read of rows, for any number of data files."""

import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.files.deletion_vectors import DeletionVector, write_vectors
from interbed.storage.io.faults import FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.read.columns import DeletionReader, LocatedRead
from interbed.storage.read.table_read import TableRead
from interbed.storage.scan.split import DeletionFile, Split
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from tests.storage.commit.tables import data_file
from tests.support.waits import at_most

FILES = 16
ROWS = 10
SMALL_SPLITS = {"source.split.target-size": "1 b"}


def _table(tmp_path: Path, *, deletes: int = 1, **options: str) -> Table:
    """An append table of FILES files; each of `deletes` deletions marks one row of every `deletes`-th file."""
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    own = {"deletion-vectors.enabled": "true", "deletion-vectors.modifiable": "true", "bucket": "-1", **options}
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]), options=own)
    for number in range(FILES):
        table.append(pa.table({"id": range(ROWS * number, ROWS * number + ROWS)}))
    for turn in range(deletes):
        table.delete(" or ".join(f"id = {ROWS * n + 3}" for n in range(turn, FILES, deletes)))
    return table


def _watched(table: Table, **options: str) -> tuple[Table, FaultyFileIO]:
    file_io = FaultyFileIO(LocalFileIO())
    return Table("db.t", open_store(table.location, file_io, dynamic_options=options)), file_io


def _reads(file_io: FaultyFileIO) -> list[str]:
    return [path for operation, path in file_io.calls if operation == "read_bytes" and "/index/index-" in path]


def test_an_index_file_is_read_once_for_all_data_files_of_a_split(tmp_path: Path) -> None:
    watched, file_io = _watched(_table(tmp_path))
    splits = watched.new_scan().plan().splits
    assert [len(split.deletion_files) for split in splits] == [FILES]

    rows = watched.new_read().to_reader(splits).read_all()

    assert rows.num_rows == FILES * (ROWS - 1)
    assert len(_reads(file_io)) == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_an_index_file_is_read_once_for_all_splits_of_a_reader(tmp_path: Path, threads: int) -> None:
    watched, file_io = _watched(_table(tmp_path), **SMALL_SPLITS)
    splits = watched.new_scan().plan().splits
    assert len(splits) == FILES

    rows = TableRead(watched.store).to_reader(splits, threads=threads).read_all()

    assert rows.num_rows == FILES * (ROWS - 1)
    assert len(_reads(file_io)) == 1


def _located(table: Table, splits: tuple[Split, ...]) -> int:
    read = LocatedRead(table.store)
    return sum(batch.num_rows for split in splits for batch in read.to_batches(split))


def _one_by_one(table: Table, splits: tuple[Split, ...]) -> int:
    read = table.new_read()
    return sum(batch.num_rows for split in splits for batch in read.to_batches(split))


@pytest.mark.parametrize("reading", [_located, _one_by_one])
def test_a_read_split_by_split_reads_an_index_file_once(
    tmp_path: Path, reading: Callable[[Table, tuple[Split, ...]], int]
) -> None:
    watched, file_io = _watched(_table(tmp_path), **SMALL_SPLITS)

    assert reading(watched, watched.new_scan().plan().splits) == FILES * (ROWS - 1)
    assert len(_reads(file_io)) == 1


@pytest.mark.parametrize(("vectors", "expected"), [("true", 2), ("false", 3)])
def test_a_deletion_reads_an_index_file_once_in_each_of_its_steps(tmp_path: Path, vectors: str, expected: int) -> None:
    watched, file_io = _watched(_table(tmp_path), **{"deletion-vectors.enabled": vectors})

    watched.delete(" or ".join(f"id = {ROWS * n + 4}" for n in range(FILES)))

    # The steps: find the files with such rows, perhaps rewrite them, and change the vectors.
    assert len(_reads(file_io)) == expected
    assert watched.scan().count() == FILES * (ROWS - 2)


def test_files_that_share_an_index_file_are_in_the_same_split(tmp_path: Path) -> None:
    table = _table(tmp_path, deletes=4)
    size = max(f.file_size for split in table.new_scan().plan().splits for f in split.files)
    options = {"source.split.target-size": f"{4 * size} b", "source.split.open-file-cost": "1 b"}
    watched, file_io = _watched(table, **options)

    splits = watched.new_scan().plan().splits

    assert len(splits) == FILES // 4
    assert [len({place.path for place in split.deletion_files.values()}) for split in splits] == [1] * 4
    for split in splits:
        # A task of another process does not share the cache.
        file_io.calls.clear()
        assert sum(b.num_rows for b in TableRead(watched.store).to_batches(split)) == 4 * (ROWS - 1)
        assert len(_reads(file_io)) == 1


def _index_file(path: Path, *names: str) -> dict[str, DeletionFile]:
    vectors = {name: DeletionVector.of([n]) for n, name in enumerate(names)}
    meta = write_vectors(LocalFileIO(), str(path), vectors, bitmap64=False)
    return {
        v.data_file_name: DeletionFile(path=str(path), offset=v.offset, length=v.length)
        for v in meta.deletion_vectors or ()
    }


def test_a_reader_caches_no_more_bytes_than_its_limit(tmp_path: Path) -> None:
    places = [_index_file(tmp_path / f"index-{n}", f"data-{n}") for n in range(3)]
    size = (tmp_path / "index-0").stat().st_size
    file_io = FaultyFileIO(LocalFileIO())
    for kept, expected in ((0, 6), (2 * size, 6), (3 * size, 3)):
        file_io.calls.clear()
        reader = DeletionReader(file_io, kept)
        for n in (0, 1, 2, 0, 1, 2):
            found = reader.of(places[n])(data_file(0, 1, name=f"data-{n}"))
            assert found == DeletionVector.of([0])
        assert len(file_io.calls) == expected


def test_concurrent_threads_read_an_index_file_once(tmp_path: Path) -> None:
    places = _index_file(tmp_path / "index-0", *(f"data-{n}" for n in range(8)))
    file_io = FaultyFileIO(LocalFileIO())
    reader = DeletionReader(file_io)
    together = threading.Barrier(8, timeout=at_most(30))
    found: list[Any] = [None] * 8

    def ask(n: int) -> None:
        deleted_of = reader.of(places)
        together.wait()
        found[n] = deleted_of(data_file(0, 1, name=f"data-{n}"))

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(30))

    assert found == [DeletionVector.of([n]) for n in range(8)]
    assert len(file_io.calls) == 1


def test_a_failed_read_of_an_index_file_is_tried_again_later(tmp_path: Path) -> None:
    places = _index_file(tmp_path / "index-0", "data-0")
    content = (tmp_path / "index-0").read_bytes()
    (tmp_path / "index-0").unlink()
    deleted_of = pickle.loads(pickle.dumps(DeletionReader(LocalFileIO()))).of(places)
    with pytest.raises(CorruptFileError, match="index-0"):
        deleted_of(data_file(0, 1, name="data-0"))

    (tmp_path / "index-0").write_bytes(content)

    assert deleted_of(data_file(0, 1, name="data-0")) == DeletionVector.of([0])
