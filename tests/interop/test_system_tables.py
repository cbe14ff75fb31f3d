"""System tables equal Java Paimon's of the same table: names, types and values, column by column."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed.storage.base.types.data_type import type_to_json
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import parse_type, table_to_rows

NEWER = {
    "partitions": ("total_buckets", "done", "deleted_record_count"),
    "snapshots": ("operation", "writer_version"),
    "table_indexes": ("row_range_start", "row_range_end", "index_field_id", "index_field_name"),
}
"""Columns that Paimon has added since 1.4.2, at the end."""

KINDS: dict[str, Sequence[str]] = {
    "aggregation_fields": (),
    "audit_log": (),
    "binlog": (),
    "branches": (),
    "buckets": (),
    "consumers": (),
    "file_key_ranges": ("file_path",),
    # Java's suffix of a path depends on its version here; floats and timestamps in maps have Java's own texts.
    "files": ("file_path",),
    "manifests": (),
    "options": (),
    "partitions": (),
    "ro": (),
    # The order of options in a text is that of a hash map.
    "schemas": ("options",),
    "snapshots": (),
    "statistics": (),
    "table_indexes": (),
    "tags": (),
}
"""Columns of each system table whose values are not compared."""

TABLES = ("d.aggregated", "d.appended", "d.empty")


@pytest.fixture(scope="module")
def warehouse(java_paimon: JavaPaimon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables that Java Paimon and interbed have written in turns, with tags, a branch, a consumer and statistics."""
    warehouse = tmp_path_factory.mktemp("system")
    table = java_paimon.table(warehouse, "d.aggregated")
    table.create(
        [("dt", "DATE NOT NULL"), ("id", "INT NOT NULL"), ("n", "INT"), ("s", "STRING")],
        primary_keys=["dt", "id"],
        partition_keys=["dt"],
        options={
            "bucket": "2",
            "merge-engine": "aggregation",
            "fields.n.aggregate-function": "sum",
            "fields.s.aggregate-function": "listagg",
            "fields.s.list-agg-delimiter": ";",
            "deletion-vectors.enabled": "true",
            "num-sorted-run.compaction-trigger": "3",
        },
        comment="of sums",
    )
    for number in range(3):
        table.write([[20_454, i, number, "x"] for i in range(4)] + [[20_455, 7, None, None]])
        interbed_table(warehouse, "d.aggregated").write([[20_454, 2, 1, "y"]])
    theirs = interbed_table(warehouse, "d.aggregated").load()
    theirs.versions.create_tag("kept", time_retained="36 h")
    theirs.versions.create_tag("for_ever", 1)
    theirs.versions.create_branch("b", "kept")
    theirs.versions.reset_consumer("job", 2)
    theirs.maintenance.analyze()

    appended = java_paimon.table(warehouse, "d.appended")
    appended.create(
        [("dt", "STRING"), ("hour", "INT"), ("id", "INT"), ("s", "STRING")],
        partition_keys=["dt", "hour"],
        options={
            "bucket": "-1",
            "deletion-vectors.enabled": "true",
            "file-index.bloom-filter.columns": "id",
            "file-index.in-manifest-threshold": "1 b",
        },
    )
    appended.write([["x", 1, 1, "a"], [None, 2, 2, "b"], ["y z", 3, 3, None]])
    ours = interbed_table(warehouse, "d.appended")
    ours.write([["x", 1, 5, "c"], ["x", 1, 6, "d"]])
    ours.load().delete("id in (2, 5)")

    java_paimon.table(warehouse, "d.empty").create(
        [("id", "INT"), ("s", "STRING")], options={"bucket": "1", "bucket-key": "id"}
    )
    return warehouse


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_system_table_equals_javas(java_paimon: JavaPaimon, warehouse: Path, kind: str) -> None:
    for name in TABLES:
        theirs = java_paimon.table(warehouse, f"{name}${kind}").system()
        with interbed.load_catalog("lake", warehouse=f"file:{warehouse}") as catalog:
            table = catalog.get_table(f"{name}${kind}")
            ours = table.scan().to_arrow()
        columns = [(field.name, parse_type(type_to_json(field.type))) for field in table.fields]
        there = len(theirs.names)
        assert columns[:there] == list(zip(theirs.names, theirs.types, strict=True))
        assert tuple(column for column, _ in columns[there:]) == NEWER.get(kind, ())
        shared = [i for i, column in enumerate(theirs.names) if column not in KINDS[kind]]

        def shown(rows: list[list[Any]], places: list[int] = shared) -> list[list[Any]]:
            return sorted(([row[i] for i in places] for row in rows), key=str)

        mine = table_to_rows(ours.select(list(theirs.names)), theirs.types)
        assert shown(mine) == shown(theirs.rows)


@pytest.mark.parametrize("name", ["tables", "partitions", "all_table_options", "catalog_options"])
def test_system_tables_of_the_catalog_have_javas_columns(java_paimon: JavaPaimon, warehouse: Path, name: str) -> None:
    theirs = java_paimon.table(warehouse, f"sys.{name}").system()
    with interbed.load_catalog("lake", warehouse=str(warehouse)) as catalog:
        table = catalog.get_table(f"sys.{name}")
        mine = table_to_rows(table.scan().to_arrow(), theirs.types)
    assert [(f.name, parse_type(type_to_json(f.type))) for f in table.fields] == [
        *zip(theirs.names, theirs.types, strict=True)
    ]
    if name == "tables":
        # Java's file system catalog omits the figures.
        figures = theirs.names.index("record_count")
        mine = [[*row[:figures], *[None] * (len(row) - figures)] for row in mine]
    # The peer's catalog has an additional option.
    rows = [row for row in theirs.rows if row[0] != "cache-enabled"]
    assert sorted(mine, key=str) == sorted(rows, key=str)


def test_file_indexes_are_shown_with_their_locations(java_paimon: JavaPaimon, warehouse: Path) -> None:
    with interbed.load_catalog("lake", warehouse=str(warehouse)) as catalog:
        rows = catalog.get_table("d.appended$file_indexes").scan().to_arrow().to_pylist()
        paths = {row["file_path"] for row in catalog.get_table("d.appended$files").scan().to_arrow().to_pylist()}
    assert {row["file_path"] for row in rows} == paths
    for row in rows:
        assert (row["column_name"], row["index_type"], row["storage_type"]) == ("id", "bloom-filter", "FILE")
        assert row["index_file_path"] == f"{row['file_path']}.index"
        size = (Path(row["index_file_path"].removeprefix("file:"))).stat().st_size
        assert row["index_container_size_in_bytes"] == size > row["index_size_in_bytes"] > 0
        assert row["is_empty"] is False
