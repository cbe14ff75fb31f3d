"""`changelog-producer` = `input`: the changelog has all written rows, in order of key and sequence, beside the merged
files.
"""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
WITH_KINDS = SCHEMA.append(pa.field("_row_kind", pa.int8()))

Change = tuple[int, int, int]
"""Key, value and row kind."""


def create(warehouse: Path, **options: str) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    fixed = {"bucket": "1", "changelog-producer": "input"}
    return catalog.create_table("db.t", SCHEMA, primary_keys=["id"], options={**fixed, **options})


def write(table: Table, changes: list[Change]) -> None:
    ids, values, kinds = (list(column) for column in zip(*changes, strict=True))
    table.write_changes(pa.table({"id": ids, "v": values, "_row_kind": kinds}, schema=WITH_KINDS))


def changelog_of(table: Table, snapshot: int) -> list[Change]:
    rows: list[dict[str, Any]] = table.changes(snapshot, snapshot).to_arrow().to_pylist()
    return [(r["id"], r["v"], r["_row_kind"]) for r in rows]


ENGINES = {
    "deduplicate": {},
    "deduplicate by a sequence field": {"sequence.field": "v"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
    "partial update": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
}


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("buffer", ["256 mb", "1 kb"])
def test_the_input_is_the_changelog_in_order_of_key_and_newness(tmp_path: Path, engine: str, buffer: str) -> None:
    table = create(tmp_path, **{"write-only": "true", "write-buffer-size": buffer, **ENGINES[engine]})
    source = random.Random(engine)
    kinds = [0, 2] if "partial" in engine else [0, 1, 2, 3]
    for _ in range(3):
        changes = [(source.randrange(9), source.randrange(5), source.choice(kinds)) for _ in range(200)]
        write(table, changes)
        snapshot = table.snapshots()[-1]
        assert snapshot.changelog_record_count == len(changes)
        by_value = "sequence" in engine
        # The sort is stable, so rows of one key keep their order of arrival.
        expected = sorted(changes, key=lambda c: (c[0], c[1] if by_value else 0))
        assert changelog_of(table, snapshot.id) == expected
        assert (snapshot.delta_record_count or 0) < len(changes)


def test_files_of_the_input_are_named_and_placed_as_changelog_files(tmp_path: Path) -> None:
    table = create(tmp_path, **{"changelog-file.prefix": "told-"})
    write(table, [(1, 1, 0), (1, 2, 2)])
    names = sorted(p.name.split("-")[0] for p in Path(table.location).glob("bucket-0/*"))
    assert names == ["data", "told"]


def test_a_compaction_adds_no_changelog(tmp_path: Path) -> None:
    table = create(tmp_path, **{"write-only": "true"})
    write(table, [(1, 1, 0)])
    write(table, [(1, 2, 2)])
    table.compact()
    assert table.snapshots()[-1].changelog_manifest_list is None
    assert changelog_of(table, 3) == []


def test_an_overwrite_adds_no_changelog_and_leaves_no_file(tmp_path: Path) -> None:
    table = create(tmp_path)
    write(table, [(1, 1, 0)])
    table.overwrite(pa.table({"id": [2], "v": [2]}, schema=SCHEMA))
    assert table.snapshots()[-1].changelog_manifest_list is None
    assert len(list(Path(table.location).glob("bucket-0/changelog-*"))) == 1


def test_an_aborted_writer_leaves_no_changelog_file(tmp_path: Path) -> None:
    table = create(tmp_path, **{"write-buffer-size": "1 kb", "write-buffer-spillable": "false"})
    with table.new_write("u") as writer:
        for number in range(20):
            writer.write_arrow(pa.table({"id": list(range(50)), "v": [number] * 50}, schema=SCHEMA))
        assert list(Path(table.location).glob("bucket-0/changelog-*"))
    assert list(Path(table.location).glob("bucket-0/*")) == []


def test_a_failure_to_write_the_changelog_leaves_the_table_unchanged(tmp_path: Path) -> None:
    table = create(tmp_path)
    write(table, [(1, 1, 0)])
    before = sorted(Path(table.location).glob("bucket-0/*"))
    faulty = FaultyFileIO(table.store.file_io, [Fault.parse("open_output:*/changelog-*:fail-before")])
    store = open_store(table.location, faulty)
    with pytest.raises(StorageAccessError, match="changelog-"):
        Table("t", store).upsert(pa.table({"id": [2], "v": [2]}, schema=SCHEMA))
    assert sorted(Path(table.location).glob("bucket-0/*")) == before
