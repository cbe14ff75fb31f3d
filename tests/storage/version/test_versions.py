"""Tags, branches, rollback, expiry and removal of orphan files: results and refusals."""

import json
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import (
    BranchNotFoundError,
    InvalidInputError,
    NotSupportedError,
    SnapshotNotFoundError,
    TagNotFoundError,
)
from interbed.storage.meta.snapshot.manager import ChangelogManager
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.snapshot.tag import Tag, TagManager
from interbed.storage.table.table import Table
from interbed.storage.version.expire import Retention, first_kept
from interbed.storage.version.maintenance import maintain
from interbed.storage.version.orphans import remove_orphan_files

LATER = 4_102_444_800
SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    return catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})


def filled(table: Table, commits: int) -> Table:
    for value in range(commits):
        table.upsert(pa.table({"id": [1], "v": [value]}, schema=SCHEMA))
    return table


def value(table: Table) -> int:
    return int(table.scan().to_arrow()["v"][0].as_py())


@given(
    created=st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
    retained=st.timedeltas(timedelta(seconds=1), timedelta(days=9999)),
)
def test_a_tag_survives_the_round_trip(created: datetime, retained: timedelta) -> None:
    snapshot = Snapshot.from_json(
        json.dumps(
            {
                "version": 3,
                "id": 7,
                "schemaId": 0,
                "baseManifestList": "b",
                "deltaManifestList": "d",
                "commitUser": "u",
                "commitIdentifier": 1,
                "commitKind": "APPEND",
                "timeMillis": 1,
                "someLaterMember": [1],
            }
        )
    )
    for tag in (
        Tag(name="t", snapshot=snapshot, created=created, retained=retained),
        Tag(name="t", snapshot=snapshot),
    ):
        assert Tag.from_json("t", tag.to_json().encode(), source="t") == tag


def test_invalid_names_are_refused(table: Table) -> None:
    filled(table, 1)
    for name in ("", " ", "a/b", "x" * 300, "a\nb"):
        with pytest.raises(InvalidInputError, match="Not a tag name"):
            table.versions.create_tag(name)
        with pytest.raises(InvalidInputError, match="Not a branch name"):
            table.versions.create_branch(name)
    for name, message in (("main", "is the table itself"), ("12", "is not a number")):
        with pytest.raises(InvalidInputError, match=message):
            table.versions.create_branch(name)


def test_a_table_without_a_snapshot_cannot_be_tagged_or_expired(table: Table) -> None:
    with pytest.raises(SnapshotNotFoundError, match="has no snapshot to name yet"):
        table.versions.create_tag("a")
    assert str(table.maintenance.expire_snapshots()) == "no snapshot to expire"
    assert str(table.maintenance.remove_orphan_files()) == "no orphan files"


def test_duplicate_and_missing_names_are_refused_by_name(table: Table) -> None:
    filled(table, 3)
    table.versions.create_tag("a", 1)
    with pytest.raises(InvalidInputError, match="already; replace_tag"):
        table.versions.create_tag("a", 2)
    assert table.versions.create_tag("a", 2, ignore_if_exists=True).snapshot.id == 1
    assert table.versions.replace_tag("a", 2).snapshot.id == 2
    table.versions.create_tag("b", 3)
    with pytest.raises(InvalidInputError, match="a tag 'a' already"):
        table.versions.rename_tag("b", "a")
    table.versions.rename_tag("b", "c")
    assert [tag.name for tag in table.versions.tags()] == ["a", "c"]
    missing: list[tuple[type[Exception], str, Callable[[], Any]]] = [
        (TagNotFoundError, "the table has 'a', 'c'", lambda: table.versions.delete_tag("x")),
        (TagNotFoundError, "no tag 'x'", lambda: table.versions.replace_tag("x")),
        (TagNotFoundError, "no tag 'x'", lambda: table.versions.rename_tag("x", "y")),
        (TagNotFoundError, "no tag 'x'", lambda: table.versions.rollback_to("x")),
        (TagNotFoundError, "no tag 'x'", lambda: table.copy({"scan.tag-name": "x"})),
        (TagNotFoundError, "no tag 'x'", lambda: table.versions.create_branch("b", "x")),
        (SnapshotNotFoundError, "the snapshots 1 to 3", lambda: table.versions.rollback_to(9)),
        (SnapshotNotFoundError, "the snapshots 1 to 3", lambda: table.versions.create_tag("y", 9)),
        (BranchNotFoundError, "the table has no branches", lambda: table.versions.delete_branch("b")),
        (BranchNotFoundError, "no branch 'b'", lambda: table.branch("b")),
        (BranchNotFoundError, "no branch 'b'", lambda: table.versions.fast_forward("b")),
    ]
    for kind, message, call in missing:
        with pytest.raises(kind, match=message):
            call()


