"""CREATE, DESCRIBE, ALTER, RENAME and DROP TABLE."""

import pytest
from pyspark.errors import AnalysisException

from interbed import load_catalog
from interbed.storage.base.types.data_type import type_to_json
from tests.spark_ext.conftest import SparkLake


def _columns(lake: SparkLake, table: str) -> list[tuple[str, str]]:
    rows = lake.tuples(f"DESCRIBE {{lake}}.{table}")
    names = [row[0] for row in rows]
    end = names.index("# Partitioning") if "# Partitioning" in names else len(rows)
    end = min(end, names.index("# Partition Information") if "# Partition Information" in names else end)
    return [(row[0], row[1]) for row in rows[:end] if row[0]]


def test_python_sees_a_primary_key_table_of_spark(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.orders (id BIGINT COMMENT 'number', dt STRING, amount DECIMAL(10, 2)) "
        "COMMENT 'all orders' PARTITIONED BY (dt) "
        "TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '4', 'num-levels' = '3')"
    )

    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.orders")

    assert [(f.name, type_to_json(f.type), f.description) for f in table.schema.fields] == [
        ("id", "BIGINT NOT NULL", "number"),
        ("dt", "STRING NOT NULL", None),
        ("amount", "DECIMAL(10, 2)", None),
    ]
    assert table.schema.primary_keys == ("dt", "id")
    assert table.schema.partition_keys == ("dt",)
    assert table.schema.options == {"bucket": "4", "num-levels": "3"}
    assert table.schema.comment == "all orders"


def test_describe_and_show_list_all_properties_of_a_table(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (id INT NOT NULL, name STRING COMMENT 'of it', p STRING) USING interbed "
        "COMMENT 'words' PARTITIONED BY (p) TBLPROPERTIES ('file.compression' = 'zstd')"
    )

    described = {row[0]: row[1] for row in lake.tuples("DESCRIBE EXTENDED {lake}.db.t")}
    assert described["id"] == "int"
    assert described["Comment"] == "words"
    assert described["Provider"] == "interbed"
    assert described["Location"] == f"{lake.warehouse}/db.db/t"
    assert ("file.compression", "zstd") in lake.tuples("SHOW TBLPROPERTIES {lake}.db.t")
    created = lake.tuples("SHOW CREATE TABLE {lake}.db.t")[0][0]
    assert "id INT NOT NULL" in created
    assert "PARTITIONED BY (p)" in created


def test_every_type_survives_a_round_trip_through_spark(lake: SparkLake) -> None:
    columns = [
        ("a", "boolean"),
        ("b", "tinyint"),
        ("c", "smallint"),
        ("d", "int"),
        ("e", "bigint"),
        ("f", "float"),
        ("g", "double"),
        ("h", "decimal(38,10)"),
        ("i", "string"),
        ("j", "char(3)"),
        ("k", "varchar(5)"),
        ("l", "binary"),
        ("m", "date"),
        ("n", "timestamp"),
        ("o", "timestamp_ntz"),
        ("p", "array<int>"),
        ("q", "map<string,array<double>>"),
        ("r", "struct<x:int,y:struct<z:string>>"),
    ]

    lake.sql(f"CREATE TABLE {{lake}}.db.types ({', '.join(f'{name} {kind}' for name, kind in columns)})")

    assert _columns(lake, "db.types") == columns


