"""New values of columns by file and position are merged with the old ones block by block."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import CommitConflictError, InvalidInputError, NotSupportedError
from interbed.storage.lsm.file_read import ROW_INDEX
from interbed.storage.read.columns import FILE_PATH
from interbed.storage.upkeep.changed_rows import SnapshotRows
from interbed.storage.upkeep.column_patches import ColumnPatches
from tests.storage.table.evolving_tables import EVOLVES, SCHEMA, all_of, create, files_of, rows

COUNT = 150_000


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("share", [0.001, 0.5, 1.0])
def test_any_share_of_the_rows_of_a_group_is_changed(tmp_path: Path, file_format: str, share: float) -> None:
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("db")
    table = create(catalog, file_format=file_format)
    numbers = np.arange(COUNT)
    texts = pa.array(numbers).cast(pa.string())
    table.append(pa.table([pa.array(numbers, pa.int32()), texts, pa.array(numbers)], schema=SCHEMA))
    chance = np.random.default_rng(int(share * 1000))
    chosen = chance.random(COUNT) < share
    changed = SnapshotRows(table.store, "me")

    def updated() -> Iterator[pa.RecordBatch]:
        for batch in changed.batches(None, ["n"]):
            mask = pa.array(chosen[batch.column("n").to_numpy()])
            kept = batch.filter(mask)
            new = kept.set_column(0, "n", pa.array(-kept.column("n").to_numpy()))
            # Batches of any size.
            half = new.num_rows // 3
            yield from (new.slice(0, half), new.slice(half))

    changed.commit(updated=updated(), assigned=["n"], columns=["n"])
    found = table.scan(["id", "n", "_ROW_ID"]).to_arrow().sort_by("_ROW_ID")
    assert found["id"].to_numpy().tolist() == numbers.tolist()
    assert found["n"].to_numpy().tolist() == np.where(chosen, -numbers, numbers).tolist()
    assert [f.write_cols for f in files_of(table) if f.max_sequence_number == 2] == [("n",)]
    assert table.maintenance.fsck().is_sound


def _patch(table: interbed.Table, *positions: int) -> pa.RecordBatch:
    (file,) = files_of(table)
    path = f"{table.location.removeprefix('file:')}/bucket-0/{file.file_name}"
    paths: list[Any] = [path] * len(positions)
    columns = {"v": ["x"] * len(positions), FILE_PATH: paths, ROW_INDEX: list(positions)}
    return pa.RecordBatch.from_pydict(columns)


def _add(table: interbed.Table, *batches: pa.RecordBatch) -> None:
    with ColumnPatches(table.store, ["v"], 1) as patches:
        for batch in batches:
            patches.add(batch)


def test_rows_that_are_changed_twice_or_missing_are_refused(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("db")
    table = create(catalog)
    table.append(rows(0, 1, 2))
    before = sorted(tmp_path.rglob("bucket-*/*"))
    for positions in ((1, 1), (2, 1)):
        with pytest.raises(InvalidInputError, match="twice"):
            _add(table, _patch(table, *positions))
    missing = _patch(table, 1).set_column(1, FILE_PATH, pa.array(["/nowhere/data.parquet"]))
    with pytest.raises(CommitConflictError, match="/nowhere"):
        _add(table, _patch(table, 1), missing, _patch(table, 2))
    assert sorted(tmp_path.rglob("bucket-*/*")) == before


def test_single_rows_are_deleted_by_vectors_alone(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("db")
    table = catalog.create_table("db.t", SCHEMA, options=EVOLVES)
    table.append(rows(0, 1, 2))
    changed = SnapshotRows(table.store, "me")
    with pytest.raises(NotSupportedError, match="A deletion of rows"):
        changed.commit(deleted=changed.batches())
    with pytest.raises(NotSupportedError, match="A deletion of rows"):
        table.delete("id = 1")
    assert [row[0] for row in all_of(table)] == [0, 1, 2]