def test_a_tag_expires_by_its_retention_time_or_on_request(table: Table) -> None:
    filled(table, 1)
    table.versions.create_tag("short", time_retained=timedelta(microseconds=1))
    table.versions.create_tag("long", time_retained="1 d")
    table.versions.create_tag("for_ever")
    assert table.versions.expire_tags() == ["short"]
    assert table.versions.expire_tags(clock=lambda: time.time() + 86_000) == []
    table.versions.create_tag("later", time_retained="1 d")
    assert table.versions.expire_tags(clock=lambda: time.time() + 86_500) == ["later", "long"]
    table.versions.create_tag("long", time_retained="1 d")
    assert table.versions.expire_tags(older_than=LATER * 1000) == ["for_ever", "long"]
    with pytest.raises(InvalidInputError, match="can't be retained for"):
        table.versions.create_tag("never", time_retained=timedelta(0))


def test_a_version_is_looked_up_as_a_tag_before_as_a_snapshot_id(table: Table) -> None:
    filled(table, 3)
    table.versions.create_tag("2", 1)
    assert value(table.copy({"scan.version": "2"})) == 0
    assert value(table.copy({"scan.version": "3"})) == 2


def test_an_empty_branch_has_the_schema_and_its_own_snapshots(table: Table) -> None:
    filled(table, 2)
    table.versions.create_branch("b")
    with pytest.raises(InvalidInputError, match="has no snapshot to go forward to"):
        table.versions.fast_forward("b")
    branch = filled(table.branch("b"), 1)
    assert [s.id for s in branch.snapshots()] == [1]
    assert (value(branch), value(table)) == (0, 1)
    with pytest.raises(InvalidInputError, match="a branch 'b' already"):
        table.versions.create_branch("b")
    table.versions.create_branch("b", ignore_if_exists=True)
    table.versions.rename_branch("b", "c")
    assert table.versions.branches() == ["c"]
    assert value(table.branch("c")) == 0
    table.versions.delete_branch("c")
    assert table.versions.branches() == []


def test_only_files_older_than_the_limit_are_orphans(table: Table, tmp_path: Path) -> None:
    filled(table, 2)
    stray = tmp_path / "d.db" / "t" / "bucket-0" / "data-stray-0.parquet"
    stray.write_bytes(b"left behind")
    assert table.maintenance.remove_orphan_files().files == ()
    with pytest.raises(InvalidInputError, match="must be in the past"):
        table.maintenance.remove_orphan_files(older_than=LATER * 1000)
    soon = int(stray.stat().st_mtime * 1000) + 1
    assert table.maintenance.remove_orphan_files(older_than=soon, dry_run=True).files == (str(stray),)
    assert stray.exists()
    result = table.maintenance.remove_orphan_files(older_than=soon)
    assert (result.files, result.bytes) == ((str(stray),), 11)
    assert not stray.exists()
    assert value(table) == 1


def test_a_branch_does_not_need_the_expired_changelog_of_its_first_snapshot(table: Table, tmp_path: Path) -> None:
    with_changelog = {"bucket": "1", "changelog-producer": "input"}
    table = interbed.load_catalog(warehouse=str(tmp_path)).create_table(
        "d.c", SCHEMA, primary_keys=["id"], options=with_changelog
    )
    filled(table, 4)
    table.versions.create_tag("here", 2)
    table.versions.create_branch("b", "here")
    assert table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER).snapshots == (1, 2, 3)
    branch = table.branch("b")
    before = value(branch)
    branch.upsert(pa.table({"id": [2], "v": [7]}, schema=SCHEMA))
    table.maintenance.remove_orphan_files(older_than=int(datetime.now().timestamp() * 1000) - 1)
    column: Any = branch.scan().to_arrow()["v"]
    assert sorted(column.to_pylist()) == sorted([before, 7])
    assert value(table) == 3


