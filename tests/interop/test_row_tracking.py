"""Java Paimon and interbed take turns at a table that tracks rows; after each step both read the same rows and ids."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from interbed.storage.table.table import Table
from interbed.storage.upkeep.changed_rows import SnapshotRows
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon

STEPS = 12
COLUMNS: "list[pa.Field[Any]]" = [pa.field("id", pa.int32()), pa.field("v", pa.string())]
SCHEMA = pa.schema(COLUMNS)
HIDDEN = ["_ROW_ID", "_SEQUENCE_NUMBER"]


def _updated(table: Table, chosen: list[int], value: str) -> None:
    rows = SnapshotRows(table.store, "interbed")

    def updated() -> Iterator[pa.RecordBatch]:
        for batch in rows.batches():
            found = batch.filter(pc.is_in(batch.column("id"), pa.array(chosen, pa.int32())))
            if found.num_rows:
                yield found.set_column(1, "v", pa.array([value] * found.num_rows, pa.string()))

    rows.commit(updated=updated())


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_rows_keep_their_ids_through_the_changes_of_both(
    java_paimon: JavaPaimon, tmp_path: Path, file_format: str, vectors: str
) -> None:
    of_java = java_paimon.table(tmp_path, "d.t")
    of_java.create(
        [("id", "INT"), ("v", "STRING")],
        options={
            "row-tracking.enabled": "true",
            "compaction.min.file-num": "2",
            "deletion-vectors.enabled": vectors,
            "file.format": file_format,
        },
    )
    view = java_paimon.table(tmp_path, "d.t$row_tracking")
    chance = random.Random(f"{file_format} {vectors}")
    known: dict[int, int] = {}
    following = 0
    for step in range(STEPS):
        table = interbed_table(tmp_path, "d.t").load()
        ids = sorted(known) or [0]
        match chance.choice(["append", "append", "java append", "java compact", "compact", "sort", "delete", "update"]):
            case "append":
                count = chance.randint(1, 5)
                values = range(following, following + count)
                table.append(pa.table([pa.array(values, pa.int32()), pa.array([f"o{step}"] * count)], schema=SCHEMA))
                following += count
            case "java append":
                count = chance.randint(1, 5)
                of_java.write([[n, f"j{step}"] for n in range(following, following + count)])
                following += count
            case "java compact":
                of_java.compact()
            case "compact":
                table.compact()
            case "sort":
                table.compact(order_strategy="order", order_by="v")
            case "delete":
                table.delete(f"id = {chance.choice(ids)} or _ROW_ID = {chance.choice(ids)}")
            case "update":
                _updated(table, chance.sample(ids, min(3, len(ids))), f"u{step}")
        table = interbed_table(tmp_path, "d.t").load()
        ours = [list(row.values()) for row in table.scan([*SCHEMA.names, *HIDDEN]).to_arrow().to_pylist()]
        assert sorted(ours) == sorted(_rows(view.read_table().rows)), step
        assert table.maintenance.fsck().is_sound
        row_ids = {row[0]: row[2] for row in ours}
        assert len(set(row_ids.values())) == len(ours)
        assert all(known.get(key, row_id) == row_id for key, row_id in row_ids.items()), (
            "a row has another id than before"
        )
        known = row_ids


def _rows(rows: list[list[Any]]) -> list[list[Any]]:
    return [[row[0], row[1], int(row[2]), int(row[3])] for row in rows]
