"""Files of killed writes of a format table are removed by their place, their name and their age."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.table.format_table.format_table import FormatTable
from tests.support.format_tables import arrow_schema, data_files, format_table, rows_of

STAGED = ".tmp.0b0f0c9e-6a4b-4b0e-9c56-2f0f3d0a1b2c"
WEEK = 7 * 86_400


@pytest.fixture
def table(tmp_path: Path) -> FormatTable:
    """A partitioned table with a row, and directories of incomplete files."""
    schema = arrow_schema([("id", pa.int64()), ("dt", pa.string())])
    made = format_table(tmp_path / "t", schema, "csv", partition_keys=["dt"])
    made.append([{"id": 1, "dt": "a"}])
    return made


def _left(table: FormatTable, name: str, age_seconds: int = WEEK) -> Path:
    path = Path(table.location) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x" * 10)
    written = time.time() - age_seconds
    os.utime(path, (written, written))
    return path


def test_only_old_files_of_killed_writes_are_deleted(table: FormatTable) -> None:
    old = _left(table, f"_temporary/{STAGED}")
    kept = [
        _left(table, f"_temporary/{STAGED[:-1]}d", age_seconds=60),
        _left(table, "_temporary/.tmp.mine"),
        _left(table, f"_temporary/0/{STAGED}"),
        _left(table, f"dt=a/{STAGED}"),
        _left(table, STAGED),
    ]
    tried = table.remove_orphan_files(dry_run=True)
    assert (tried.files, tried.bytes, old.exists()) == ((str(old),), 10, True)
    assert table.remove_orphan_files() == tried.__class__(files=(str(old),), bytes=10)
    assert not old.exists()
    assert all(path.exists() for path in kept)
    assert table.remove_orphan_files().files == ()
    assert rows_of(table) == [(1, "a")]
    assert table.remove_orphan_files(now_millis() - 1000).files == (str(kept[0]),)


def test_a_table_without_such_files_and_a_link_stay(table: FormatTable, tmp_path: Path) -> None:
    assert table.remove_orphan_files().files == ()
    before = data_files(table)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (Path(table.location) / "_temporary").rmdir()
    (Path(table.location) / "_temporary").symlink_to(elsewhere)
    path = _left(table, f"_temporary/{STAGED}")
    assert table.remove_orphan_files().files == ()
    assert path.exists()
    assert [name for name in data_files(table) if "_temporary" not in name] == before


def test_a_time_in_the_future_is_refused(table: FormatTable) -> None:
    with pytest.raises(InvalidInputError, match="must be in the past"):
        table.remove_orphan_files(now_millis() + 60_000)
