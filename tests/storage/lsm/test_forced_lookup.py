"""`force-lookup` with a changelog of full compactions: level 0 is compacted upward, but no key is looked up."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.table.table import Table

OPTIONS = {
    "bucket": "1",
    "changelog-producer": "full-compaction",
    "force-lookup": "true",
    # A run is never included for its size: each commit moves to level 1 first, below the oldest run.
    "compaction.size-ratio": "-100",
    "compaction.max-size-amplification-percent": "1000000000",
    "num-sorted-run.compaction-trigger": "4",
}


def table(path: Path, options: dict[str, str]) -> Table:
    with interbed.load_catalog("lake", warehouse=f"file:{path}") as catalog:
        catalog.create_database("db")
        schema = pa.schema(
            (pa.field("id", pa.int32(), nullable=False), pa.field("v", pa.int32()), pa.field("g", pa.int32()))
        )
        return catalog.create_table("db.t", schema, primary_keys=["id"], options={**OPTIONS, **options})


def write(into: Table, *rows: tuple[int, int | None, int | None]) -> None:
    into.append(pa.Table.from_pylist([dict(zip(("id", "v", "g"), row, strict=True)) for row in rows]))


def read(from_table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in from_table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("full", [False, True])
def test_values_of_older_levels_are_merged_without_a_lookup(tmp_path: Path, full: bool) -> None:
    summed = table(tmp_path, {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"})
    for number in range(4):
        write(summed, (1, 10**number, None), (number + 2, number, None))
    if full:
        summed.compact(full=True)
    assert read(summed) == [(1, 1111, None), *((number + 2, number, None) for number in range(4))]


def test_a_record_without_older_ones_stays_unchanged(tmp_path: Path) -> None:
    options = {"fields.g.sequence-group": "v", "compaction.force-rewrite-all-files": "true"}
    grouped = table(tmp_path, {"merge-engine": "partial-update", **options})
    write(grouped, (1, 5, None))
    before = read(grouped)
    grouped.compact(full=True)
    assert read(grouped) == before