def with_an_expired_tag(tmp_path: Path, producer: str, **options: str) -> tuple[Table, int]:
    """A table with only its newest snapshot, and an older one with a changelog that the tag `here` keeps."""
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d", ignore_if_exists=True)
    table = catalog.create_table(
        "d.c", SCHEMA, primary_keys=["id"], options={"bucket": "1", "changelog-producer": producer, **options}
    )
    for _ in range(2):
        filled(table, 2)
        table.compact()
    tagged = [s.id for s in table.snapshots() if s.changelog_manifest_list is not None][1]
    table.versions.create_tag("here", tagged)
    table.versions.create_branch("b", "here")
    filled(table, 3)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    return table, tagged


PRODUCERS = pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])


def changes_begin_after(table: Table, tagged: int) -> None:
    """Check that changes of the tagged snapshot are refused with the first readable snapshot, and that later ones are
    read.
    """
    told = f"Changes can be read from snapshot {tagged + 1} on"
    with pytest.raises(SnapshotNotFoundError, match=told):
        table.changes(tagged).to_arrow()
    with pytest.raises(SnapshotNotFoundError, match=told):
        next(iter(table.stream(tagged, idle_seconds=0)))
    with pytest.raises(SnapshotNotFoundError, match=told):
        table.copy({"incremental-between": f"{tagged - 1},{tagged}"}).scan().to_arrow()
    assert table.changes().to_arrow().num_rows == 0
    table.upsert(pa.table({"id": [7], "v": [7]}, schema=SCHEMA))
    table.compact()
    late = {"scan.mode": "from-timestamp", "scan.timestamp-millis": "1"}
    ways = (
        table.changes().to_arrow(),
        table.changes(tagged + 1).to_arrow(),
        *(
            pa.concat_tables([c.to_arrow() for c in stream])
            for stream in (
                table.stream(tagged + 1, idle_seconds=0),
                table.copy({"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}).stream(idle_seconds=0),
                table.copy(late).stream(idle_seconds=0),
            )
        ),
    )
    assert [(rows["id"].to_pylist(), rows["_row_kind"].to_pylist()) for rows in ways] == [([7], [0])] * len(ways)
    found = table.maintenance.fsck()
    assert found.is_sound, str(found)


@PRODUCERS
def test_a_rollback_to_a_tag_does_not_restore_an_expired_changelog(tmp_path: Path, producer: str) -> None:
    table, tagged = with_an_expired_tag(tmp_path, producer)
    back = table.versions.rollback_to("here")
    assert (back.id, back.changelog_manifest_list, back.changelog_has_expired) == (tagged, None, True)
    assert table.snapshots() == [back]
    changes_begin_after(table, tagged)
    # The restored snapshot expires as any other does, and can be restored once more.
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    assert table.versions.rollback_to("here") == back


@PRODUCERS
def test_a_branch_and_a_table_forwarded_to_it_begin_without_an_expired_changelog(tmp_path: Path, producer: str) -> None:
    table, tagged = with_an_expired_tag(tmp_path, producer)
    branch = table.branch("b")
    changes_begin_after(branch, tagged)
    table.versions.fast_forward("b")
    assert table.snapshots()[0].changelog_has_expired
    assert table.changes().to_arrow()["id"].to_pylist() == [7]
    with pytest.raises(SnapshotNotFoundError, match="have expired"):
        table.changes(tagged).to_arrow()
    assert table.maintenance.fsck().is_sound


def test_a_rollback_to_a_tag_keeps_a_changelog_that_outlived_its_snapshot(tmp_path: Path) -> None:
    kept = {"changelog.num-retained.max": "100", "changelog.num-retained.min": "100"}
    table, tagged = with_an_expired_tag(tmp_path, "input", **kept)
    before = table.changes(1, tagged).to_arrow().to_pylist()
    back = table.versions.rollback_to("here")
    assert back.changelog_manifest_list is not None
    assert ChangelogManager(table.store.file_io, table.store.paths).ids() == list(range(1, tagged + 1))
    assert table.changes(1, tagged).to_arrow().to_pylist() == before
    filled(table, 2)
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    assert table.changes(1, tagged).to_arrow().to_pylist() == before
    assert table.maintenance.fsck().is_sound


def test_fsck_names_a_missing_changelog(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    options = {"bucket": "1", "changelog-producer": "input"}
    table = filled(catalog.create_table("d.c", SCHEMA, primary_keys=["id"], options=options), 3)
    assert table.maintenance.fsck().is_sound
    lost = min((tmp_path / "d.db" / "c" / "bucket-0").glob("changelog-*"), key=lambda path: path.stat().st_mtime_ns)
    lost.unlink()
    assert [(f.what, f.problem) for f in table.maintenance.fsck().findings] == [("snapshot 1", f"{lost} is missing")]


def test_no_file_is_deleted_when_the_needed_files_are_unknown(table: Table, tmp_path: Path) -> None:
    filled(table, 4)
    table.versions.create_tag("kept", 2)
    root = tmp_path / "d.db" / "t"
    (root / "manifest" / table.versions.tags()[0].snapshot.base_manifest_list).write_bytes(b"not a manifest list")
    before = sorted(path for path in root.rglob("*") if path.is_file())
    result = table.maintenance.remove_orphan_files(older_than=int(datetime.now().timestamp() * 1000) - 1)
    assert (result.files, result.unjudged) == ((), ("snapshot 2", "tag of snapshot 2"))
    assert sorted(path for path in root.rglob("*") if path.is_file()) == before
    expired = table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    assert (expired.snapshots, expired.unjudged) == ((1, 2, 3), ("tag or branch of snapshot 2",))
    gone = {path.name for path in before} - {path.name for path in root.rglob("*") if path.is_file()}
    assert gone == {"snapshot-1", "snapshot-2", "snapshot-3"}


def test_an_abandoned_guard_of_a_tag_and_its_files_are_deleted_together(table: Table) -> None:
    filled(table, 3)
    guard = TagManager(table.store.file_io, table.store.paths).guard(table.snapshots()[0])
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)

    def orphans() -> tuple[str, ...]:
        return remove_orphan_files(table.store, older_than_millis=LATER * 1000, clock=lambda: LATER + 1).files

    gone = orphans()
    assert guard in gone
    assert any("/manifest/" in path for path in gone)
    assert orphans() == ()
    assert value(table) == 2


def test_expiry_keeps_snapshots_that_consumers_have_not_read(table: Table) -> None:
    filled(table, 5)
    table.versions.reset_consumer("job", 3)
    assert table.versions.consumers() == {"job": 3}
    assert table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER).snapshots == (1, 2)
    table.versions.reset_consumer("job")
    assert table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER).snapshots == (3, 4)


