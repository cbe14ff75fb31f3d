"""Object tables on a local disk: which files they list, in which order, and what is not followed."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.io.api import FileStatus
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.object_table import ObjectTable, object_schema


class CountingFileIO(LocalFileIO):
    """A local disk that counts the directories that are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []

    def list(self, path: str) -> list[FileStatus]:
        self.listed.append(path)
        return super().list(path)


def opened(directory: Path, file_io: LocalFileIO | None = None) -> ObjectTable:
    """Return an object table of a directory."""
    schema = object_schema(interbed.Schema(options={"type": "object-table"})).to_table_schema()
    return ObjectTable("d.o", f"{directory}/", file_io or LocalFileIO(), schema)


def test_each_file_is_a_row_with_its_size_and_time(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.bin").write_bytes(b"123")
    millis = int((tmp_path / "a" / "x.bin").stat().st_mtime * 1000)
    row = {"path": "a/x.bin", "name": "x.bin", "length": 3, "mtime": millis, "atime": 0, "owner": None}
    assert opened(tmp_path).to_arrow().to_pylist() == [row]


def test_a_link_to_a_file_is_listed_and_one_to_a_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert set(opened(tmp_path).to_arrow()["path"].to_pylist()) == {"file", "link"}


def test_a_limit_ends_the_listing(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"d{number:03}").mkdir()
        (tmp_path / f"d{number:03}" / "f").write_bytes(b"")
    file_io = CountingFileIO()
    table = opened(tmp_path, file_io)
    assert table.scan(limit=2).to_arrow()["path"].to_pylist() == ["d000/f", "d001/f"]
    assert len(file_io.listed) < 100
    assert table.count() == 200


def test_a_directory_that_is_missing_has_no_rows(tmp_path: Path) -> None:
    assert opened(tmp_path / "nothing").count() == 0


def test_options_of_a_copy_do_not_change_the_table(tmp_path: Path) -> None:
    table = opened(tmp_path)
    copied = table.copy({"team": "a", "type": None})
    assert (dict(copied.schema.options), dict(table.schema.options)) == ({"team": "a"}, {"type": "object-table"})


def test_a_new_object_table_has_no_columns_of_its_own() -> None:
    with pytest.raises(InvalidInputError, match="An object table has the columns path"):
        object_schema(interbed.Schema.from_pyarrow_schema(pa.schema([("path", pa.int64())])))


def test_writes_are_refused_by_name(tmp_path: Path) -> None:
    table = opened(tmp_path)
    with pytest.raises(NotSupportedError, match=r"The object table 'd\.o' is read only"):
        table.append([])  # type: ignore[attr-defined]
    with pytest.raises(NotSupportedError, match=r"The object table 'd\.o' has no stream"):
        table.new_stream_read_builder()
