"""Each kind of rewrite of tables written by Java, verified by Spark."""

import datetime as dt
from uuid import UUID

import pytest

from interbed.iceberg.optimize.planner import OptimizeAction
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from tests.iceberg.java_tables import assert_alike, ordered
from tests.iceberg.optimize.tables import opened
from tests.iceberg.test_reads import ROWS, TYPES
from tests.support.peers.iceberg import IcebergPeer
from tests.support.shares import each_run

LINEAGE = "id, _row_id, _last_updated_sequence_number"


def kinds(peer: IcebergPeer, table: str) -> list[str]:
    """Return the kinds of the files of the newest snapshot."""
    return sorted("vector" if file.format == "puffin" else file.content for file in peer.files(table))


@pytest.mark.long
@pytest.mark.parametrize("version", each_run([1, 2, 3], lambda version: version == 3))
def test_values_of_all_types_are_the_same_in_rewritten_files(peer: IcebergPeer, version: int) -> None:
    table = peer.new_table(TYPES, version)
    for row in ROWS:
        peer.run(f"INSERT INTO {table} VALUES {row}")
    before = assert_alike(peer, table)
    result = opened(peer, table).compact()
    assert (result.rewritten, result.written, result.written_rows) == (3, 1, 3)
    assert assert_alike(peer, table) == before
    assert peer.run(
        f"SELECT count(*) FROM {table} WHERE i = 1 AND n = 1.25 AND s = 'ä' AND day > DATE '2000-01-01'"
    ) == [[1]]
    assert opened(peer, table).compact().snapshot_id is None


@pytest.mark.long
def test_types_unknown_to_spark_are_written_as_java_reads_them(peer: IcebergPeer) -> None:
    table = "ice.db.others_again"
    fields = [
        {"id": 1, "name": "t", "type": "time", "required": False},
        {"id": 2, "name": "u", "type": "uuid", "required": False},
        {"id": 3, "name": "x", "type": "fixed[3]", "required": False},
    ]
    peer.create(table, fields, properties={"format-version": "2"})
    for number in (7, 8):
        peer.append(table, [[dt.time(1, 2, 3, number), UUID(int=number), b"abc"], [None, None, None]])
    before = sorted(peer.records(table), key=repr)
    assert opened(peer, table).compact().written == 1
    assert sorted(peer.records(table), key=repr) == before


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_become_position_deletes_or_a_vector_of_each_file(peer: IcebergPeer, version: int) -> None:
    table = peer.new_table("id INT, v STRING", version)
    for start in (0, 100):
        peer.append(table, [[start + number, "x"] for number in range(100)])
    for key in (1, 2, 103):
        peer.equality_delete(table, ["id"], [[key]])
    before = assert_alike(peer, table)
    plan = opened(peer, table).plan_compaction(mode="minor")
    assert [(unit.action, unit.reason, len(unit.files)) for unit in plan] == [
        (OptimizeAction.CONVERT, "rows deleted by keys", 2)
    ]
    result = opened(peer, table).compact(mode="minor")
    assert (result.converted, result.deletes_read, result.deletes_written, result.rewritten) == (2, 3, 2, 0)
    assert assert_alike(peer, table) == before
    delete = "vector" if version == 3 else "position_deletes"
    assert kinds(peer, table) == sorted(["data", "data", delete, delete])
    assert opened(peer, table).explain().delete_file_reads == 2
    assert opened(peer, table).compact(mode="minor").snapshot_id is None
    # Later deletes apply on top of them.
    peer.equality_delete(table, ["id"], [[3]])
    assert len(assert_alike(peer, table)) == len(before) - 1
    opened(peer, table).compact(mode="minor")
    assert len(assert_alike(peer, table)) == len(before) - 1