def test_consumers_without_progress_are_deleted_after_a_commit(table: Table) -> None:
    filled(table, 2)
    table.versions.reset_consumer("gone", 1)
    table.versions.reset_consumer("here", 1)
    file = Path(table.location.removeprefix("file:"), "consumer", "consumer-gone")
    os.utime(file, (0, 0))
    maintain(table.copy({"write-only": "false"}).store)
    assert set(table.versions.consumers()) == {"gone", "here"}
    maintain(table.copy({"write-only": "false", "consumer.expiration-time": "1 d"}).store)
    assert set(table.versions.consumers()) == {"here"}


def test_contradictory_arguments_and_options_are_refused(table: Table) -> None:
    filled(table, 2)
    with pytest.raises(InvalidInputError, match=r"retain_max \(1\) can't be less than retain_min \(3\)"):
        table.maintenance.expire_snapshots(retain_max=1, retain_min=3)
    with pytest.raises(InvalidInputError, match="At least one snapshot stays"):
        table.maintenance.expire_snapshots(retain_min=0)
    with pytest.raises(NotSupportedError, match="set 'changelog-producer'"):
        table.copy({"changelog.num-retained.min": "99"}).maintenance.expire_snapshots(
            retain_max=1, retain_min=1, clock=lambda: LATER
        )
    assert len(table.snapshots()) == 2
    with pytest.raises(InvalidInputError, match="Not a time"):
        table.maintenance.expire_snapshots(older_than="yesterday")


