"""Secrets in a catalog's options appear nowhere in Spark: not in statements, errors, pages, or its two logs."""

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interbed.spark_ext import spark_settings
from interbed.spark_ext.session import REDACTION, SECRET_TEXTS, SECRETS, TEXT_REDACTION
from tests.spark_ext.conftest import SparkLake
from tests.support.peers.process import PeerError
from tests.support.peers.spark import SparkPeer
from tests.support.waits import at_most

REQUEST_SECONDS_MAX = at_most(30.0)
IN_SETTINGS = {
    "s3.access-key": "AKIDofsettings",
    "s3.secret-key": "hush-of-settings",
    "fs.azure.account.key.a.dfs.core.windows.net": "hush-azure",
    "fs.azure.sas.c.b.blob.core.windows.net": "hush-sas",
}
IN_STATEMENTS = {
    "s3.access-key": "AKIDofstatements",
    "s3.secret-key": "hush-of-statements",
    "s3.session-token": "hush-token",
}
OF_A_TABLE = {"s3.secret-key": "hush-of-a-table", "fs.s3a.access.key": "AKIDofatable"}
HIDDEN = re.compile("hush|AKID")


def listed(options: Mapping[str, str], equals: str = " = ") -> str:
    return ", ".join(f"'{key}'{equals}'{value}'" for key, value in options.items())


