"""Upserts that a Flink stream writes to an Iceberg table are read as Spark reads them, after each commit."""

import random
from pathlib import Path
from typing import Any

import pytest

from tests.iceberg.java_tables import assert_alike, ordered, ours
from tests.iceberg.optimize.tables import opened
from tests.support.peers.iceberg import IcebergPeer, flink_session

COLUMNS = "id INT, city STRING, v DOUBLE, PRIMARY KEY (id, city) NOT ENFORCED"


def changes(seed: int, count: int) -> tuple[list[tuple[str, list[Any]]], list[tuple[Any, ...]]]:
    """Return upserts and deletes of few keys, so that most keys recur, and the resulting rows."""
    dice = random.Random(seed)
    made: list[tuple[str, list[Any]]] = []
    # The peer takes a DOUBLE as text.
    rows: dict[tuple[int, str], str] = {}
    for _ in range(count):
        key = dice.randrange(12), dice.choice("xy")
        if key in rows and dice.random() < 0.3:
            made.append(("-D", [*key, rows.pop(key)]))
        else:
            made.append(("+U" if key in rows else "+I", [*key, str(dice.randrange(1000) / 4)]))
            rows[key] = made[-1][1][2]
    return made, sorted(((*key, value) for key, value in rows.items()), key=repr)


@pytest.mark.long
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (city)"])
def test_upserts_of_a_stream_are_read_as_spark_reads_them(peer: IcebergPeer, tmp_path: Path, partitioned: str) -> None:
    given, left = changes(5, 120)
    table = f"ice.flink.{'p' if partitioned else 't'}"
    peer.run("CREATE NAMESPACE IF NOT EXISTS ice.flink")
    with flink_session(peer.warehouse) as flink:
        flink.sql(
            f"CREATE TABLE {table} ({COLUMNS}) {partitioned} "
            "WITH ('format-version' = '2', 'write.upsert.enabled' = 'true')"
        )
        flink.changes("changes", COLUMNS, given, tmp_path, kinds="upsert", rows_per_checkpoint=15)
        flink.submit(f"INSERT INTO {table} SELECT * FROM changes").wait()
    assert {file.content for file in peer.files(table)} == {"data", "position_deletes", "equality_deletes"}
    assert assert_alike(peer, table) == left
    found = ours(peer, table)
    snapshots = found.snapshots()
    assert len(snapshots) >= 8
    for snapshot in snapshots[:: len(snapshots) // 4]:
        expected = ordered(peer.rows(table, snapshot_id=snapshot.snapshot_id))
        assert ordered(found.scan(snapshot_id=snapshot.snapshot_id).to_arrow()) == expected
    narrow = found.scan(columns=["v"], filter="id = 3").to_arrow()["v"].to_pylist()
    assert sorted(map(repr, narrow)) == sorted(value for number, _, value in left if number == 3)
    # The rows stay the same when equality deletes become position deletes, and when all files are rewritten.
    peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.target-file-size-bytes'='500')")
    for mode, kinds in (("minor", {"data", "position_deletes"}), ("full", {"data"})):
        opened(peer, table).compact(mode=mode)
        assert {file.content for file in peer.files(table)} == kinds
        assert assert_alike(peer, table) == left
