"""Tags, branches, rollback and expiry of one table by Java Paimon and by interbed: each respects those of the other."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import TagNotFoundError
from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import CommitKind
from interbed.storage.version.orphans import remove_orphan_files
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon, JavaTable

LATER = 4_102_444_800
"""Seconds since the epoch, later than every file of the test."""


def made_table(java_paimon: JavaPaimon, warehouse: Path, **options: str) -> JavaTable:
    table = java_paimon.table(warehouse, "d.t")
    table.create(
        [("id", "INT NOT NULL"), ("v", "STRING")],
        primary_keys=["id"],
        options={"bucket": "1", "num-sorted-run.compaction-trigger": "2", **options},
    )
    return table


def written(table: JavaTable, *values: str) -> None:
    for value in values:
        table.write([[1, value], [2, value]])


def ours_read(table: Any) -> list[list[Any]]:
    return sorted([row["id"], row["v"]] for row in table.scan().to_arrow().to_pylist())


def both(value: str) -> list[list[Any]]:
    return [[1, value], [2, value]]


def test_a_tag_of_either_is_read_by_the_other_after_its_snapshot_has_expired(
    java_paimon: JavaPaimon, tmp_path: Path
) -> None:
    table = made_table(java_paimon, tmp_path)
    written(table, "a", "b")
    theirs = interbed_table(tmp_path, "d.t").load()
    first = theirs.snapshots()[-1].id
    table.version("create_tag", name="of_java", snapshot=first, retained_seconds=3600)
    theirs.versions.create_tag("of_interbed", first, time_retained="2 h")
    theirs.versions.create_tag("for_ever", first)
    written(table, "c", "d", "e")
    assert table.version("tags")["tags"] == dict.fromkeys(["for_ever", "of_interbed", "of_java"], first)
    by_java = next(tag for tag in theirs.versions.tags() if tag.name == "of_java")
    assert by_java.retained is not None
    assert by_java.retained.total_seconds() == 3600
    assert by_java.created is not None
    result = theirs.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    assert result.snapshots
    for name in ("of_java", "of_interbed", "for_ever"):
        options = {"scan.tag-name": name}
        assert table.read(options=options).comparable() == both("b")
        assert ours_read(theirs.copy(options)) == both("b")
    assert table.read().comparable() == both("e")


@pytest.mark.parametrize("by_java", [True, False])
def test_an_expiry_by_either_deletes_the_same_files(java_paimon: JavaPaimon, tmp_path: Path, by_java: bool) -> None:
    left: list[list[str]] = []
    for side in ("java", "interbed"):
        warehouse = tmp_path / side
        table = made_table(java_paimon, warehouse, **{"changelog-producer": "lookup"})
        written(table, "a", "b", "c")
        theirs = interbed_table(warehouse, "d.t").load()
        theirs.versions.create_tag("kept", 2)
        written(table, "d", "e")
        if side == "java":
            table.version("expire", left=2)
        else:
            theirs.maintenance.expire_snapshots(retain_max=2, retain_min=2, clock=lambda: LATER)
        if by_java:
            table.version("delete_tag", name="kept")
        else:
            theirs.versions.delete_tag("kept")
        assert table.version("orphans")["files"] == []
        orphans = remove_orphan_files(
            theirs.store, older_than_millis=(LATER - 1) * 1000, dry_run=True, clock=lambda: LATER
        )
        assert orphans.files == ()
        files = [path for path in (warehouse / "d.db" / "t").rglob("*") if path.is_file()]
        left.append(sorted(path.parent.name + "/" + path.name.partition("-")[0] for path in files))
        assert ours_read(theirs) == table.read().comparable() == both("e")
    assert left[0] == left[1]


def test_a_branch_of_either_is_written_and_read_by_the_other(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    table = made_table(java_paimon, tmp_path)
    written(table, "a")
    theirs = interbed_table(tmp_path, "d.t").load()
    theirs.versions.create_tag("start")
    theirs.versions.create_branch("ours", "start")
    table.version("create_branch", name="javas", tag="start")
    assert theirs.versions.branches() == ["javas", "ours"]
    for name in ("ours", "javas"):
        branch = java_paimon.table(tmp_path, f"d.t$branch_{name}")
        branch.write([[1, "of java"]])
        theirs.branch(name).upsert(pa.table({"id": pa.array([3], pa.int32()), "v": ["of interbed"]}))
        rows = [[1, "of java"], [2, "a"], [3, "of interbed"]]
        assert branch.read().comparable() == ours_read(theirs.branch(name)) == rows
    assert table.read().comparable() == both("a")
    theirs.versions.fast_forward("javas")
    assert table.read().comparable() == ours_read(interbed_table(tmp_path, "d.t").load()) == rows
    table.version("fast_forward", name="ours")
    assert ours_read(interbed_table(tmp_path, "d.t").load()) == rows


def test_a_rollback_of_either_is_seen_by_the_other(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    table = made_table(java_paimon, tmp_path)
    written(table, "a")
    theirs = interbed_table(tmp_path, "d.t").load()
    theirs.versions.create_tag("first")
    written(table, "b")
    theirs.versions.create_tag("second")
    written(table, "c")
    table.version("rollback", name="second")
    assert ours_read(theirs) == both("b")
    theirs.versions.rollback_to("first")
    assert table.read().comparable() == both("a")
    assert table.version("tags")["tags"] == {"first": 1}
    with pytest.raises(TagNotFoundError, match="the table has 'first'"):
        theirs.versions.rollback_to("second")
    written(table, "d")
    assert ours_read(theirs) == both("d")


@pytest.mark.parametrize(
    ("period", "options"),
    [
        ("daily", {}),
        ("hourly", {"tag.period-formatter": "without_dashes", "tag.creation-delay": "10 min"}),
        ("two-hours", {"tag.num-retained-max": "2"}),
        ("hourly", {"tag.automatic-completion": "true", "tag.default-time-retained": "9999 d"}),
    ],
)
def test_automatic_tags_equal_javas(
    java_paimon: JavaPaimon, tmp_path: Path, period: str, options: dict[str, str]
) -> None:
    chosen = {"tag.automatic-creation": "watermark", "tag.creation-period": period, "write-only": "true", **options}
    table = made_table(java_paimon, tmp_path / "one", **chosen)
    ours = interbed_table(tmp_path / "one", "d.t").load()
    hour = 3_600_000
    start = 1_700_000_000_000
    for number, hours in enumerate((0.0, 0.1, 1.0, 1.2, 2.7, 7.5, 30.0, 30.5, 80.0)):
        with ours.new_write("user") as write:
            write.write_arrow(pa.table({"id": pa.array([1], pa.int32()), "v": [str(number)]}))
            messages = write.prepare_commit()
        watermark = start + int(hours * hour)
        FileStoreCommit(ours.store, "user").commit(messages, identifier=number, watermark=watermark)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    other = interbed_table(tmp_path / "two", "d.t").load()
    other.versions.create_automatic_tags()
    expected = table.version("automatic_tags")["tags"]
    assert len(expected) >= 2
    assert {tag.name: tag.snapshot.id for tag in other.versions.tags()} == expected
    for name in expected:
        up_to = {"incremental-to-auto-tag": name}
        assert ours_read(other.copy(up_to)) == table.read(options=up_to).comparable()
    # Each continues after the last tag of the other.
    assert ours.versions.create_automatic_tags() == []


@pytest.mark.parametrize("by_java", [True, False])
def test_merged_manifests_of_either_are_read_by_the_other(
    java_paimon: JavaPaimon, tmp_path: Path, by_java: bool
) -> None:
    table = made_table(java_paimon, tmp_path, **{"write-only": "true"})
    written(table, "a", "b", "c")
    ours = interbed_table(tmp_path, "d.t").load()
    if by_java:
        table.version("compact_manifests")
    else:
        ours.maintenance.compact_manifests()
    latest = ours.snapshots()[-1]
    assert (latest.id, latest.commit_kind) == (4, CommitKind.COMPACT)
    assert table.read().comparable() == both("c") == ours_read(ours)
    # Neither has manifests left to merge.
    table.version("compact_manifests")
    ours.maintenance.compact_manifests()
    assert len(ours.snapshots()) == 4


@pytest.mark.parametrize("by_java", [True, False])
def test_changelogs_that_outlive_snapshots_are_read_by_the_other(
    java_paimon: JavaPaimon, tmp_path: Path, by_java: bool
) -> None:
    options = {"changelog-producer": "input", "write-only": "true", "changelog.time-retained": "9999 d"}
    table = made_table(java_paimon, tmp_path, **options)
    written(table, "a", "b", "c", "d")
    ours = interbed_table(tmp_path, "d.t").load()
    before = table.files()
    if by_java:
        table.version("expire_with_changelog", left=1)
    else:
        ours.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    assert [snapshot.id for snapshot in ours.snapshots()] == [4]
    assert ChangelogManager(ours.store.file_io, ours.store.paths).ids() == [1, 2, 3]
    assert table.files() == before
    assert table.read().comparable() == both("d") == ours_read(ours)
    kinds_and_values = [(row["_row_kind"], row["v"]) for row in ours.changes(2, 3).to_arrow().to_pylist()]
    assert sorted(kinds_and_values) == [(0, "b"), (0, "b"), (0, "c"), (0, "c")]
    streamed = table.stream(options={"scan.mode": "from-snapshot", "scan.snapshot-id": "2"})
    assert "b" in str(streamed)


def test_partitions_that_a_table_lacks_come_from_the_same_branch(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    table, ours = java_paimon.table(tmp_path, "d.t"), interbed_table(tmp_path, "d.t")
    columns = [("dt", "STRING"), ("name", "STRING"), ("amount", "INT")]
    table.create(columns, partition_keys=["dt"])
    ours.load().versions.create_branch("live")
    table.alter({"op": "set_option", "key": "scan.fallback-branch", "value": "live"})
    live = java_paimon.table(tmp_path, "d.t$branch_live")
    keys = {"primary-key": "dt,name", "bucket": "2"}
    live.alter(*({"op": "set_option", "key": key, "value": value} for key, value in keys.items()))
    live.write([["1", "x", 1], ["2", "x", 2], ["2", "y", 3]])
    interbed_table(tmp_path, "d.t$branch_live").write([["2", "y", 4]])
    assert table.read().comparable() == ours.read().comparable() == [["1", "x", 1], ["2", "x", 2], ["2", "y", 4]]
    ours.write([["1", "z", 9]])
    assert table.read().comparable() == ours.read().comparable() == [["1", "z", 9], ["2", "x", 2], ["2", "y", 4]]
    some = {"op": "=", "field": "name", "value": "x"}
    assert table.read(filter=some).rows == [["2", "x", 2]]
