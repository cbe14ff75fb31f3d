"""Options by SET: the tables that a setting applies to, and its effect on reads and writes."""

import re

import pytest

from interbed.spark_ext.handle.session_options import read_options, session_options, without_pins
from interbed.storage.base.errors import NotSupportedError
from tests.spark_ext.conftest import SparkLake


def _of_orders(settings: dict[str, str]) -> dict[str, str]:
    return session_options(settings, "lake", "shop", "orders")


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"spark.interbed.write-only": "true"}, {"write-only": "true"}),
        ({"spark.paimon.file.format": "orc"}, {"file.format": "orc"}),
        ({"spark.interbed.lake.shop.orders.write-only": "true"}, {"write-only": "true"}),
        ({"spark.paimon.*.*.orders.fields.a.b.c": "1"}, {"fields.a.b.c": "1"}),
        ({"spark.interbed.lake.shop.other.write-only": "true"}, {}),
        ({"spark.interbed.*.shop.other.write-only": "true"}, {}),
        ({"spark.interbed.pond.*.*.write-only": "true"}, {}),
        ({"spark.interbed.python": "python3", "spark.interbed.pythonEnv.A": "b"}, {}),
        ({"spark.sql.shuffle.partitions": "4"}, {}),
    ],
)
def test_a_setting_applies_to_all_tables_or_to_those_it_names(
    settings: dict[str, str], options: dict[str, str]
) -> None:
    assert _of_orders(settings) == options


def test_a_more_specific_setting_takes_precedence() -> None:
    settings = {
        "spark.interbed.target-file-size": "1 mb",
        "spark.paimon.target-file-size": "2 mb",
        "spark.interbed.*.*.orders.target-file-size": "3 mb",
        "spark.interbed.*.shop.orders.target-file-size": "4 mb",
        "spark.paimon.lake.shop.orders.target-file-size": "5 mb",
        "spark.interbed.lake.shop.orders.target-file-size": "6 mb",
    }
    found = []
    for name in list(settings)[::-1]:
        found.append(_of_orders(settings)["target-file-size"])
        del settings[name]
        settings = dict(sorted(settings.items()))

    assert found == ["6 mb", "5 mb", "4 mb", "3 mb", "1 mb", "1 mb"]


def test_the_snapshot_of_a_frame_takes_precedence_over_the_session() -> None:
    session = {"scan.tag-name": "a", "read.batch-size": "10"}

    assert read_options(session, {"scan.snapshot-id": "1"}) == {"read.batch-size": "10", "scan.snapshot-id": "1"}
    assert read_options(session, {"read.batch-size": "5"}) == {"scan.tag-name": "a", "read.batch-size": "5"}


@pytest.mark.parametrize(
    "option", ["snapshot-id", "as-of-timestamp", "startingVersion", "readChangeFeed", "hoodie.datasource.query.type"]
)
def test_an_option_by_which_another_format_chooses_rows_is_refused_by_name(option: str) -> None:
    for spelled in (option, option.upper()):
        with pytest.raises(NotSupportedError, match=f"'{re.escape(spelled)}' .* no effect"):
            read_options({}, {spelled: "1"})
    assert read_options({}, {"versionAsOf": "1", "of.my.own": "1"}) == {"versionAsOf": "1", "of.my.own": "1"}


