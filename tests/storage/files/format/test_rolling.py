"""Files of every format roll at their target size, and a full disk leaves no file."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.types.data_type import DataField, parse_atomic
from interbed.storage.files.format.layout import DataFileNames, file_schema
from interbed.storage.files.format.writer import RollingFileWriter
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.manifest.entry import FileSource
from interbed.storage.meta.paths import DataFilePlace
from tests.storage.files.format.test_round_trips import FORMATS, layout_of, read
from tests.storage.write.test_table_write import FullDisk

FIELDS = (
    DataField(id=0, name="id", type=parse_atomic("BIGINT")),
    DataField(id=1, name="text", type=parse_atomic("STRING")),
)


def rows(start: int, count: int) -> pa.RecordBatch:
    texts = [f"{i * 2654435761 % 2**32:x}-{i:x}" for i in range(start, start + count)]
    ids = pa.array(range(start, start + count), pa.int64())
    return pa.RecordBatch.from_arrays([ids, pa.array(texts)], schema=file_schema(FIELDS))


def writer(io: LocalFileIO, directory: Path, **options: str) -> RollingFileWriter:
    layout = layout_of(FIELDS, **{k.replace("__", "."): v for k, v in options.items()})
    names = DataFileNames("data-")
    return RollingFileWriter(
        io,
        DataFilePlace(str(directory)),
        names,
        layout,
        level=0,
        source=FileSource.APPEND,
        first_sequence=0,
        clock=lambda: 0,
    )


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_roll_at_their_target_size(tmp_path: Path, file_format: str) -> None:
    options = {"file__format": file_format, "target-file-size": "100 kb", "file__block-size": "64 kb"}
    with writer(LocalFileIO(), tmp_path, **options) as out:
        for start in range(0, 40_000, 1000):
            out.write(rows(start, 1000))
        files = out.close()
    assert 2 <= len(files) <= 40
    assert [f.file_size for f in files] == [(tmp_path / f.file_name).stat().st_size for f in files]
    position = 0
    for file in files:
        found = pa.Table.from_batches(read(tmp_path / file.file_name, FIELDS, file_format))
        assert found.column("id").to_pylist() == list(range(position, position + file.row_count))
        assert (file.min_sequence_number, file.max_sequence_number) == (position, position + file.row_count - 1)
        position += file.row_count
    assert position == 40_000


@pytest.mark.parametrize("file_format", FORMATS)
def test_files_roll_at_their_target_number_of_rows(tmp_path: Path, file_format: str) -> None:
    options = {"file__format": file_format, "target-file-row-num": "700"}
    with writer(LocalFileIO(), tmp_path, **options) as out:
        out.write(rows(0, 1500))
        out.write(rows(1500, 100))
        assert [f.row_count for f in out.close()] == [700, 700, 200]


@pytest.mark.parametrize("room", [0, 1000, 150_000])
@pytest.mark.parametrize("file_format", FORMATS)
def test_a_full_disk_is_reported_and_leaves_no_file(tmp_path: Path, file_format: str, room: int) -> None:
    options = {"file__format": file_format, "target-file-size": "100 kb", "file__block-size": "64 kb"}
    out = writer(FullDisk(room), tmp_path, **options)

    def fill() -> None:
        for start in range(0, 40_000, 1000):
            out.write(rows(start, 1000))
        out.close()

    with pytest.raises(StorageAccessError, match="No space left on device"):
        fill()
    assert list(tmp_path.iterdir()) == []
