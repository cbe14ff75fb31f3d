"""Data files and delete files as a manifest lists them, for tests of planning."""

from typing import Any

from interbed.iceberg.meta.live_files import FileContent, LiveFile


def data(path: str = "a", number: int = 1, **more: Any) -> LiveFile:
    """Return a data file with that sequence number."""
    return _file(FileContent.DATA, path, number, **more)


def equality(path: str, number: int, **more: Any) -> LiveFile:
    """Return an equality delete file."""
    return _file(FileContent.EQUALITY_DELETES, path, number, equality_ids=(1,), **more)


def positions(path: str, number: int, first: str | None = None, last: str | None = None, **more: Any) -> LiveFile:
    """Return a position delete file for data files with paths from the first to the last."""
    bounds = {
        "lower_path": None if first is None else first.encode(),
        "upper_path": None if last is None and first is None else (last or first or "").encode(),
    }
    return _file(FileContent.POSITION_DELETES, path, number, **{**bounds, **more})


def vector(path: str, number: int, of: str, offset: int = 4) -> LiveFile:
    """Return a deletion vector of a data file."""
    more = {"file_format": "puffin", "referenced": of, "offset": offset, "length": 40}
    return _file(FileContent.POSITION_DELETES, path, number, **more)


def _file(content: FileContent, path: str, number: int, **more: Any) -> LiveFile:
    plain = {"file_format": "parquet", "spec_id": 0, "partition": (), "records": 10, "size": 1 << 20}
    return LiveFile(content=content, path=path, sequence_number=number, **{**plain, **more})
