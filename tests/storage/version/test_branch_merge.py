"""Merging of branches of append tables."""

from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog
from interbed.storage.base.errors import BranchNotFoundError, InvalidInputError, NotSupportedError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn
from interbed.storage.table.table import Table


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(table: Table) -> list[int | None]:
    return table.scan().to_arrow().sort_by("id")["id"].to_pylist()


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """A catalog whose table `db.t` has the branch `b`, created from its second snapshot."""
    made = load_catalog(warehouse=str(tmp_path))
    made.create_database("db")
    table = made.create_table("db.t", rows().schema)
    table.append(rows(1))
    table.append(rows(2))
    table.versions.create_tag("here")
    table.versions.create_branch("b", "here")
    return made


def test_rows_of_a_branch_are_merged_into_the_table_once(catalog: Catalog) -> None:
    table, branch = catalog.get_table("db.t"), catalog.get_table("db.t$branch_b")
    branch.append(rows(3))
    table.append(rows(4))

    assert table.versions.merge_branch("b") == 4
    assert ids(catalog.get_table("db.t")) == [1, 2, 3, 4]
    assert table.versions.merge_branch("b") is None
    assert table.versions.merge_branch("main", "b") == 4
    assert ids(catalog.get_table("db.t$branch_b")) == [1, 2, 3, 4]
    table.versions.delete_branch("b")
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    assert ids(catalog.get_table("db.t")) == [1, 2, 3, 4]


def test_a_branch_without_common_history_is_merged_completely(catalog: Catalog) -> None:
    table = catalog.get_table("db.t")
    table.versions.create_branch("empty")
    with pytest.raises(InvalidInputError, match="no snapshot"):
        table.versions.merge_branch("empty")
    catalog.get_table("db.t$branch_empty").append(rows(9))

    assert table.versions.merge_branch("empty") == 3
    assert ids(catalog.get_table("db.t")) == [1, 2, 9]


def test_branches_that_removed_rows_are_refused(catalog: Catalog) -> None:
    table, branch = catalog.get_table("db.t"), catalog.get_table("db.t$branch_b")
    branch.append(rows(3))
    table.delete("id = 2")

    with pytest.raises(InvalidInputError, match="Snapshot 3 of the branch 'main' is of the kind OVERWRITE"):
        table.versions.merge_branch("b")
    assert ids(catalog.get_table("db.t")) == [1]
    assert ids(catalog.get_table("db.t$branch_b")) == [1, 2, 3]


def test_incompatible_branches_are_refused(catalog: Catalog) -> None:
    table, branch = catalog.get_table("db.t"), catalog.get_table("db.t$branch_b")
    branch.append(rows(3))
    with pytest.raises(BranchNotFoundError, match="nowhere"):
        table.versions.merge_branch("nowhere")
    with pytest.raises(InvalidInputError, match="into itself"):
        table.versions.merge_branch("b", "b")
    catalog.alter_table("db.t", AddColumn("more", AtomicType(TypeRoot.INT)))
    with pytest.raises(InvalidInputError, match="different columns"):
        catalog.get_table("db.t").versions.merge_branch("b")
    keyed = catalog.create_table("db.k", rows().schema, primary_keys=["id"], options={"bucket": 1})
    keyed.upsert(rows(1))
    keyed.versions.create_branch("b")
    with pytest.raises(NotSupportedError, match="append tables"):
        keyed.versions.merge_branch("b")


def test_expiry_of_the_table_keeps_files_merged_from_a_branch(catalog: Catalog) -> None:
    table, branch = catalog.get_table("db.t"), catalog.get_table("db.t$branch_b")
    branch.append(rows(3))
    table.append(rows(4))
    table.versions.merge_branch("b")
    table.versions.create_tag("merged")
    table.compact(full=True)
    assert table.maintenance.expire_snapshots(retain_max=1, retain_min=1).unjudged == ()
    assert ids(branch) == [1, 2, 3]
    table.versions.delete_tag("merged")
    assert ids(branch) == [1, 2, 3]
    assert ids(table) == [1, 2, 3, 4]
    table.versions.delete_branch("b")
    table.maintenance.remove_orphan_files(older_than=1)
    assert ids(table) == [1, 2, 3, 4]


def test_older_snapshots_of_a_branch_keep_files_merged_from_the_table(catalog: Catalog) -> None:
    table, branch = catalog.get_table("db.t"), catalog.get_table("db.t$branch_b")
    table.append(rows(3))
    taken = table.versions.merge_branch("main", "b")
    branch.compact(full=True)
    table.compact(full=True)
    assert table.maintenance.expire_snapshots(retain_max=1, retain_min=1).unjudged == ()
    assert ids(branch.copy({"scan.snapshot-id": str(taken)})) == [1, 2, 3]
