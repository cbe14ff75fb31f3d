"""Reading deletion vectors while rows are read."""

from pathlib import Path

import pyarrow as pa

import interbed
from interbed.storage.base.fileio.faults import FaultyFileIO
from interbed.storage.base.fileio.local import LocalFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table

FILES = 8


def test_an_index_file_is_read_once_for_all_data_files_of_a_split(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("db")
    table = catalog.create_table(
        "db.t", pa.schema([("id", pa.int64())]), options={"deletion-vectors.enabled": "true", "bucket": "-1"}
    )
    for number in range(FILES):
        table.append(pa.table({"id": range(10 * number, 10 * number + 10)}))
    table.delete(" or ".join(f"id = {10 * n + 3}" for n in range(FILES)))
    file_io = FaultyFileIO(LocalFileIO())
    watched = Table("db.t", open_store(table.location, file_io))
    splits = watched.new_scan().plan().splits
    assert sum(len(split.deletion_files) for split in splits) == FILES
    file_io.calls.clear()

    rows = watched.new_read().to_reader(splits).read_all()

    assert rows.num_rows == 9 * FILES
    reads = [path for operation, path in file_io.calls if operation == "read_bytes" and "/index/" in path]
    assert len(reads) == len(splits) == 1