@given(
    earliest=st.integers(1, 50),
    count=st.integers(1, 30),
    retain_min=st.integers(1, 10),
    more=st.integers(0, 20),
    limit=st.integers(1, 20),
    consumed=st.none() | st.integers(1, 80),
    older_than=st.integers(0, 100),
)
def test_the_first_kept_snapshot_satisfies_every_bound(
    earliest: int, count: int, retain_min: int, more: int, limit: int, consumed: int | None, older_than: int
) -> None:
    latest = earliest + count - 1
    retention = Retention(
        retain_max=retain_min + more, retain_min=retain_min, older_than_millis=older_than, max_deletes=limit
    )
    kept = first_kept(earliest, latest, retention, lambda number: number, consumed)
    assert earliest <= kept
    if kept > earliest:
        assert latest - kept + 1 >= retain_min
        assert kept - earliest <= limit
        assert consumed is None or kept <= consumed
        # The snapshots that expired by age were followed by one that was old enough.
        assert kept <= latest - retention.retain_max + 1 or kept < older_than


def test_commits_expire_due_snapshots_unless_the_table_is_write_only(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    options = {
        "bucket": "1",
        "num-sorted-run.compaction-trigger": "99",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "2",
    }
    table = catalog.create_table("d.t", SCHEMA, primary_keys=["id"], options=options)
    filled(table.copy({"write-only": "true"}), 4)
    assert [s.id for s in table.snapshots()] == [1, 2, 3, 4]
    table.versions.create_tag("short", 2, time_retained=timedelta(microseconds=1))
    filled(table, 1)
    assert [s.id for s in table.snapshots()] == [4, 5]
    assert table.versions.tags() == []
    assert value(table) == 0


def test_a_commit_succeeds_when_its_maintenance_fails(table: Table, tmp_path: Path, caplog: Any) -> None:
    filled(table, 2)
    (tmp_path / "d.db" / "t" / "manifest" / table.snapshots()[0].delta_manifest_list).unlink()
    (tmp_path / "d.db" / "t" / "consumer" / "consumer-x").parent.mkdir()
    (tmp_path / "d.db" / "t" / "consumer" / "consumer-x").write_bytes(b"not a consumer")
    eager = {"write-only": "false", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    filled(table.copy(eager), 1)
    assert value(table) == 0
    assert "Maintenance after a commit failed" in caplog.text


def test_a_system_table_counts_its_rows_without_any_column(table: Table, tmp_path: Path) -> None:
    filled(table, 3)
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    for name in ("d.t$snapshots", "d.t$audit_log"):
        reader = catalog.get_table(name).scan([]).to_arrow_batch_reader()
        assert sum(batch.num_rows for batch in reader) == (3 if name.endswith("snapshots") else 1)


def test_a_fast_forward_does_not_replace_the_schema_of_a_remaining_version(table: Table) -> None:
    filled(table, 3)
    table.versions.create_tag("third")
    table.versions.create_branch("b", "third")
    table.versions.rollback_to(1)
    with table.update_schema() as update:
        update.add_column("later", "INT")
    table.append([{**table.to_arrow().to_pylist()[0], "later": 7}])
    table.versions.create_tag("later", 2)

    # Snapshot 2 is of another history than the branch's snapshot 3, and has a schema that the branch does not have.
    with pytest.raises(InvalidInputError, match=r"beside the table's history.*has the schema 1"):
        table.versions.fast_forward("b")
    assert table.copy({"scan.tag-name": "later"}).to_arrow().column("later").to_pylist().count(7) == 1
    assert table.maintenance.fsck().findings == ()
    table.versions.delete_tag("later")
    table.versions.rollback_to(1)
    table.versions.fast_forward("b")
    assert value(table) == 2
    assert [f.what for f in table.maintenance.fsck().findings if not f.what.startswith("snapshot")] == []
