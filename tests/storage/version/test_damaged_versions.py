"""A damaged tag, branch or table does not stop operations on others, keeps the files that it may need, and is named.

fsck reports the damage, and repairs it where no guess is needed.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import interbed
from interbed.catalog.client.cli.table import table as table_command
from interbed.catalog.client.filesystem import FileSystemCatalog
from interbed.storage.base.errors import InvalidInputError, SnapshotNotFoundError
from interbed.storage.meta.snapshot.expiry_mark import ExpiryMark, ExpiryMarks
from interbed.storage.table.table import Table
from interbed.storage.version.expire import ExpiryResult, SnapshotExpiry
from interbed.storage.version.references import half_branches
from tests.storage.version.crash_points import (
    LATER,
    NAME,
    catalog_of,
    new_table,
    opened,
    put,
    rows_of,
)
from tests.storage.version.test_crash_points import history
from tests.support.dying_disk import SimulatedKill


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    assert isinstance(catalog, FileSystemCatalog)
    catalog.create_database("d")
    new_table(catalog)
    return history(catalog)


def root(table: Table) -> Path:
    return Path(table.location)


def files(table: Table) -> set[Path]:
    return {path for path in root(table).rglob("*") if path.is_file() and "snapshot" not in str(path.parent.name)}


def expire(table: Table) -> tuple[tuple[int, ...], tuple[str, ...]]:
    result = table.maintenance.expire_snapshots(retain_max=1, retain_min=1, clock=lambda: LATER)
    return result.snapshots, result.unjudged


def test_a_damaged_tag_keeps_all_files_and_stops_no_operation(table: Table) -> None:
    table.versions.create_tag("other", 3)
    other = rows_of(table.copy({"scan.tag-name": "other"}))
    (root(table) / "tag" / "tag-early").write_bytes(b"{}")
    before = files(table)
    assert expire(table) == ((1, 2, 3, 4), ("tag early",))
    assert files(table) == before
    assert [tag.name for tag in table.versions.tags()] == ["other"]
    assert table.maintenance.remove_orphan_files(older_than=1).unjudged == ("tag early",)
    assert rows_of(table.copy({"scan.tag-name": "other"})) == other
    shown = catalog_of(root(table).parents[1]).get_table("d.t$tags").scan().to_arrow()
    assert shown["tag_name"].to_pylist() == ["other"]
    assert table.versions.delete_tag("early") is None
    assert table.maintenance.fsck().is_sound


def test_a_damaged_branch_keeps_all_files_and_stops_no_operation(table: Table) -> None:
    table.versions.create_branch("work", "early")
    (root(table) / "branch" / "branch-work" / "schema" / "schema-0").write_bytes(b"{")
    before = files(table)
    assert expire(table) == ((1, 2, 3, 4), ("branch work",))
    assert files(table) == before
    found = table.maintenance.fsck(repair=True)
    assert [f.what for f in found.findings] == ["branch work"]
    assert not found.is_sound
    table.versions.delete_branch("work")
    assert table.maintenance.fsck().is_sound


def test_an_incomplete_branch_is_not_listed_and_can_be_created_again(table: Table) -> None:
    half = root(table) / "branch" / "branch-half" / "tag"
    half.mkdir(parents=True)
    (half / "tag-early").write_bytes((root(table) / "tag" / "tag-early").read_bytes())
    assert table.versions.branches() == []
    assert half_branches(table.store) == ["half"]
    assert [f.what for f in table.maintenance.fsck().findings] == ["branch half"]
    assert expire(table)[1] == ()
    table.versions.create_branch("half", "early", ignore_if_exists=True)
    assert table.versions.branches() == ["half"]
    assert rows_of(table.branch("half")) == rows_of(table.copy({"scan.tag-name": "early"}))
    with pytest.raises(InvalidInputError, match="a branch 'half' already"):
        table.versions.create_branch("half")


def test_a_damaged_table_does_not_affect_other_tables_of_the_catalog(table: Table) -> None:
    catalog = catalog_of(root(table).parents[1])
    put(new_table(catalog, "d.other"), 1)
    (root(table) / "schema" / "schema-0").write_bytes(b"{")
    for name in ("tables", "all_table_options"):
        shown = catalog.get_table(f"sys.{name}").scan().to_arrow()
        assert "other" in shown["table_name"].to_pylist()


def test_using_a_snapshot_that_is_being_expired_is_refused_by_name(table: Table) -> None:
    mark = ExpiryMarks(table.store.file_io, table.store.paths).set(1, 4)
    assert mark is not None
    assert [s.id for s in table.snapshots()] == [4, 5]
    for use in (
        lambda: table.versions.create_tag("new", 1),
        lambda: table.versions.rollback_to(3),
        lambda: table.copy({"scan.snapshot-id": "3"}).to_arrow(),
        lambda: table.versions.reset_consumer("c", 2),
    ):
        with pytest.raises(SnapshotNotFoundError, match="is being expired"):
            use()
    assert table.versions.consumers() == {}
    assert [f.what for f in table.maintenance.fsck().findings] == ["expiry"]
    assert table.maintenance.fsck(repair=True).is_sound
    assert table.maintenance.fsck().findings == ()
    assert [s.id for s in table.snapshots()] == [4, 5]
    assert rows_of(table.copy({"scan.tag-name": "early"}))


def test_an_expiry_that_withdraws_its_mark_leaves_no_gap_for_the_next_one(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks, place = ExpiryMarks(table.store.file_io, table.store.paths), ExpiryMarks.set

    def marked_by_another(_: SnapshotExpiry) -> ExpiryResult:
        assert place(marks, 1, 3)
        return ExpiryResult()

    def after_it_failed(own: ExpiryMarks, begin: int, end: int) -> ExpiryMark | None:
        other = marks.find()
        assert other is not None
        marks.remove(other)
        return place(own, begin, end)

    monkeypatch.setattr(SnapshotExpiry, "finish", marked_by_another)
    monkeypatch.setattr(ExpiryMarks, "set", after_it_failed)
    assert expire(table)[0] == (1, 2, 3, 4)
    assert [s.id for s in table.snapshots()] == [5]
    assert table.maintenance.fsck().findings == ()


def test_a_killed_expiry_is_finished_by_the_next_one(table: Table) -> None:
    warehouse = root(table).parents[1]
    catalog, _ = opened(warehouse, 40)
    with pytest.raises(SimulatedKill):
        expire(catalog.get_table(NAME))
    assert (root(table) / "snapshot" / ".expiring").exists()
    expire(table)
    assert not (root(table) / "snapshot" / ".expiring").exists()
    assert table.maintenance.fsck().is_sound


def test_fsck_names_missing_and_cut_files(table: Table, tmp_path: Path) -> None:
    data = sorted(root(table).rglob("data-*"))
    data[0].unlink()
    data[1].write_bytes(data[1].read_bytes()[:-1])
    found = table.maintenance.fsck(repair=True)
    problems = {f.problem for f in found.findings}
    assert any(data[0].name in p and "missing" in p for p in problems)
    assert any(data[1].name in p and "bytes" in p for p in problems)
    run = CliRunner().invoke(table_command, ["-o", f"warehouse={tmp_path}", "fsck", NAME, "--json"])
    assert run.exit_code == 1
    assert json.loads(run.output)["sound"] is False


def test_fsck_of_a_sound_table_finds_nothing(table: Table, tmp_path: Path) -> None:
    table.versions.create_branch("work", "early")
    run = CliRunner().invoke(table_command, ["-o", f"warehouse={tmp_path}", "fsck", NAME])
    assert (run.exit_code, run.output.split(";")[0]) == (0, "nothing is wrong")


def test_a_hint_to_a_missing_snapshot_is_repaired(table: Table) -> None:
    (root(table) / "snapshot" / "LATEST").write_bytes(b"99")
    found = table.maintenance.fsck(repair=True)
    assert ([f.what for f in found.findings], found.is_sound) == (["hint LATEST"], True)
    assert table.maintenance.fsck().findings == ()
