"""UPDATE and MERGE by `interbed sql` in tables with `data-evolution.enabled` write the assigned columns alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.cli import main
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.lsm.file_read import FileRead
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.upkeep.changed_rows import SnapshotRows
from tests.storage.table.evolving_tables import EVOLVES, SCHEMA, all_of, catalog_with_rows, files_of, rows


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    return catalog_with_rows(tmp_path)


def _run(lake: interbed.Catalog, statement: str) -> Result:
    return CliRunner().invoke(main, ["sql", statement, "--json", "-o", f"warehouse={lake.warehouse}"])


def _sql(lake: interbed.Catalog, statement: str) -> dict[str, Any]:
    found = _run(lake, statement)
    assert found.exit_code == 0, (statement, found.output, found.exception)
    result: dict[str, Any] = json.loads(found.output)
    return result


def _new_files(table: interbed.Table) -> list[DataFileMeta]:
    newest = table.snapshots()[-1].id
    return sorted((f for f in files_of(table) if f.max_sequence_number == newest), key=lambda f: f.first_row_id or 0)


def test_an_update_writes_and_reads_the_columns_that_it_names(
    lake: interbed.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.get_table("db.t")
    read: set[str] = set()
    original = FileRead.__init__

    def recording(self: Any, store: Any, fields: Any, *args: Any) -> None:
        read.update(field.name for field in fields)
        original(self, store, fields, *args)

    with monkeypatch.context() as patch:
        patch.setattr(FileRead, "__init__", recording)
        assert _sql(lake, "UPDATE db.t SET v = 'x' || _ROW_ID WHERE n >= 20")["updated"] == 3
    assert {"v", "n"} <= read
    assert "id" not in read
    assert [(f.write_cols, f.first_row_id, f.row_count) for f in _new_files(table)] == [(("v",), 0, 3), (("v",), 3, 2)]
    assert [row[:4] for row in all_of(table)] == [
        (0, "v0", 0, 0),
        (1, "v1", 10, 1),
        (2, "x2", 20, 2),
        (3, "x3", 30, 3),
        (4, "x4", 40, 4),
    ]
    _sql(lake, "UPDATE db.t AS o SET n = o.id, id = n + (SELECT max(id) FROM db.t) WHERE _ROW_ID = 3")
    assert all_of(table)[3] == (34, "x3", 3, 3, 4)
    assert [f.write_cols for f in _new_files(table)] == [("id", "n")]
    assert _sql(lake, "UPDATE db.t SET v = NULL WHERE id = 99")["snapshot"] is None
    assert table.maintenance.fsck().is_sound


def test_a_merge_updates_columns_and_appends_rows_in_one_snapshot(lake: interbed.Catalog) -> None:
    table = lake.get_table("db.t")
    changed = _sql(
        lake,
        """MERGE INTO db.t USING (VALUES (4, 'd'), (1, 'b'), (2, 'c'), (7, 'g')) AS s(id, v) ON t.id = s.id
           WHEN MATCHED AND s.id = 2 THEN UPDATE SET n = t.n + 1
           WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)""",
    )
    assert (changed["updated"], changed["inserted"], changed["snapshot"]) == (3, 1, 3)
    assert [row[:4] for row in all_of(table)] == [
        (0, "v0", 0, 0),
        (1, "b", 10, 1),
        (2, "v2", 21, 2),
        (3, "v3", 30, 3),
        (4, "d", 40, 4),
        (7, "g", None, 5),
    ]
    assert [f.write_cols for f in _new_files(table)] == [("v", "n"), ("v", "n"), None]
    assert table.maintenance.fsck().is_sound


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM db.t WHERE id = 1",
        "MERGE INTO db.t USING (SELECT 1 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ],
)
def test_deletions_of_single_rows_are_refused_by_name(lake: interbed.Catalog, statement: str) -> None:
    found = _run(lake, statement)
    assert found.exit_code != 0
    assert "DELETE from 'db.t' is not possible: with 'data-evolution.enabled' = 'true'" in found.output
    assert len(lake.get_table("db.t").snapshots()) == 2


def test_rows_stay_in_their_partition(tmp_path: Path) -> None:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("db")
    table = lake.create_table("db.t", SCHEMA, partition_keys=["v"], options=EVOLVES)
    table.append(rows(0, 1))
    found = _run(lake, "UPDATE db.t SET v = 'v0'")
    assert found.exit_code != 0
    assert "can't be updated (from 'v1' to 'v0')" in found.output
    assert len(table.snapshots()) == 1
    merge = "MERGE INTO db.t USING (SELECT id, v, 5 AS n FROM db.t) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE"
    assert _sql(lake, merge)["updated"] == 2
    assert [f.write_cols for f in _new_files(table)] == [("id", "n")] * 2
    assert [row[:3] for row in all_of(table)] == [(0, "v0", 5), (1, "v1", 5)]


def test_only_a_change_of_the_same_columns_is_a_conflict(lake: interbed.Catalog) -> None:
    table = lake.get_table("db.t")

    def update_beside(values: dict[str, Any], columns: list[str] | None) -> None:
        changed = SnapshotRows(table.store, "me")
        found = list(changed.batches(None, ["v"]))
        table.update(values, "id = 0")
        changed.commit(updated=found, assigned=["v"], columns=columns)

    update_beside({"n": 5}, ["v"])
    for values, columns in (({"n": 6}, ["v", "n"]), ({"v": "w"}, []), ({"n": 7}, None)):
        with pytest.raises(CommitConflictError):
            update_beside(values, columns)
    assert all_of(table)[0][:3] == (0, "w", 7)