def test_the_jar_and_python_have_one_pattern(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    assert jvm.interbed.spark.catalog.Redaction.SECRETS == SECRETS
    assert spark.conf.get(REDACTION) == SECRETS
    assert jvm.interbed.spark.catalog.Redaction.SECRET_TEXTS == SECRET_TEXTS
    assert spark.conf.get(TEXT_REDACTION) == SECRET_TEXTS


@pytest.fixture
def secret_lake(spark: SparkSession, tmp_path: Path) -> Iterator[SparkLake]:
    lake = SparkLake(spark, "secretive", tmp_path / "lake")
    given = listed({"type": "interbed", "warehouse": str(lake.warehouse), **IN_STATEMENTS})
    spark.sql(f"CREATE CATALOG secretive WITH ({given})")
    yield lake
    spark.sql("DROP CATALOG secretive")


def test_a_catalog_keeps_its_secrets_out_of_the_sessions_settings(secret_lake: SparkLake) -> None:
    assert not HIDDEN.search(str(secret_lake.spark.conf.getAll))
    # The catalog has them nevertheless, also in a stream, which uses a copy of the session's settings.
    secret_lake.sql("CREATE DATABASE {lake}.db")
    secret_lake.sql("CREATE TABLE {lake}.db.t AS SELECT 1 AS id")
    source = secret_lake.spark.readStream.table(f"{secret_lake.name}.db.t")
    checkpoint = secret_lake.warehouse.parent / "checkpoint"
    writer = source.writeStream.option("checkpointLocation", f"file:{checkpoint}").trigger(availableNow=True)
    writer.toTable(f"{secret_lake.name}.db.u").awaitTermination()
    assert secret_lake.tuples("SELECT * FROM {lake}.db.u") == [(1,)]


def test_tables_refuse_secrets_and_show_none(lake: SparkLake) -> None:
    lake.sql("CREATE TABLE {lake}.db.t (id INT)")
    for statement in (
        f"CREATE TABLE {{lake}}.db.u (id INT) TBLPROPERTIES ({listed(OF_A_TABLE)})",
        f"ALTER TABLE {{lake}}.db.t SET TBLPROPERTIES ({listed(OF_A_TABLE)})",
    ):
        with pytest.raises(Exception, match="is secret and would be in the open") as refused:
            lake.sql(statement)
        assert not HIDDEN.search(str(refused.value))
    # Another program may have set them.
    (file,) = (lake.warehouse / "db.db" / "t" / "schema").glob("schema-*")
    schema = json.loads(file.read_text())
    file.write_text(json.dumps({**schema, "options": {**schema["options"], **OF_A_TABLE}}))
    shown = [
        lake.sql(statement)
        for statement in (
            "SHOW TBLPROPERTIES {lake}.db.t",
            "DESCRIBE EXTENDED {lake}.db.t",
            "SHOW CREATE TABLE {lake}.db.t",
            "SELECT * FROM {lake}.db.`t$options`",
            "SELECT * FROM {lake}.db.`t$schemas`",
            "EXPLAIN EXTENDED SELECT * FROM {lake}.db.t",
        )
    ]
    assert "s3.secret-key" in str(shown[0])
    assert not HIDDEN.search(str(shown))


@pytest.mark.long
def test_nothing_that_a_session_shows_contains_a_secret(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    catalogs = {
        "spark.sql.catalog.one": "interbed.spark.SparkCatalog",
        "spark.sql.catalog.one.warehouse": f"{tmp_path}/one",
    }
    settings = {
        **spark_settings(),
        **catalogs,
        **{f"spark.sql.catalog.one.{key}": value for key, value in IN_SETTINGS.items()},
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{events}",
    }
    shown: dict[str, str] = {}
    with SparkPeer(settings) as spark:

        def show(statement: str) -> str:
            try:
                shown[statement] = str(spark.run(statement))
            except PeerError as refused:
                shown[statement] = str(refused)
            return shown[statement]

        two = listed({"type": "interbed", "warehouse": f"{tmp_path}/two", **IN_STATEMENTS})
        in_a_store = two.replace(str(tmp_path), "s3://lake")
        assert show(f"CREATE CATALOG two WITH ({two})") == "[]"
        for refused in (
            f"CREATE CATALOG two WITH ({two})",
            f"CREATE CATALOG three WITH ({two}, )",
            f"CREATE CATALOG three WITHH ({two})",
            f"CREATE CATALOG three WITH ({two.replace('interbed', 'unknown')})",
            f"CREATE CATALOG three WITH ({in_a_store}, 's3.unknown' = 'x')",
            f"CREATE CATALOG three WITH ({in_a_store}, 's3.endpoint' = 'http://127.0.0.1:1234567')",
        ):
            assert show(refused) != "[]"
        for catalog in ("one", "two"):
            show(f"CREATE DATABASE {catalog}.db")
            show(f"CREATE TABLE {catalog}.db.t (id INT, v STRING)")
            show(f"INSERT INTO {catalog}.db.t VALUES (1, 'a')")
            assert show(f"SELECT * FROM {catalog}.db.t") == "[['1', 'a']]"
            assert "failed" not in show(f"CALL {catalog}.sys.compact(table => 'db.t')")
            for statement in (
                "SHOW TBLPROPERTIES {}",
                "DESCRIBE EXTENDED {}",
                "SHOW CREATE TABLE {}",
                "EXPLAIN EXTENDED SELECT * FROM {}",
                "EXPLAIN FORMATTED INSERT INTO {} VALUES (1, 'b')",
                "SELECT * FROM {} WITH ('s3.unknown' = 'x')",
            ):
                show(statement.format(f"{catalog}.db.t"))
            show(f"DESCRIBE DATABASE EXTENDED {catalog}.db")
            show(f"SELECT * FROM {catalog}.sys.catalog_options")
            show(f"SELECT * FROM {catalog}.sys.all_table_options")
        by_path = listed({"path": f"{tmp_path}/two/db.db/t", **IN_STATEMENTS}, " ")
        show(f"CREATE TEMPORARY VIEW by_path USING interbed OPTIONS ({by_path})")
        assert show("SELECT * FROM by_path") == "[['1', 'a']]"
        show("EXPLAIN EXTENDED SELECT * FROM by_path")
        show("SELECT * FROM by_path WHERE nowhere = 1")
        assert "spark.sql.catalog.one.s3.secret-key" in show("SET")
        show("SET -v")
        show("SHOW CATALOGS")

        address, application = spark.web()
        assert "127.0.0.1" in address
        of_application = f"/api/v1/applications/{application}"
        for page in (
            f"{of_application}/environment",
            f"{of_application}/sql?details=true&planDescription=true&length=1000",
            f"{of_application}/jobs",
            f"{of_application}/stages?details=true",
            "/environment/",
            "/SQL/",
            "/jobs/",
            *(f"/SQL/execution/?id={number}" for number in range(0, 40, 3)),
        ):
            with urllib.request.urlopen(address + page, timeout=REQUEST_SECONDS_MAX) as answer:
                shown[page] = answer.read().decode()
        assert "spark.sql.catalog.one.s3.secret-key" in shown["/environment/"]
        shown["the log"] = spark.log()
    shown["the event log"] = "\n".join(file.read_text() for file in events.rglob("*") if file.is_file())
    assert "spark.sql.catalog.two" in shown["the event log"]

    # Only the results count, not the statements.
    assert [name for name, text in shown.items() if HIDDEN.search(text)] == []
