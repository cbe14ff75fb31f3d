"""Concurrent statements of several sessions on one table are serializable.

Three sessions run two statements each, in `make test-long` four sessions ten.
"""

import threading

import pytest

from interbed import load_catalog
from tests.spark_ext.conftest import SparkLake
from tests.support.list_append import AppendTransaction, History, serial_order
from tests.support.shares import LONG, each_run
from tests.support.waits import at_most

SESSIONS = 4 if LONG else 3
STATEMENTS = 10 if LONG else 2
DEADLINE_SECONDS = at_most(600)


@pytest.mark.longer
@pytest.mark.parametrize(
    "options",
    each_run(
        [
            "'primary-key' = 'id', 'bucket' = '1'",
            "'deletion-vectors.enabled' = 'false'",
            "'row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true'",
        ],
        lambda options: "primary-key" in options,
    ),
)
def test_merges_of_several_sessions_have_a_serial_order(lake: SparkLake, options: str) -> None:
    lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, v STRING) TBLPROPERTIES ({options}, 'commit.max-retries' = '100')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, ''), (2, '')")
    done: list[AppendTransaction] = []

    def work(number: int) -> None:
        session = lake.spark.newSession()
        session.sql(f"CREATE CATALOG mine WITH ('type' = 'interbed', 'warehouse' = '{lake.warehouse}')")
        for count in range(STATEMENTS):
            value = number * 1000 + count
            keys = (1, 2) if count % 2 == 0 else (1 + number % 2,)
            source = " UNION ALL ".join(f"SELECT {key} AS id" for key in keys)
            session.sql(
                f"MERGE INTO mine.db.t t USING ({source}) s ON t.id = s.id "
                f"WHEN MATCHED THEN UPDATE SET v = concat(t.v, ' {value}')"
            )
            done.append(AppendTransaction(str(value), dict.fromkeys(keys, value)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECONDS)

    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")
    reads = []
    for snapshot in table.snapshots():
        rows = table.scan(snapshot_id=snapshot.id).to_arrow().to_pylist()
        reads.append({row["id"]: [int(v) for v in row["v"].split()] for row in rows})
    assert len(done) == SESSIONS * STATEMENTS
    assert len(serial_order(History(done, reads))) == len(done)


def test_a_statement_returns_no_rows_and_accepts_parameters(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 1)")

    assert lake.frame("UPDATE {lake}.db.t SET v = 2").columns == []
    assert lake.spark.sql(f"UPDATE {lake.name}.db.t SET v = v + :v", args={"v": 5}).columns == []
    lake.sql("WITH c AS (SELECT 7 AS v) UPDATE {lake}.db.t SET v = 8 WHERE v IN (SELECT v FROM c)")
    assert lake.tuples("SELECT v FROM {lake}.db.t") == [(8,)]
