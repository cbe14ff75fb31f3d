"""Compaction from Spark: tasks on executors, one COMPACT snapshot for a table, and no files of failed jobs."""

import re
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import interbed
from interbed.storage.table.table import Table
from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page


def opened(lake: SparkLake, name: str = "t") -> Table:
    return interbed.load_catalog("lake", warehouse=f"file:{lake.warehouse}").get_table(f"db.{name}")


def create(
    lake: SparkLake, name: str = "t", *, columns: str = "id INT, v INT", part: str = "", **options: str
) -> Table:
    given = ", ".join(
        f"'{k.replace('__', '.').replace('_', '-')}' = '{v}'" for k, v in {"bucket": "-1", **options}.items()
    )
    partitioned = f"PARTITIONED BY ({part})" if part else ""
    lake.sql(f"CREATE TABLE {{lake}}.db.{name} ({columns}) {partitioned} TBLPROPERTIES ({given})")
    return opened(lake, name)


def marks(lake: SparkLake) -> list[str]:
    return [str(file) for file in lake.warehouse.rglob(".write-*")]


def rows_of(table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def keyed(lake: SparkLake, name: str = "t", **options: str) -> Table:
    """Create a table of two partitions with two buckets each, and three sorted runs in each bucket."""
    columns = "id INT NOT NULL, dt STRING NOT NULL, v INT"
    given = {"primary_key": "id,dt", "bucket": "2", "write_only": "true", **options}
    table = create(lake, name, columns=columns, part="dt", **given)
    for value in range(3):
        ids = [i for i in range(20) for _ in "ab"]
        table.upsert(
            pa.table({"id": pa.array(ids, pa.int32()), "dt": ["a", "b"] * 20, "v": pa.array([value] * 40, pa.int32())})
        )
    return table


def kinds(table: Table) -> list[str]:
    return [str(s.commit_kind.value) for s in table.snapshots()]


def test_every_bucket_becomes_one_run_in_one_snapshot(lake: SparkLake) -> None:
    table = keyed(lake)
    before = rows_of(table)
    assert lake.tuples("CALL {lake}.sys.compact('db.t', where => \"dt > 'a'\")") == [(True,)]
    assert {(s.partition, s.level) for s in table.levels().levels} == {("dt=a", 0), ("dt=b", 5)}
    lake.sql("CALL {lake}.sys.compact(table => 'db.t', buckets => '1', partitions => 'dt=a;dt=b')")
    lake.sql("CALL {lake}.sys.compact(table => 'db.t', compact_strategy => 'minor')")
    lake.sql("CALL {lake}.sys.compact(table => 'db.t', partition_idle_time => '1 d')")
    assert kinds(table) == ["APPEND"] * 3 + ["COMPACT"] * 2
    lake.sql("CALL {lake}.sys.compact('db.t')")
    assert (rows_of(table), len(lake.files("db.t")), marks(lake)) == (before, 12 + 4, [])
    lake.sql("CALL {lake}.sys.compact('db.t')")
    assert len(kinds(table)) == 6


def test_compaction_produces_lookup_changelogs_and_deletion_vectors(lake: SparkLake) -> None:
    table = keyed(lake, changelog_producer="lookup", deletion_vectors__enabled="true")
    assert table.scan().to_arrow().num_rows == 0
    lake.sql("CALL {lake}.sys.compact('db.t', options => 'num-levels=4')")
    assert {row[2] for row in rows_of(table)} == {2}
    assert table.changes().to_arrow().column("_row_kind").to_pylist() == [0] * 40
    assert marks(lake) == []


def test_postponed_rows_are_moved_to_their_buckets(lake: SparkLake) -> None:
    table = create(lake, columns="id INT NOT NULL, v INT", primary_key="id", bucket="-2")
    table = table.copy({"postpone.batch-write-fixed-bucket": "false"})
    for value in range(2):
        table.upsert(pa.table({"id": pa.array(range(30), pa.int32()), "v": pa.array([value] * 30, pa.int32())}))
    assert rows_of(table) == []
    lake.sql("CALL {lake}.sys.compact('db.t', options => 'postpone.default-bucket-num=2')")
    assert rows_of(table) == [(i, 1) for i in range(30)]
    assert {s.bucket for s in table.levels().levels} == {0, 1}


@pytest.mark.parametrize("parallelism", ["1", "3"])
def test_a_sort_keeps_the_rows_and_clusters_them_by_the_columns(lake: SparkLake, parallelism: str) -> None:
    table = create(lake)
    for start in range(3):
        ids = range(start, 3000, 3)
        table.append(pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array([-i for i in ids], pa.int32())}))
    before = rows_of(table)
    call = "CALL {lake}.sys.compact('db.t', order_strategy => 'order', order_by => 'id', options => "
    lake.sql(f"{call}'sink.parallelism={parallelism}')")
    assert rows_of(table) == before
    splits = table.new_scan().plan().splits
    found = [[row["id"] for b in table.new_read().to_batches(s) for row in b.to_pylist()] for s in splits]
    assert all(ids == sorted(ids) for ids in found) or parallelism != "1"
    files = [f for s in splits for f in s.files]
    assert len(files) == int(parallelism)
    assert kinds(table)[-1] == "COMPACT"
    lake.sql("CALL {lake}.sys.compact('db.t', order_strategy => 'hilbert', order_by => 'id,v')")
    assert (rows_of(table), marks(lake)) == (before, [])