def test_a_data_file_whose_rows_are_all_deleted_is_removed(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT", 3)
    peer.append(table, [[1], [2]])
    peer.append(table, [[number] for number in range(10, 90)])
    peer.equality_delete(table, ["id"], [[1], [2], [10]])
    opened(peer, table).compact(mode="minor")
    assert kinds(peer, table) == ["data", "vector"]
    assert len(assert_alike(peer, table)) == 79


def test_a_major_compaction_rewrites_files_with_many_deleted_rows(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT", 2, properties="'write.target-file-size-bytes'='1000'")
    first = peer.append(table, [[number] for number in range(1000)])
    second = peer.append(table, [[number] for number in range(1000, 2000)])
    peer.position_delete(table, [(first, place) for place in range(300)])
    peer.position_delete(table, [(second, 5)])
    assert opened(peer, table).plan_compaction(mode="minor") == []
    (unit,) = opened(peer, table).plan_compaction(mode="major")
    assert (unit.action, unit.reason) == (OptimizeAction.REWRITE, "more than 10% of their rows deleted")
    assert [task.file.path for task in unit.files] == [first]
    opened(peer, table).compact(mode="major")
    assert len(assert_alike(peer, table)) == 1699


@pytest.mark.parametrize("mode", each_run(["minor", "full"], lambda mode: mode == "full"))
def test_rows_of_version_3_keep_their_ids_and_their_last_updated_sequence_number(peer: IcebergPeer, mode: str) -> None:
    properties = "'self-optimizing.minor.trigger.file-count'='2', 'write.update.mode'='merge-on-read'"
    table = peer.new_table("id INT, v STRING", 3, properties=properties)
    for start in (0, 10, 20):
        peer.append(table, [[start + number, "x"] for number in range(10)])
    peer.run(f"UPDATE {table} SET v = 'y' WHERE id IN (3, 15)")
    peer.equality_delete(table, ["id"], [[4]])
    before = ordered(peer.rows(table, LINEAGE))
    opened(peer, table).compact(mode=mode)
    assert ordered(peer.rows(table, LINEAGE)) == before
    # Rows that are inserted next get unused ids.
    peer.run(f"INSERT INTO {table} VALUES (99, 'z')")
    ids = [row[1] for row in ordered(peer.rows(table, LINEAGE))]
    assert len(set(ids)) == len(ids) == 30


def test_files_of_different_partitions_and_specs_are_not_merged(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT, p STRING", 2, partitioned="p")
    for number in range(3):
        peer.run(f"INSERT INTO {table} VALUES ({number}, 'a'), ({number}, 'b/c'), ({number}, NULL)")
    peer.run(f"ALTER TABLE {table} ADD PARTITION FIELD bucket(2, id)")
    for number in range(3):
        peer.run(f"INSERT INTO {table} VALUES ({number}, 'a')")
    peer.equality_delete(table, ["id"], [[1]], partition=["a"], spec_id=0)
    before = assert_alike(peer, table)
    result = opened(peer, table).compact()
    assert assert_alike(peer, table) == before
    assert result.written == len({(f.spec_id, repr(f.partition)) for f in peer.files(table)})
    assert "equality_deletes" not in kinds(peer, table)


@pytest.mark.long
def test_a_filter_restricts_compaction_to_some_partitions(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT, p STRING", 2, partitioned="p")
    for number in range(3):
        peer.run(f"INSERT INTO {table} VALUES ({number}, 'a'), ({number}, 'b')")
    before = assert_alike(peer, table)
    assert opened(peer, table).compact(partitions={"p": "a"}).rewritten == 3
    assert sorted(file.partition["p"] for file in peer.files(table)) == ["a", "b", "b", "b"]
    assert opened(peer, table).compact(partitions="p = 'b'").rewritten == 3
    assert opened(peer, table).compact(partitions=[]).snapshot_id is None
    assert assert_alike(peer, table) == before


@pytest.mark.parametrize("strategy", ["order", "zorder"])
def test_a_full_compaction_sorts_on_request(peer: IcebergPeer, strategy: str) -> None:
    table = peer.new_table("a INT, b INT", 3, properties="'write.target-file-size-bytes'='4000'")
    for part in range(2):
        peer.append(table, [[number * 7919 % 2000, number * 104729 % 2000] for number in range(part, 4000, 2)])
    before = assert_alike(peer, table)
    found = opened(peer, table)
    found.compact(order_strategy=strategy, order_by="a" if strategy == "order" else "a,b")
    assert assert_alike(peer, table) == before
    assert found.explain().files > 2
    assert found.explain("a < 100").files < found.explain().files


def test_unsupported_requests_are_refused_with_a_reason(peer: IcebergPeer) -> None:
    table = peer.new_table("id INT", 2, properties="'write.format.default'='orc'")
    for _ in range(2):
        peer.run(f"INSERT INTO {table} VALUES (1)")
    found = opened(peer, table)
    with pytest.raises(NotSupportedError, match=r"write\.format\.default"):
        found.compact()
    with pytest.raises(InvalidInputError, match="The mode 'all' is not known"):
        found.compact(mode="all")
    with pytest.raises(InvalidInputError, match="no buckets"):
        found.compact(bucket=1)
    with pytest.raises(InvalidInputError, match="by a full compaction only"):
        found.compact(mode="minor", order_strategy="order", order_by="id")
    with pytest.raises(InvalidInputError, match="no column 'p'"):
        found.compact(partitions={"p": 1})
