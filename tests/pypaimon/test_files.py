"""pypaimon's FileIO of a table: operations on files under its names."""

from pathlib import Path

import pytest
from pyarrow import fs as pafs

import interbed
from interbed.storage.views.builder.managers import BuiltFiles


@pytest.fixture
def files(orders: interbed.Table) -> BuiltFiles:
    return orders.file_io


def test_files_are_written_and_read(files: BuiltFiles, tmp_path: Path) -> None:
    path = f"file:{tmp_path}/new/file"
    with files.new_output_stream(path) as output:
        output.write(b"0123456789")

    with files.new_input_stream(path) as file:
        assert file.read() == b"0123456789"
    assert files.read_file_utf8(path) == "0123456789"
    assert (files.read_file_range(path, 2, 3), files.read_file_range(path, 7, -1)) == (b"234", b"789")
    assert (files.get_file_size(path), files.to_filesystem_path(path)) == (10, f"{tmp_path}/new/file")


def test_a_file_is_replaced_only_on_demand(files: BuiltFiles, tmp_path: Path) -> None:
    path, other = str(tmp_path / "a"), str(tmp_path / "b")
    assert files.try_to_write_atomic(path, "first")
    assert not files.try_to_write_atomic(path, "second")
    with pytest.raises(FileExistsError, match="overwrite=False"):
        files.write_file(path, "second")
    files.copy_file(path, other)
    with pytest.raises(FileExistsError, match="overwrite=False"):
        files.copy_file(path, other)
    files.write_file(path, "ä", overwrite=True)
    files.copy_file(path, other, overwrite=True)
    assert (files.read_file_utf8(other), files.get_file_size(other)) == ("ä", 2)
    files.overwrite_file_utf8(other, "last")
    assert files.read_file_utf8(other) == "last"


def test_directories_are_created_listed_and_described(files: BuiltFiles, tmp_path: Path) -> None:
    directory = str(tmp_path / "x" / "y")
    assert files.list_status(directory) == []
    assert files.mkdirs(directory)
    files.check_or_mkdirs(directory)
    files.write_file(f"{directory}/f", "text")

    file, parent = files.get_file_status(f"{directory}/f"), files.get_file_status(directory)

    assert (file.type, file.size, file.path) == (pafs.FileType.File, 4, f"{directory}/f")
    assert file.mtime is not None
    assert parent.type == pafs.FileType.Directory
    assert (files.is_dir(directory), files.is_dir(f"{directory}/f")) == (True, False)
    assert [entry.path for entry in files.list_status(directory)] == [f"{directory}/f"]
    assert files.exists_batch([directory, f"{directory}/g"]) == {directory: True, f"{directory}/g": False}
    for make, error in ((files.mkdirs, FileExistsError), (files.check_or_mkdirs, ValueError)):
        with pytest.raises(error, match="is a file"):
            make(f"{directory}/f")
    for missing in (files.get_file_status, files.get_file_size, files.is_dir, files.new_input_stream):
        with pytest.raises(FileNotFoundError):
            missing(f"{directory}/g")


def test_files_and_directories_are_renamed_and_deleted(files: BuiltFiles, tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    files.write_file(f"{one}/f", "text")
    assert files.rename(one, two)
    assert not files.rename(one, two)
    with pytest.raises(OSError, match="not empty"):
        files.delete(two)
    assert files.delete(two, recursive=True)
    assert not files.delete(two, recursive=True)
    files.write_file(f"{one}/f", "text")
    files.delete_quietly(f"{one}/f")
    files.delete_files_quietly([f"{one}/f", f"{one}/g"])
    files.delete_directory_quietly(one)
    files.delete_directory_quietly(one)
    assert not files.exists(one)
