"""Statements that replace files of an append table keep their other rows as they are, in each way to change rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed import DataField, Schema, data_type
from interbed.cli import main
from interbed.spark_ext.handle.row_changes import KIND
from interbed.spark_ext.write.change_writer import LocatedChanges
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.row.kind import RowKind
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.scan.scan import TableScan
from interbed.storage.table.table import Table
from interbed.storage.upkeep.changed_rows import SnapshotRows, delete_rows_by_rewrite
from interbed.storage.upkeep.compact_table import commit_rows
from interbed.storage.write.deleted_rows import replace_files
from interbed.storage.write.table_write import TableWrite

KEPT: list[dict[str, Any]] = [
    {"id": 2, "name": "longer than the column", "p": "a", "d": None},
    {"id": 3, "name": None, "p": "__DEFAULT_PARTITION__", "d": None},
    {"id": 4, "name": "abc", "p": None, "d": "y"},
]
"""Rows that another writer may have written: a text beyond VARCHAR(3), the name of the null partition, nulls."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("s")
    fields = [
        DataField(id=0, name="id", type=data_type("BIGINT")),
        DataField(id=1, name="name", type=data_type("VARCHAR(3)")),
        DataField(id=2, name="p", type=data_type("STRING")),
        DataField(id=3, name="d", type=data_type("STRING"), default_value="x"),
    ]
    table = lake.create_table("s.t", Schema(fields=fields, partition_keys=["p"]))
    gone = [{"id": 1, "name": "a", "p": row["p"], "d": "z"} for row in KEPT]
    with TableWrite(table.store, "other", rewrites=True) as write:
        write.write_arrow(pa.Table.from_pylist([*gone, *KEPT], schema=table.arrow_schema))
        commit_rows(table.store, "other", write.prepare_commit())
    return table


def rows(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.copy({}).scan().to_arrow().sort_by("id").to_pylist()
    return found


def by_snapshot_rows(table: Table) -> None:
    found = SnapshotRows(table.store, "me")
    found.commit(deleted=list(found.batches(bound_filter("id = 1", table.schema.fields))))


def by_sql(statement: str) -> Callable[[Table], None]:
    def work(table: Table) -> None:
        warehouse = Path(table.location.removeprefix("file:")).parents[1]
        result = CliRunner().invoke(main, ["sql", statement, "-o", f"warehouse={warehouse}"])
        assert result.exit_code == 0, result.output

    return work


def by_tasks_of_spark(table: Table) -> None:
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    found = SnapshotRows(table.store, "me")
    with TableWrite(table.store, "me") as write:
        changes = LocatedChanges(write, write, table, snapshot.id)
        for batch in found.batches(bound_filter("id = 1", table.schema.fields)):
            kinds = pa.array([int(RowKind.DELETE)] * batch.num_rows, pa.int8())
            changes.write(batch.append_column(KIND, kinds))
        messages = [*changes.finish(), *write.prepare_commit()]
    commit_rows(table.store, "me", messages)


WAYS: dict[str, Callable[[Table], object]] = {
    "Table.delete": lambda table: table.delete("id = 1"),
    "a rewrite": lambda table: delete_rows_by_rewrite(table.store, bound_filter("id = 1", table.schema.fields), "me"),
    "rows of a snapshot": by_snapshot_rows,
    "DELETE": by_sql("DELETE FROM s.t WHERE id = 1"),
    "MERGE": by_sql("MERGE INTO s.t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE"),
    "tasks of Spark": by_tasks_of_spark,
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_other_writers_stay_as_they_are(table: Table, way: str) -> None:
    before = {file.file_name for split in TableScan(table.store).plan().splits for file in split.files}
    WAYS[way](table)
    after = {file.file_name for split in TableScan(table.store).plan().splits for file in split.files}
    assert rows(table) == KEPT
    assert not before & after


def test_a_new_row_is_still_checked_beside_rewritten_ones(table: Table) -> None:
    found = SnapshotRows(table.store, "me")
    [updated] = list(found.batches(bound_filter("id = 1 AND p = 'a'", table.schema.fields)))
    wrong = updated.set_column(1, updated.schema.field("name"), pa.array(["too long"]))
    with pytest.raises(interbed.SchemaMismatchError, match="'name'"):
        found.commit(updated=[wrong])
    assert len(rows(table)) == 6


def test_a_file_that_is_not_in_the_snapshot_is_a_conflict(table: Table) -> None:
    splits = TableScan(table.store).plan().splits
    path = splits[0].path_of(splits[0].files[0])
    first = DeletionVector.of(np.array([0]))
    with TableWrite(table.store, "me") as write, pytest.raises(CommitConflictError, match="other"):
        replace_files(table.store, write, splits, {path: first, "other": first})
