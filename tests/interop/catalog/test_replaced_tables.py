"""Java Paimon reads, writes and analyses tables that interbed replaced and analysed."""

import json
from pathlib import Path

import pyarrow as pa

from interbed import load_catalog
from tests.support.peers.java import JavaPaimon

_OLD = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a", "b"]})
_NEW = pa.table(
    {"k": pa.array([7, 8], pa.int32()), "v": pa.array([5, None], pa.int32()), "id": pa.array([1, 2], pa.int32())}
)


def test_java_continues_with_a_replaced_table(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    catalog.create_table_as("d.t", _OLD, primary_keys=["id"], options={"bucket": 1})
    catalog.replace_table("d.t", _NEW.schema, _NEW, primary_keys=["k"], options={"bucket": 2})
    java = java_paimon.table(tmp_path, "d.t")

    assert java.read().to_arrow().sort_by("k").to_pylist() == _NEW.to_pylist()
    assert java.read(snapshot_id=1).to_arrow().sort_by("id").to_pylist() == _OLD.to_pylist()
    java.write([[8, 6, 3]])
    assert catalog.get_table("d.t").get(8) == {"k": 8, "v": 6, "id": 3}


def test_java_shows_the_same_statistics_and_compacted_rows(java_paimon: JavaPaimon, tmp_path: Path) -> None:
    catalog = load_catalog(warehouse=str(tmp_path))
    catalog.create_database("d")
    table = catalog.create_table_as("d.t", _NEW, primary_keys=["k"], options={"bucket": 1, "write-only": True})
    table.copy({"write-only": "false"}).compact()
    table.upsert(_NEW.slice(0, 1))
    table.maintenance.analyze()

    ours = catalog.get_table("d.t$ro").scan().to_arrow().sort_by("k")
    assert ours.num_rows == 2
    assert java_paimon.table(tmp_path, "d.t$ro").system().to_arrow().sort_by("k").to_pylist() == ours.to_pylist()
    (shown,) = catalog.get_table("d.t$statistics").scan().to_arrow().to_pylist()
    theirs = java_paimon.table(tmp_path, "d.t$statistics").system()
    (row,) = (dict(zip(theirs.names, values, strict=True)) for values in theirs.rows)
    columns = json.loads(row["colstat"])
    assert {name: columns[name]["colId"] for name in columns} == {"k": 0, "v": 1, "id": 2}
    assert (columns["v"]["min"], columns["v"]["nullCount"]) == ("5", 1)
    assert int(row["mergedRecordCount"]) == shown["mergedRecordCount"] == 2
    assert java_paimon.table(tmp_path, "d.t").snapshots()[-1]["commitKind"] == "ANALYZE"
