"""Expiry of snapshots, orphan files and manifests: files that are deleted and files that stay, in tables written by
Java.
"""

import datetime as dt
import os
import time
from pathlib import Path

import pytest

from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from tests.iceberg.java_tables import assert_alike
from tests.iceberg.optimize.tables import opened
from tests.iceberg.optimize.test_races import files_of, unnamed
from tests.support.peers.iceberg import IcebergPeer

IN_A_WEEK = time.time() + 7 * 24 * 3600


def now() -> int:
    """Return the milliseconds since the epoch."""
    return int(time.time() * 1000)


def test_expiry_deletes_files_of_old_snapshots_only_and_keeps_tags_and_branches(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT", 3)
    for number in range(4):
        peer.append(table, [[number], [number + 100]])
        if number == 1:
            peer.run(f"ALTER TABLE {table} CREATE TAG early")
    peer.equality_delete(table, ["id"], [[3]])
    found = opened(peer, table)
    found.compact()
    before = assert_alike(peer, table)
    early = found.scan(tag="early").to_arrow().num_rows
    shown = found.expire_snapshots(older_than=now(), dry_run=True)
    assert len(found.snapshots()) == 6
    result = found.expire_snapshots(older_than=now())
    assert result == shown
    # The tag keeps two of the data files; the newest snapshot has one of its own.
    assert (len(result.snapshots), result.data_files, result.delete_files) == (4, 2, 1)
    assert [len(found.snapshots()), found.scan(tag="early").to_arrow().num_rows] == [2, early]
    assert assert_alike(peer, table) == before
    assert peer.rows(table, ref="early").num_rows == early
    assert unnamed(found) == {path for path in unnamed(found) if path.endswith((".crc", "version-hint.text"))}
    peer.append(table, [[7]])
    assert len(assert_alike(peer, table)) == len(before) + 1


@pytest.mark.long
def test_table_properties_decide_which_snapshots_are_kept(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT", 2)
    for number in range(4):
        peer.append(table, [[number]])
    found = opened(peer, table)
    assert str(found.expire_snapshots()) == "nothing to expire"
    assert len(found.expire_snapshots(clock=lambda: IN_A_WEEK, dry_run=True).snapshots) == 3
    peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('history.expire.min-snapshots-to-keep'='3')")
    assert len(opened(peer, table).expire_snapshots(clock=lambda: IN_A_WEEK).snapshots) == 1
    peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('gc.enabled'='false')")
    with pytest.raises(NotSupportedError, match=r"gc\.enabled"):
        opened(peer, table).expire_snapshots(older_than=now())
    with pytest.raises(NotSupportedError, match=r"gc\.enabled"):
        opened(peer, table).remove_orphan_files()


def test_orphan_files_are_old_files_of_the_table_without_a_reference(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT, p STRING", 2, partitioned="p")
    peer.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    found = opened(peer, table)
    root = Path(found.location.removeprefix("file:"))
    old = time.time() - 4 * 24 * 3600
    made = {}
    for name, age in [("data/p=a/lost.parquet", old), ("data/new.parquet", None), ("data/notes.txt", old),
                      ("metadata/lost.avro", old), ("other/lost.parquet", old)]:  # fmt: skip
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        if age is not None:
            os.utime(path, (age, age))
        made[name] = path
    for path in map(Path, files_of(found)):
        if path not in made.values():
            os.utime(path, (old, old))
    assert [Path(p).name for p in found.remove_orphan_files(dry_run=True).paths] == ["lost.parquet", "lost.avro"]
    result = found.remove_orphan_files()
    assert {name for name, path in made.items() if not path.exists()} == {"data/p=a/lost.parquet", "metadata/lost.avro"}
    assert result.bytes == 2
    assert len(assert_alike(peer, table)) == 2
    with pytest.raises(InvalidInputError, match="is in the future"):
        found.remove_orphan_files(dt.datetime.now(dt.UTC) + dt.timedelta(days=1))


@pytest.mark.parametrize("version", [1, 3])
def test_small_manifests_are_merged_and_rows_keep_their_ids(peer: IcebergPeer, version: int) -> None:
    table = peer.new_table("id INT", version, properties="'commit.manifest-merge.enabled'='false'")
    for number in range(5):
        peer.append(table, [[number]])
    found = opened(peer, table)
    before = assert_alike(peer, table)
    ids = peer.run(f"SELECT id, _row_id FROM {table} ORDER BY id") if version == 3 else None
    assert found.explain().manifests_total == 5
    assert found.compact_manifests() == found.snapshots()[-1].snapshot_id
    assert found.explain().manifests_total == 1
    assert found.compact_manifests() is None
    assert assert_alike(peer, table) == before
    if ids is not None:
        assert peer.run(f"SELECT id, _row_id FROM {table} ORDER BY id") == ids


@pytest.mark.long
def test_statistics_files_are_deleted_with_their_snapshots(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT, p STRING", 2, partitioned="p")
    peer.run(f"INSERT INTO {table} VALUES (1, 'a')")
    for procedure in ("compute_table_stats", "compute_partition_stats"):
        peer.run(f"CALL ice.system.{procedure}('{table}')")
    peer.run(f"INSERT INTO {table} VALUES (2, 'b')")
    found = opened(peer, table)
    metadata = found.metadata.metadata
    paths = [file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)]
    assert len(paths) == 2
    found.expire_snapshots(older_than=now())
    metadata = found.metadata.metadata
    assert [*metadata.statistics, *metadata.partition_statistics] == []
    assert not any(Path(path.removeprefix("file:")).exists() for path in paths)
    assert len(assert_alike(peer, table)) == 2
