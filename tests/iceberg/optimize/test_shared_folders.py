"""Orphan files are removed only if no other table in the same folder names them."""

import gzip
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import interbed
from interbed.iceberg.commit import home
from interbed.storage.base.errors import CorruptFileError

SCHEMA = pa.schema([("id", pa.int64())])
OLD = 1_000_000_000


def _make_old(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (OLD, OLD))


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_files_of_another_table_at_the_same_location_are_kept(
    theirs: SqlCatalog, tmp_path: Path, codec: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "shared"
    tables = []
    for name, rows in (("a", [1, 2]), ("b", [3])):
        table = theirs.create_table(
            f"n.{name}",
            SCHEMA,
            location=f"file://{folder}",
            properties={"write.metadata.compression-codec": codec, "write.metadata.previous-versions-max": "1"},
        )
        for row in rows:
            table.append(pa.table({"id": [row]}, schema=SCHEMA))
        tables.append(table)
    lost = folder / "data" / "lost.parquet"
    lost.write_bytes(b"x")
    broken = folder / "metadata" / "00007-x.metadata.json"
    broken.write_bytes(b"{")
    _make_old(folder)
    found = interbed.IcebergTable("n.b", tables[1]).remove_orphan_files()
    assert [Path(path).name for path in found.paths if "metadata.json" not in path] == ["lost.parquet"]
    assert (lost.exists(), broken.exists()) == (False, False)
    assert "has files of another table" in caplog.text
    for name, rows in (("n.a", [1, 2]), ("n.b", [3])):
        read = interbed.IcebergTable(name, theirs.load_table(name)).scan().to_arrow()
        assert sorted(row["id"] for row in read.to_pylist()) == rows


def test_a_dropped_table_keeps_its_files_and_the_next_one_is_cleaned(theirs: SqlCatalog, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    for _ in range(2):
        table = theirs.create_table("n.t", SCHEMA, location=f"file://{folder}")
        table.append(pa.table({"id": [1]}, schema=SCHEMA))
        theirs.drop_table("n.t")
    theirs.register_table("n.t", table.metadata_location)
    (folder / "data" / "lost.parquet").write_bytes(b"x")
    before = {path for path in folder.rglob("*") if path.is_file()}
    _make_old(folder)
    interbed.IcebergTable("n.t", theirs.load_table("n.t")).remove_orphan_files()
    gone = before - {path for path in folder.rglob("*") if path.is_file()}
    assert {path.name for path in gone} == {"lost.parquet"}


def test_unreadable_metadata_of_another_table_deletes_nothing(theirs: SqlCatalog, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    tables = [theirs.create_table(f"n.{name}", SCHEMA, location=f"file://{folder}") for name in ("a", "b")]
    tables[0].append(pa.table({"id": [1]}, schema=SCHEMA))
    for path in (folder / "metadata").glob("*.avro"):
        path.write_bytes(b"broken")
    lost = folder / "data" / "lost.parquet"
    lost.write_bytes(b"x")
    _make_old(folder)
    with pytest.raises(CorruptFileError, match=r"snap-.*\.avro"):
        interbed.IcebergTable("n.b", tables[1]).remove_orphan_files()
    assert lost.exists()


def test_metadata_of_another_table_beyond_the_limit_delete_nothing(
    theirs: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bomb"
    table = theirs.create_table("n.t", SCHEMA, location=f"file://{folder}")
    table.append(pa.table({"id": [1]}, schema=SCHEMA))
    (folder / "data" / "lost.parquet").write_bytes(b"x")
    bomb = folder / "metadata" / "00007-x.gz.metadata.json"
    bomb.write_bytes(gzip.compress(b" " * 1_000_000))
    _make_old(folder)
    monkeypatch.setattr(home, "METADATA_BLOCK_BYTES_MAX", 100_000)
    with pytest.raises(interbed.CorruptFileError, match="00007-x"):
        interbed.IcebergTable("n.t", table).remove_orphan_files()
    assert (folder / "data" / "lost.parquet").exists()
