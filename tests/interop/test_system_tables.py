"""System tables show what Java Paimon's show of the same table: the columns that both have, value by value."""

from pathlib import Path
from typing import Any

import pytest

import interbed
from tests.support.peers_interbed import interbed_table
from tests.support.peers_java import JavaPaimon
from tests.support.peers_json import table_to_rows

KINDS = {
    "aggregation_fields": (),
    "branches": (),
    "buckets": (),
    "consumers": (),
    # What Java appends to a path here depends on its version; floats and timestamps in maps have Java's own texts.
    "files": ("file_path",),
    "manifests": (),
    "options": (),
    "partitions": ("created_at", "created_by", "updated_by", "options", "done"),
    "schemas": (),
    "snapshots": (),
    "table_indexes": ("dv_ranges",),
    "tags": (),
}
"""The columns of each system table that are not compared."""


@pytest.fixture(scope="module")
def warehouse(java_paimon: JavaPaimon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that Java Paimon and interbed have written in turns, with a tag, a branch and a consumer."""
    warehouse = tmp_path_factory.mktemp("system")
    table = java_paimon.table(warehouse, "d.t")
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
        interbed_table(warehouse, "d.t").write([[20_454, 2, 1, "y"]])
    theirs = interbed_table(warehouse, "d.t").load()
    theirs.create_tag("kept", time_retained="36 h")
    theirs.create_tag("for_ever", 1)
    theirs.create_branch("b", "kept")
    theirs.reset_consumer("job", 2)
    return warehouse


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_system_table_shows_what_javas_shows(java_paimon: JavaPaimon, warehouse: Path, kind: str) -> None:
    theirs = java_paimon.table(warehouse, f"d.t${kind}").system()
    with interbed.load_catalog("lake", warehouse=f"file:{warehouse}") as catalog:
        ours = catalog.get_table(f"d.t${kind}").scan().to_arrow()
    shared = [name for name in theirs.names if name in ours.column_names and name not in KINDS[kind]]
    assert set(theirs.names) - set(ours.column_names) == set()

    def rows(names: list[str], values: list[list[Any]]) -> list[list[Any]]:
        return sorted(([row[names.index(name)] for name in shared] for row in values), key=str)

    types = [theirs.types[theirs.names.index(name)] for name in shared]
    assert rows(shared, table_to_rows(ours.select(shared), types)) == rows(list(theirs.names), theirs.rows)
