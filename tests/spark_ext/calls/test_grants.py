"""GRANT, REVOKE, SHOW GRANTS and the statements about roles, on a server that decides by grants."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.catalog.server.migration.commands import run
from tests.spark_ext.conftest import SparkLake
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import wait_until

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class GrantedServer:
    """A server with the database `sales`, and catalogs of its users in Spark."""

    spark: SparkSession
    server: MetastoreUnderTest
    tokens: dict[str, str]

    def lake(self, user: str, kind: str) -> SparkLake:
        """Create a catalog of a user in Spark."""
        options = {"type": "paimon", "metastore": kind, "token": self.tokens[user]}
        if kind == "hive":
            options["uri"] = self.server.uri
            options["hive.metastore.client.auth.mode"] = "PLAIN"
            options["hive.metastore.client.plain.username"] = user
        else:
            options |= {"uri": f"{self.server.http}/paimon", "warehouse": "hive", "token.provider": "bear"}
        lake = SparkLake(self.spark, f"granted{next(_NUMBERS)}", self.server.warehouse)
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
        lake.sql(f"CREATE CATALOG {{lake}} WITH ({listed})")
        return lake


@pytest.fixture(scope="module")
def granted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GrantedServer]:
    """Run a server that decides by grants, with the table `sales.orders` of the administrator `root`."""
    directory: Path = tmp_path_factory.mktemp("granted")
    db = f"sqlite:///{directory / 'metastore.db'}"
    arguments = ("--http-port", "0", "--authentication", "token")
    builtin = ("--access-authorizer", "builtin", "--access-admins", "root")
    with metastore_under_test(db, directory, *arguments, *builtin) as server:
        tokens = {name: run("token", "create", name, "--db", db).strip() for name in ("root", "ann")}
        made = GrantedServer(spark, server, tokens)
        lake = made.lake("root", "rest")
        lake.sql("CREATE DATABASE {lake}.sales")
        lake.sql("CREATE TABLE {lake}.sales.orders (id INT)")
        yield made
        spark.sql("USE spark_catalog")


@pytest.mark.parametrize("kind", ["rest", "hive"])
def test_roles_and_grants_by_sql(granted: GrantedServer, kind: str) -> None:
    root, ann = granted.lake("root", kind), granted.lake("ann", "rest")
    root.sql("CREATE ROLE readers IN {lake}")
    root.sql("USE {lake}.sales")
    root.sql("create role `other` ;")
    assert root.tuples("SHOW ROLES") == [("admin",), ("other",), ("public",), ("readers",)]
    root.sql("GRANT readers, other TO USER ann")
    root.sql("REVOKE other FROM ann")
    assert ann.tuples("SHOW CURRENT ROLES IN {lake}") == [("public",), ("readers",)]
    assert root.tuples("SHOW PRINCIPALS readers") == [("user", "ann", False, "root")]
    root.sql("GRANT SELECT, INSERT ON {lake}.sales.orders TO ROLE readers WITH GRANT OPTION")
    root.sql("GRANT ALL PRIVILEGES ON DATABASE sales TO GROUP `a group`")
    wait_until(lambda: ann.tuples("SELECT * FROM {lake}.sales.orders") == [])
    orders = ("table", "sales.orders", "role", "readers", True, "root")
    assert root.tuples("SHOW GRANTS ON orders") == [("SELECT", *orders), ("INSERT", *orders)]
    assert root.tuples("SHOW GRANTS ON DATABASE {lake}.sales") == [
        ("ALL", "database", "sales", "group", "a group", False, "root")
    ]
    assert root.tuples("SHOW GRANTS TO ROLE readers") == [("SELECT", *orders), ("INSERT", *orders)]
    root.sql("REVOKE GRANT OPTION FOR INSERT ON TABLE sales.orders FROM ROLE readers")
    assert [(row[0], row[5]) for row in root.tuples("SHOW GRANTS ON TABLE orders TO ROLE readers")] == [
        ("SELECT", True),
        ("INSERT", False),
    ]
    root.sql("REVOKE INSERT ON orders FROM ROLE readers")
    if kind == "rest":
        root.sql("REVOKE SELECT ON orders FROM ROLE readers CASCADE")
    else:
        with pytest.raises(Exception, match="no revocation with CASCADE"):
            root.sql("REVOKE SELECT ON orders FROM ROLE readers CASCADE")
        root.sql("REVOKE SELECT ON orders FROM ROLE readers")
    root.sql("REVOKE ALL ON SCHEMA sales FROM GROUP `a group`")
    assert root.tuples("SHOW GRANTS") == []
    with pytest.raises(Exception, match="may not create the role"):
        ann.sql("CREATE ROLE mine IN {lake}")
    for name in ("readers", "other"):
        root.sql(f"DROP ROLE {name}")
    root.sql("USE spark_catalog")


def test_statements_that_cannot_be_carried_out_say_why(granted: GrantedServer, lake: SparkLake) -> None:
    root = granted.lake("root", "rest")
    for statement, message in (
        ("GRANT READ ON {lake}.sales.orders TO ann", "READ.* is no privilege"),
        ("GRANT SELECT ON {lake}.sales.none TO ann", "does not exist"),
        ("GRANT SELECT ON {lake}.sales.orders FROM ann", "Expected TO"),
        ("GRANT SELECT ON {lake}.sales.orders TO ann AND bea", "Expected the end of the statement"),
        ("DROP ROLE none IN {lake}", "role none does not exist"),
    ):
        with pytest.raises(Exception, match=message):
            root.sql(statement)
    with pytest.raises(Exception, match="Roles and grants are kept by a catalog server"):
        lake.sql("GRANT SELECT ON {lake}.db.t TO ann")
    root.sql("USE spark_catalog")
    # Statements about other catalogs are Spark's.
    for statement in ("CREATE ROLE r", "GRANT SELECT ON t TO ann", "GRANT it", "SHOW ROLES"):
        with pytest.raises(Exception, match="== SQL"):
            root.sql(statement)


@pytest.mark.parametrize("kind", ["rest", "hive"])
def test_grants_on_columns_by_sql(granted: GrantedServer, kind: str) -> None:
    root = granted.lake("root", kind)
    root.sql("USE {lake}.sales")
    root.sql("CREATE TABLE {lake}.sales.customers (id INT, `last name` STRING, phone STRING)")
    root.sql("GRANT SELECT (id, `last name`) ON TABLE customers TO USER ann")
    root.sql("grant select(phone) on {lake}.sales.customers to role public with grant option")
    ann, public = ("user", "ann", False, "root"), ("role", "public", True, "root")
    # Hive's interface lists the grants on a table apart from those on its columns.
    expected = [
        ("SELECT", "column", "sales.customers.id", *ann),
        ("SELECT", "column", "sales.customers.last name", *ann),
        ("SELECT", "column", "sales.customers.phone", *public),
    ]
    assert root.tuples("SHOW GRANTS ON customers") == (expected if kind == "rest" else [])
    assert len(root.tuples("SHOW GRANTS TO USER ann")) == 2
    root.sql("REVOKE GRANT OPTION FOR SELECT (phone) ON customers FROM ROLE public")
    root.sql("REVOKE SELECT (id, `last name`) ON customers FROM ann")
    assert [row[:3] for row in root.tuples("SHOW GRANTS TO ROLE public")] == [
        ("SELECT", "column", "sales.customers.phone")
    ]
    for statement, message in (
        ("GRANT SELECT (id), INSERT ON customers TO ann", "the same columns for each privilege"),
        ("GRANT SELECT (id) ON DATABASE sales TO ann", "a table or a view, which has columns"),
        ("GRANT readers (id) TO ann", "a table or a view, which has columns"),
        ("GRANT SELECT () ON customers TO ann", "the name of a column"),
        ("GRANT SELECT (id ON customers TO ann", r"Expected '\)'"),
        ("GRANT INSERT (id) ON customers TO ann", "columns have SELECT alone"),
        ("GRANT SELECT (size) ON customers TO ann", "column size of the table"),
    ):
        with pytest.raises(Exception, match=message):
            root.sql(statement)
    root.sql("DROP TABLE {lake}.sales.customers")
    root.sql("USE spark_catalog")


def test_policies_by_sql(granted: GrantedServer) -> None:
    root, ann = granted.lake("root", "rest"), granted.lake("ann", "rest")
    root.sql("CREATE TABLE {lake}.sales.people (id INT, name STRING, city STRING)")
    root.sql("INSERT INTO {lake}.sales.people VALUES (1, 'Bea (1)', 'Bonn'), (2, 'Cid', 'Ulm')")
    root.sql("CREATE ROLE analysts IN {lake}")
    root.sql("GRANT SELECT ON {lake}.sales.people TO ROLE public")
    root.sql("GRANT analysts TO USER ann IN {lake}")
    root.sql(
        "ALTER TABLE {lake}.sales.people SET ROW FILTER (id < 9 AND (city <> 'a)' OR city = 'Ulm')) TO ROLE analysts"
    )
    root.sql(
        "alter table {lake}.sales.people set row filter `only-ulm` (city = 'Ulm') to analysts, group etl, role analysts"
    )
    root.sql("ALTER TABLE {lake}.sales.people ALTER COLUMN name SET MASK (CONCAT('*', city)) EXCEPT USER root;")
    assert root.tuples("SHOW POLICIES ON {lake}.sales.people") == [
        ("filter", "filter", None, "id < 9 AND (city <> 'a)' OR city = 'Ulm')", "role analysts", "", "root"),
        ("mask-name", "mask", "name", "CONCAT('*', city)", "role public", "user root", "root"),
        ("only-ulm", "filter", None, "city = 'Ulm'", "user analysts, group etl, role analysts", "", "root"),
    ]
    wait_until(lambda: ann.tuples("SELECT * FROM {lake}.sales.people") == [(2, "*Ulm", "Ulm")])
    assert len(root.tuples("SELECT * FROM {lake}.sales.people")) == 2
    root.sql("ALTER TABLE {lake}.sales.people UNSET ROW FILTER `only-ulm`")
    root.sql("ALTER TABLE {lake}.sales.people DROP ROW FILTER")
    assert ann.tuples("SELECT name FROM {lake}.sales.people ORDER BY id") == [("*Bonn",), ("*Ulm",)]
    root.sql("ALTER TABLE {lake}.sales.people ALTER name SET MASK `mask-name` ('hidden') TO ROLE analysts")
    assert ann.tuples("SELECT DISTINCT name FROM {lake}.sales.people") == [("hidden",)]
    root.sql("ALTER TABLE {lake}.sales.people ALTER COLUMN name DROP MASK")
    assert root.tuples("SHOW POLICIES ON {lake}.sales.people") == []
    assert ann.tuples("SELECT name FROM {lake}.sales.people WHERE id = 1") == [("Bea (1)",)]
    for statement, message in (
        ("ALTER TABLE {lake}.sales.people SET ROW FILTER id < 9", r"Expected '\('"),
        ("ALTER TABLE {lake}.sales.people SET ROW FILTER (id < 9", r"Expected '\)'"),
        ("ALTER TABLE {lake}.sales.people SET ROW FILTER (wrong < 9)", "wrong"),
        ("ALTER TABLE {lake}.sales.people SET ROW FILTER (id < 9) TO ROLE none", "role none does not exist"),
        ("ALTER TABLE {lake}.sales.people ALTER COLUMN id SET MASK ('x')", "takes texts"),
        ("ALTER TABLE {lake}.sales.people UNSET ROW FILTER", "has no policy filter"),
        ("SHOW POLICIES ON {lake}.sales.none", "does not exist"),
    ):
        with pytest.raises(Exception, match=message):
            root.sql(statement)
    for statement in (
        "ALTER TABLE {lake}.sales.people SET ROW FILTER (id < 9)",
        "SHOW POLICIES ON {lake}.sales.people",
    ):
        with pytest.raises(Exception, match=r"ALL on the table hive\.sales\.people"):
            ann.sql(statement)
    with pytest.raises(Exception, match="Hive's interface has no row filters and column masks"):
        granted.lake("root", "hive").sql("SHOW POLICIES ON {lake}.sales.people")
    root.sql("DROP ROLE analysts IN {lake}")