def test_a_frame_by_path_is_of_no_version_that_spark_would_find_by_name(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (2)")
    path = str(lake.warehouse / "db.db" / "t")

    for option in ("versionAsOf", "timestampAsOf"):
        with pytest.raises(Exception, match=rf"'{option}' .* use 'scan\.(version|timestamp)'"):
            lake.spark.read.format("interbed").option(option, "1").load(path)
    assert lake.spark.read.format("interbed").option("scan.version", "1").load(path).count() == 1


def test_a_resolved_snapshot_removes_the_options_that_name_it() -> None:
    assert without_pins({"scan.snapshot-id": "1", "write-only": "true"}) == {"write-only": "true"}
    assert without_pins({"incremental-between": "1,2"}) == {"incremental-between": "1,2"}


@pytest.fixture
def orders(lake: SparkLake) -> SparkLake:
    """A catalog with the table `db.orders` of two snapshots and two schemas, and no settings left after the test."""
    lake.sql("CREATE TABLE {lake}.db.orders (id INT NOT NULL) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')")
    lake.sql("INSERT INTO {lake}.db.orders VALUES (1)")
    lake.sql("ALTER TABLE {lake}.db.orders ADD COLUMN note STRING")
    lake.sql("INSERT INTO {lake}.db.orders VALUES (2, 'b')")
    # A separate session, whose settings end with it.
    return SparkLake(lake.spark.newSession(), f"{lake.name}", lake.warehouse)


@pytest.fixture
def in_session(orders: SparkLake) -> SparkLake:
    """The same in a separate session, in which the catalog has to be created."""
    orders.sql(f"CREATE CATALOG {{lake}} WITH ('warehouse' = '{orders.warehouse}')")
    return orders


def test_settings_of_time_travel_apply_to_reads_only(in_session: SparkLake) -> None:
    lake = in_session
    lake.sql("SET spark.paimon.scan.snapshot-id=1")
    assert lake.tuples("SELECT * FROM {lake}.db.orders") == [(1,)]
    assert lake.tuples("SELECT count(*) FROM {lake}.db.orders VERSION AS OF 2") == [(2,)]
    lake.sql("INSERT INTO {lake}.db.orders VALUES (3, 'c')")
    assert lake.tuples("SELECT count(*) FROM {lake}.db.`orders$files`") == [(1,)]

    lake.sql("SET spark.interbed.*.db.orders.scan.snapshot-id=2")
    assert lake.tuples("SELECT * FROM {lake}.db.orders ORDER BY id") == [(1, None), (2, "b")]
    frame = lake.spark.read.option("scan.snapshot-id", "3").table(f"{lake.name}.db.orders")
    assert frame.count() == 3

    lake.sql("SET spark.interbed.scan.snapshot-id=77")
    lake.sql("RESET spark.interbed.*.db.orders.scan.snapshot-id")
    with pytest.raises(Exception, match="snapshot 77"):
        lake.sql("SELECT * FROM {lake}.db.orders")
    lake.sql("CREATE TABLE IF NOT EXISTS {lake}.db.orders (a INT)")
    lake.sql("RESET spark.interbed.scan.snapshot-id")
    lake.sql("RESET spark.paimon.scan.snapshot-id")
    assert lake.tuples("SELECT count(*) FROM {lake}.db.orders") == [(3,)]


def test_settings_are_options_of_writes_and_do_not_change_the_table(in_session: SparkLake) -> None:
    lake = in_session
    lake.sql("SET spark.interbed.file.format=orc")
    lake.sql("INSERT INTO {lake}.db.orders VALUES (3, 'c')")
    lake.sql("SET spark.interbed.*.*.orders.file.format=avro")
    lake.sql("INSERT INTO {lake}.db.orders VALUES (4, 'd')")

    assert lake.tuples("SELECT file_format, count(*) FROM {lake}.db.`orders$files` GROUP BY 1 ORDER BY 1") == [
        ("avro", 1),
        ("orc", 1),
        ("parquet", 2),
    ]
    assert "file.format" not in lake.tuples("SHOW CREATE TABLE {lake}.db.orders")[0][0]


def test_an_immutable_option_in_a_setting_is_refused_by_name(in_session: SparkLake) -> None:
    lake = in_session
    lake.sql("SET spark.interbed.merge-engine=first-row")

    with pytest.raises(Exception, match=r"'merge-engine'.*spark\.interbed\.merge-engine; RESET"):
        lake.sql("SELECT * FROM {lake}.db.orders")


def test_a_setting_selects_the_branch(in_session: SparkLake) -> None:
    from interbed import load_catalog

    lake = in_session
    load_catalog(warehouse=str(lake.warehouse)).get_table("db.orders").versions.create_branch("b")
    lake.sql("SET spark.interbed.branch=b")

    assert lake.tuples("SELECT count(*) FROM {lake}.db.orders") == [(0,)]