def test_buckets_may_be_given_as_a_clause(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, v INT) CLUSTERED BY (id) INTO 3 BUCKETS")

    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")

    assert table.schema.options == {"bucket": "3", "bucket-key": "id"}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("(id INT, ts TIMESTAMP) PARTITIONED BY (days(ts))", r"by columns, not by days\(ts\)"),
        ("(id INT) USING csv", "can't be created in a file-system catalog"),
        ("(id INT) USING xml", "not of 'xml'"),
        ("(id INT) TBLPROPERTIES ('primary-key' = 'nr')", "'nr'"),
        ("(id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = 'x')", "'bucket' takes an integer"),
        ("(id INT) TBLPROPERTIES ('merge-engine' = 'magic', 'primary-key' = 'id')", "merge-engine"),
        ("(id INT, y INTERVAL YEAR)", "'y' has the Spark type 'interval year'"),
        ("(id INT, v VARIANT)", "'v' has the Spark type 'variant'"),
        ("(_VALUE_KIND INT)", "reserved"),
        ("(id INT, name STRING COLLATE UNICODE_CI)", "collation"),
    ],
)
def test_an_invalid_table_is_refused_and_not_created(lake: SparkLake, statement: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        lake.sql(f"CREATE TABLE {{lake}}.db.t {statement}")

    assert lake.tuples("SHOW TABLES IN {lake}.db") == []


def test_an_existing_table_is_not_created_again(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")

    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        lake.sql("CREATE TABLE {lake}.db.t (other INT)")
    lake.sql("CREATE TABLE IF NOT EXISTS {lake}.db.t (other INT)")
    assert _columns(lake, "db.t") == [("id", "int")]


def test_a_table_in_no_namespace_is_refused(lake: SparkLake) -> None:
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        lake.sql("CREATE TABLE {lake}.none.t (id INT)")


def test_a_missing_table_is_named(lake: SparkLake) -> None:
    for statement in ("SELECT * FROM {lake}.db.none", "DROP TABLE {lake}.db.none", "DESCRIBE {lake}.db.none"):
        with pytest.raises(AnalysisException, match=r"TABLE_OR_VIEW_NOT_FOUND.*none"):
            lake.sql(statement)
    lake.sql("DROP TABLE IF EXISTS {lake}.db.none")


@pytest.mark.parametrize("target", ["renamed", "db.renamed", "{lake}.db.renamed"])
def test_a_table_is_renamed_by_any_spelling_of_its_new_name(lake: SparkLake, target: str) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")

    lake.sql(f"ALTER TABLE {{lake}}.db.t RENAME TO {target}")

    assert lake.tuples("SHOW TABLES IN {lake}.db") == [("db", "renamed", False)]
    assert lake.tuples("SELECT * FROM {lake}.db.renamed") == [(1,)]


def test_a_table_is_not_renamed_to_an_existing_one(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.a (id INT)")
    lake.sql("CREATE TABLE {lake}.db.b (id INT)")

    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        lake.sql("ALTER TABLE {lake}.db.a RENAME TO db.b")


def test_properties_are_set_and_unset(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")

    lake.sql("ALTER TABLE {lake}.db.t SET TBLPROPERTIES ('snapshot.num-retained.min' = '3', 'comment' = 'said')")
    assert ("snapshot.num-retained.min", "3") in lake.tuples("SHOW TBLPROPERTIES {lake}.db.t")
    table = load_catalog(warehouse=str(lake.warehouse)).get_table("db.t")
    assert table.schema.comment == "said"

    lake.sql("ALTER TABLE {lake}.db.t UNSET TBLPROPERTIES ('snapshot.num-retained.min')")
    assert "snapshot.num-retained.min" not in dict(lake.tuples("SHOW TBLPROPERTIES {lake}.db.t"))


def test_properties_that_files_depend_on_are_immutable(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")

    for change in ("'merge-engine' = 'first-row'", "'bucket' = '-1'", "'location' = '/elsewhere'"):
        with pytest.raises(Exception, match=r"can't be changed|location"):
            lake.sql(f"ALTER TABLE {{lake}}.db.t SET TBLPROPERTIES ({change})")


def test_columns_are_altered_and_old_files_are_read_in_the_new_schema(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT, name STRING, gone INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1, 'one', 9)")

    lake.sql("ALTER TABLE {lake}.db.t ADD COLUMN note STRING COMMENT 'new' AFTER id")
    lake.sql("ALTER TABLE {lake}.db.t RENAME COLUMN name TO label")
    lake.sql("ALTER TABLE {lake}.db.t ALTER COLUMN id TYPE BIGINT")
    lake.sql("ALTER TABLE {lake}.db.t DROP COLUMN gone")
    lake.sql("INSERT INTO {lake}.db.t VALUES (5000000000, 'n', 'five')")

    assert _columns(lake, "db.t") == [("id", "bigint"), ("note", "string"), ("label", "string")]
    assert lake.tuples("SELECT * FROM {lake}.db.t ORDER BY id") == [(1, None, "one"), (5000000000, "n", "five")]


def test_a_dropped_table_is_deleted_with_its_files(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")

    lake.sql("DROP TABLE {lake}.db.t")

    assert lake.tuples("SHOW TABLES IN {lake}.db") == []
    assert not (lake.warehouse / "db.db" / "t").exists()


def test_a_table_is_created_like_another(lake: SparkLake) -> None:
    lake.sql(
        "CREATE TABLE {lake}.db.t (dt STRING, id INT, v DECIMAL(5,2) COMMENT 'how much') PARTITIONED BY (dt) "
        "COMMENT 'all of it' TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '2')"
    )
    lake.sql("INSERT INTO {lake}.db.t VALUES ('a', 1, 1.5)")
    lake.sql("CREATE TABLE {lake}.db.u LIKE {lake}.db.t TBLPROPERTIES ('bucket' = '3')")
    assert lake.sql("SELECT * FROM {lake}.db.u") == []
    made = {row[0]: row[1] for row in lake.tuples("SHOW TBLPROPERTIES {lake}.db.u")}
    assert (made["primary-key"], made["bucket"]) == ("dt,id", "3")
    assert ("Comment", "all of it", "") in lake.tuples("DESCRIBE EXTENDED {lake}.db.u")
    assert lake.tuples("DESCRIBE {lake}.db.u") == lake.tuples("DESCRIBE {lake}.db.t")
    lake.sql("INSERT INTO {lake}.db.u SELECT * FROM {lake}.db.t")
    lake.sql("CREATE TABLE IF NOT EXISTS {lake}.db.u LIKE {lake}.db.t")
    assert len(lake.sql("SELECT * FROM {lake}.db.u")) == 1
    with pytest.raises(Exception, match=r"a table .db.u. in the catalog .* already"):
        lake.sql("CREATE TABLE {lake}.db.u LIKE {lake}.db.t")
    with pytest.raises(Exception, match=r"names no table of the catalog"):
        lake.sql("CREATE TABLE {lake}.db.w LIKE {lake}.db.absent")


def test_a_table_like_a_branch_has_no_branch(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    lake.sql("INSERT INTO {lake}.db.t VALUES (1)")
    lake.sql("CALL {lake}.sys.create_tag('db.t', 'now')")
    lake.sql("CALL {lake}.sys.create_branch('db.t', 'b', 'now')")
    lake.sql("CREATE TABLE {lake}.db.u LIKE {lake}.db.`t$branch_b`")
    assert "branch" not in {row[0] for row in lake.tuples("SHOW TBLPROPERTIES {lake}.db.u")}


def test_stored_as_chooses_the_format_of_the_files(lake: SparkLake) -> None:
    for written in ("ORC", "parquet", "AVRO"):
        lake.sql(f"CREATE TABLE {{lake}}.db.{written} (id INT) STORED AS {written}")
        properties = dict(lake.tuples(f"SHOW TBLPROPERTIES {{lake}}.db.{written}"))
        assert properties["file.format"] == written.lower()
        assert "hive.stored-as" not in properties


@pytest.mark.parametrize(
    "clause",
    [
        "STORED AS TEXTFILE",
        "STORED AS INPUTFORMAT 'a.b.In' OUTPUTFORMAT 'a.b.Out'",
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'",
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE",
        "ROW FORMAT SERDE 'a.b.SerDe'",
    ],
)
def test_a_description_of_files_of_hive_is_refused(lake: SparkLake, clause: str) -> None:
    with pytest.raises(Exception, match=r"(STORED AS TEXTFILE|ROW FORMAT and).*'type' = 'format-table'"):
        lake.sql(f"CREATE TABLE {{lake}}.db.t (id INT, s STRING) {clause}")
    assert lake.tuples("SHOW TABLES IN {lake}.db") == []


def test_a_default_collation_is_refused(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT) DEFAULT COLLATION UTF8_BINARY")
    for statement in (
        "CREATE TABLE {lake}.db.u (id INT) DEFAULT COLLATION UTF8_LCASE",
        "CREATE OR REPLACE TABLE {lake}.db.t (id INT) DEFAULT COLLATION UNICODE_CI",
        "ALTER TABLE {lake}.db.t DEFAULT COLLATION UTF8_LCASE",
    ):
        with pytest.raises(Exception, match=r"DEFAULT COLLATION .* is not supported: tables compare strings"):
            lake.sql(statement)
    lake.sql("ALTER TABLE {lake}.db.t DEFAULT COLLATION UTF8_BINARY")
    lake.sql("ALTER TABLE {lake}.db.t ADD COLUMN s STRING")
    assert "COLLATION" not in lake.tuples("SHOW CREATE TABLE {lake}.db.t")[0][0]
