"""Functions of a catalog in Spark: definitions in SQL run, the others are listed and refused by name."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import call_function, col

import interbed
from interbed.catalog.client.functions import CatalogFunction, DefinitionKind, FunctionDefinition
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot
from tests.spark_ext.conftest import SparkLake
from tests.support.servers.metastore import metastore
from tests.support.servers.paimon_rest import rest_options

INT = AtomicType(TypeRoot.INT)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[interbed.Catalog]:
    """Open a REST catalog with the database `shop`."""
    with (
        metastore(warehouse=f"file:{tmp_path_factory.mktemp('lake')}") as uri,
        interbed.load_catalog("functions", **rest_options(uri.paimon, "hive")) as opened,
    ):
        opened.create_database("shop")
        yield opened


@pytest.fixture
def lake(spark: SparkSession, catalog: interbed.Catalog, tmp_path: Path) -> Iterator[SparkLake]:
    """The catalog in Spark; its functions are dropped after the test."""
    given = {key: catalog.options.raw[key] for key in ("metastore", "uri", "warehouse", "token.provider", "token")}
    options = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    lake = SparkLake(spark, "fns", tmp_path)
    lake.sql(f"CREATE CATALOG {{lake}} WITH ('type' = 'paimon', {options})")
    yield lake
    lake.sql("USE spark_catalog")
    lake.sql("DROP CATALOG {lake}")
    for name in catalog.list_functions("shop"):
        catalog.drop_function(f"shop.{name}")


def _add(catalog: interbed.Catalog, name: str, sql: str, params: str = "x", result: AtomicType | None = INT) -> None:
    function = CatalogFunction(
        definitions={"sql": FunctionDefinition.of_sql(sql)},
        input_params=tuple(DataField(number, each, INT) for number, each in enumerate(params.split())),
        return_params=None if result is None else (DataField(0, "result", result),),
    )
    catalog.create_function(f"shop.{name}", function)


def test_functions_are_created_listed_described_called_and_dropped(lake: SparkLake, catalog: interbed.Catalog) -> None:
    params = "(x DOUBLE, y DOUBLE COMMENT 'up') RETURNS DOUBLE"
    lake.sql(f"CREATE FUNCTION {{lake}}.shop.area{params} COMMENT 'a' RETURN x * y")
    found = catalog.get_function("shop.area")
    assert found.definitions == {"spark": FunctionDefinition.of_sql("x * y")}
    assert found.signature("f") == "f(x DOUBLE, y DOUBLE) -> DOUBLE"
    assert (found.comment, found.input_params and found.input_params[1].description) == ("a", "up")
    assert lake.tuples("SELECT {lake}.shop.area(2, 1.5)") == [(3.0,)]
    lake.sql("CREATE FUNCTION IF NOT EXISTS {lake}.shop.area(x INT) RETURNS INT RETURN x")
    with pytest.raises(Exception, match="already"):
        lake.sql("CREATE FUNCTION {lake}.shop.area(x INT) RETURNS INT RETURN x")
    with pytest.raises(Exception, match=r"It is shop\.area\(x DOUBLE, y DOUBLE\) -> DOUBLE"):
        lake.sql("CREATE OR REPLACE FUNCTION {lake}.shop.area(x INT) RETURNS INT RETURN x")
    lake.sql(f"CREATE OR REPLACE FUNCTION {{lake}}.shop.area{params} RETURN x * y * 2")
    assert lake.tuples("SELECT {lake}.shop.area(2, 1.5)") == [(6.0,)]
    assert catalog.get_function("shop.area").comment is None
    assert ("fns.shop.area",) in lake.tuples("SHOW USER FUNCTIONS IN {lake}.shop")
    assert ("fns.shop.area",) in lake.tuples("SHOW FUNCTIONS IN {lake}.shop LIKE '*ar*'")
    described = [line for (line,) in lake.tuples("DESCRIBE FUNCTION {lake}.shop.area")]
    assert described == [
        "Function: fns.shop.area",
        "Signature: shop.area(x DOUBLE, y DOUBLE) -> DOUBLE",
        "Deterministic: true",
        "Definition: spark (sql): x * y * 2",
    ]
    lake.sql("USE {lake}.shop")
    assert lake.tuples("SELECT area(1, 1), abs(-1)") == [(2.0, 1)]
    lake.sql("DROP FUNCTION {lake}.shop.area")
    assert catalog.list_functions("shop") == []
    lake.sql("DROP FUNCTION IF EXISTS {lake}.shop.area")
    with pytest.raises(Exception, match=r"no function 'shop\.area'"):
        lake.sql("DROP FUNCTION {lake}.shop.area")
    with pytest.raises(Exception, match="UNRESOLVED_ROUTINE"):
        lake.sql("SELECT {lake}.shop.area(1, 1)")


def test_a_call_is_planned_as_its_expression(lake: SparkLake, catalog: interbed.Catalog) -> None:
    _add(catalog, "next", "x + 1")
    _add(catalog, "twice", f"{lake.name}.shop.next(x) + {lake.name}.shop.next(x) - 2")
    lake.sql("CREATE TABLE {lake}.shop.t AS SELECT id, cast(id AS INT) AS n FROM range(10)")
    assert lake.tuples("SELECT {lake}.shop.twice({lake}.shop.twice(3))") == [(12,)]
    filtered = "SELECT id FROM {lake}.shop.t WHERE {lake}.shop.next(n) = 4"
    assert lake.tuples(filtered) == [(3,)]
    assert "n" in lake.plan(filtered)
    assert "next" not in lake.plan(filtered).replace("nextval", "")
    grouped = (
        "SELECT {lake}.shop.twice(n % 2) AS k, count(*) FROM {lake}.shop.t GROUP BY {lake}.shop.twice(n % 2) ORDER BY k"
    )
    assert lake.tuples(grouped) == [(0, 5), (2, 5)]
    frame = lake.frame("SELECT * FROM {lake}.shop.t WHERE id = 7")
    assert [tuple(row) for row in frame.selectExpr(f"{lake.name}.shop.next(n)").collect()] == [(8,)]
    assert [row[0] for row in frame.select(call_function(f"{lake.name}.shop.next", col("n"))).collect()] == [8]
    lake.sql("CREATE VIEW {lake}.shop.v AS SELECT {lake}.shop.next(n) AS m FROM {lake}.shop.t WHERE id < 2")
    assert sorted(lake.tuples("SELECT {lake}.shop.next(m) FROM {lake}.shop.v")) == [(2,), (3,)]
    assert lake.tuples("SELECT {lake}.shop.next(NULL), {lake}.shop.next('4')") == [(None, 5)]
    lake.sql("DROP VIEW {lake}.shop.v")
    lake.sql("DROP TABLE {lake}.shop.t")


def test_an_argument_is_not_computed_twice(lake: SparkLake, catalog: interbed.Catalog) -> None:
    _add(catalog, "once", "x + 1")
    _add(catalog, "square", "x * x")
    assert lake.tuples("SELECT {lake}.shop.once(cast(rand() * 0 AS INT))") == [(1,)]
    with pytest.raises(Exception, match="compute it in a subquery first"):
        lake.sql("SELECT {lake}.shop.square(cast(rand() * 9 AS INT))")
    assert lake.tuples("SELECT {lake}.shop.square(n) FROM (SELECT cast(rand() * 0 AS INT) AS n)") == [(0,)]


def test_a_function_that_is_not_run_is_refused_by_name(lake: SparkLake, catalog: interbed.Catalog) -> None:
    files = FunctionDefinition(
        kind=DefinitionKind.FILE,
        file_resources=(("JAR", "/a.jar"),),
        language="JAVA",
        class_name="A",
        function_name="f",
    )
    lambdas = FunctionDefinition(kind=DefinitionKind.LAMBDA, definition="(x) -> x", language="JAVA")
    catalog.create_function("shop.of_files", CatalogFunction(definitions={"spark": files, "flink": lambdas}))
    own = f"{lake.name}.shop"
    _add(catalog, "ping", f"{own}.pong(x)")
    _add(catalog, "pong", f"{own}.ping(x)")
    _add(catalog, "total", "sum(x)")
    _add(catalog, "looked_up", "(SELECT max(id) FROM range(3)) + x")
    _add(catalog, "foreign", "x + y")
    _add(catalog, "broken", "x +")
    lake.frame("SHOW FUNCTIONS IN {lake}.shop")
    assert ("fns.shop.of_files",) in lake.tuples("SHOW FUNCTIONS IN {lake}.shop")
    assert "Definition: flink (lambda): (x) -> x" in {
        line for (line,) in lake.tuples("DESCRIBE FUNCTION EXTENDED {lake}.shop.of_files")
    }
    for call, message in (
        ("of_files()", r"'spark' \(file\), 'flink' \(lambda\)"),
        ("ping(1)", "calls itself: fns.shop.ping -> fns.shop.pong -> fns.shop.ping"),
        ("total(1)", "no expression over one row"),
        ("looked_up(1)", "has a subquery"),
        ("foreign(y) FROM (SELECT 1 AS y)", r"not valid in Spark[\s\S]*`y`"),
        ("broken(1)", "not valid in Spark"),
        ("ping(1, 2)", "takes 1 arguments, not 2"),
    ):
        with pytest.raises(Exception, match=message):
            lake.sql(f"SELECT {{lake}}.shop.{call}")
    for statement, message in (
        ("CREATE FUNCTION {lake}.shop.j AS 'a.B' USING JAR '/b.jar'", "definitions in SQL"),
        ("CREATE FUNCTION {lake}.shop.j() RETURNS TABLE (a INT) RETURN SELECT 1", "not the rows of a query"),
        ("CREATE FUNCTION {lake}.shop.j(x INT DEFAULT 1) RETURNS INT RETURN x", "DEFAULT"),
    ):
        with pytest.raises(Exception, match=message):
            lake.sql(statement)


def test_procedures_of_paimon_change_functions(lake: SparkLake, catalog: interbed.Catalog) -> None:
    params = json.dumps([{"id": 0, "name": "x", "type": "INT"}])
    lake.sql(f"CALL {{lake}}.sys.create_function('shop.p', '{params}', '{params}', true, 'of p', 'k1=v1')")
    change = {"action": "addDefinition", "name": "spark", "definition": {"type": "sql", "definition": "x * 10"}}
    lake.sql(f"CALL {{lake}}.sys.alter_function('shop.p', '{json.dumps(change)}')")
    found = catalog.get_function("shop.p")
    assert (found.comment, found.options) == ("of p", {"k1": "v1"})
    assert lake.tuples("SELECT {lake}.shop.p(4)") == [(40,)]
    lake.sql("CALL {lake}.sys.drop_function(`function` => 'shop.p')")
    assert catalog.list_functions("shop") == []
    for call, message in (
        (f"create_function('a.b.c.d', '{params}', '{params}')", "names no function"),
        ("create_function('shop.p', '[', '[]')", "is no JSON"),
        ("create_function('shop.p', '[1]', '[]')", "no list of fields"),
        ("alter_function('shop.p', '[]')", "is an object such as"),
        ("drop_function('shop.p')", r"no function 'shop\.p'"),
    ):
        with pytest.raises(Exception, match=message):
            lake.sql(f"CALL {{lake}}.sys.{call}")


def test_a_catalog_without_functions_lists_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    lake = SparkLake(spark, "plain_lake", tmp_path)
    lake.sql(f"CREATE CATALOG {{lake}} WITH ('type' = 'paimon', 'warehouse' = 'file:{tmp_path}')")
    lake.sql("CREATE DATABASE {lake}.db")
    assert ("plain_lake.db.bucket",) in lake.tuples("SHOW USER FUNCTIONS IN {lake}.db")
    with pytest.raises(Exception, match="file-system catalog has no functions"):
        lake.sql("CREATE FUNCTION {lake}.db.f() RETURNS INT RETURN 1")
    lake.sql("DROP CATALOG {lake}")