def test_a_failed_job_leaves_the_table_unchanged(lake: SparkLake) -> None:
    table = keyed(lake)
    files = lake.files("db.t")
    damaged = lake.warehouse / "db.db" / "t" / files[-1]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:100])
    create(lake, "other").append(pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32())}))
    with pytest.raises(Exception, match=damaged.name) as failed:
        lake.sql("CALL {lake}.sys.compact('db.t')")
    assert "Traceback" not in str(failed.value)
    assert (lake.files("db.t"), marks(lake), kinds(table)) == (files, [], ["APPEND"] * 3)
    ((result_text,),) = lake.tuples(
        "CALL {lake}.sys.compact_database(including_databases => 'd.', excluding_tables => 'db.x.*')"
    )
    assert result_text.startswith("Compact database finished. Success: 1, Failed: 1; db.t: ")
    assert (lake.files("db.t"), marks(lake)) == (files, [])
    damaged.write_bytes(content)
    ((result_text,),) = lake.tuples("CALL {lake}.sys.compact_database(including_tables => 'db.t')")
    assert result_text == "Compact database finished. Success: 1, Failed: 0"


@pytest.mark.long
def test_concurrent_writers_lose_nothing_to_compactions(lake: SparkLake) -> None:
    table = create(lake, columns="id INT NOT NULL, v INT", primary_key="id", bucket="1")

    def write(value: int) -> None:
        opened(lake).upsert(pa.table({"id": pa.array([value], pa.int32()), "v": pa.array([value], pa.int32())}))

    def write_all(numbers: range) -> None:
        for value in numbers:
            write(value)

    with ThreadPoolExecutor(1) as pool:
        write(0)
        writing = pool.submit(write_all, range(1, 15))
        while not writing.done():
            try:
                lake.sql("CALL {lake}.sys.compact('db.t')")
            except Exception as error:  # noqa: BLE001 - Spark's; a writer's own compaction may have been faster.
                assert "Read the table again and redo the work" in str(error)  # noqa: PT017
        writing.result()
    assert rows_of(table) == [(i, i) for i in range(15)]


def test_buckets_are_rescaled(lake: SparkLake) -> None:
    table = keyed(lake)
    before = rows_of(table)
    assert lake.tuples("CALL {lake}.sys.rescale('db.t', 3, where => \"dt = 'a'\")") == [(True,)]
    lake.sql("CALL {lake}.sys.rescale(table => 'db.t', bucket_num => 4, partitions => 'dt=b')")
    totals = {(row["partition"], row["total_buckets"]) for row in table_buckets(table)}
    assert (rows_of(table), totals) == (before, {("dt=a", 3), ("dt=b", 4)})


def table_buckets(table: Table) -> list[dict[str, object]]:
    entries = table.new_scan().entries()
    paths = table.store.paths
    return [{"partition": paths.partition_directory(e.partition), "total_buckets": e.total_buckets} for e in entries]


def test_blanks_at_the_end_of_a_char_partition_do_not_count(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.c (id INT, c CHAR(3)) PARTITIONED BY (c) TBLPROPERTIES ("
        "'primary-key' = 'id,c', 'bucket' = '1', 'write-only' = 'true')"
    )
    table = opened(lake, "c")
    for number in range(2):
        lake.sql(f"INSERT INTO {{lake}}.db.c VALUES ({number}, 'a'), ({number}, 'b')")
        # Other writers than Spark do not pad.
        table.upsert([{"id": number, "c": "a"}])

    def runs() -> dict[str, int]:
        found = lake.tuples("SELECT partition, count(*) FROM {lake}.db.`c$files` GROUP BY partition")
        return {str(partition).strip("{}[]"): count for partition, count in found}

    assert set(runs().values()) == {2}
    lake.sql("CALL {lake}.sys.compact('db.c', partitions => 'c=a')")
    assert sorted(runs().values()) == [1, 1, 2]
    lake.sql("CALL {lake}.sys.mark_partition_done('db.c', partitions => 'c=b;c=new')")
    done = {str(path.parent.name) for path in (lake.warehouse / "db.db" / "c").rglob("_SUCCESS")}
    assert done == {"c=b  ", "c=new"}


def test_the_page_about_compaction_runs_as_written(lake: SparkLake) -> None:
    lake.sql("USE {lake}")
    assert Page("spark-compaction.md").run_sql(lambda sql: lake.spark.sql(sql).collect()) > 20


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("'db.t', compact_strategy => 'some'", "is 'full' or 'minor', not 'some'"),
        ("'db.t', partitions => 'dt=a', where => 'dt > 1'", "does not go with 'partitions'"),
        ("'db.t', order_by => 'v'", "goes with an order_strategy"),
        ("'db.t', order_strategy => 'order', order_by => 'v'", "takes append tables with 'bucket' = '-1'"),
        ("'db.t', buckets => 'x'", "lists numbers and ranges"),
        ("'db.t', buckets => '7'", "has no bucket 7"),
    ],
)
def test_incompatible_arguments_are_refused(lake: SparkLake, arguments: str, reason: str) -> None:
    keyed(lake)
    with pytest.raises(Exception, match=re.escape(reason)):
        lake.sql(f"CALL {{lake}}.sys.compact({arguments})")
    assert marks(lake) == []
