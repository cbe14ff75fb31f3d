"""Calls of procedures in Spark, and errors of invalid calls."""

from typing import Any

import pytest

from tests.spark_ext.conftest import SparkLake
from tests.support.pages import Page

TABLE = "CREATE TABLE {lake}.db.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"


@pytest.fixture
def table(lake: SparkLake) -> SparkLake:
    """A catalog with the table `db.t` of two snapshots."""
    lake.sql(TABLE)
    for value in range(2):
        lake.sql(f"INSERT INTO {{lake}}.db.t VALUES (1, {value})")
    return lake


def tags(lake: SparkLake) -> list[tuple[Any, ...]]:
    return lake.tuples("SELECT tag_name, snapshot_id FROM {lake}.db.`t$tags` ORDER BY tag_name")


def test_a_procedure_accepts_arguments_by_position_and_by_name(table: SparkLake) -> None:
    assert table.tuples("CALL {lake}.sys.create_tag('db.t', 'a', 1)") == [(True,)]
    table.sql("CALL {lake}.sys.create_tag(tag => 'b', time_retained => '1 d', table => '`db`.`t`')")
    table.sql("CALL {lake}.SYS.Create_Tag('{lake}.db.t', snapshot => 1, Tag => 'c')")
    table.sql("USE {lake}.db")
    table.sql("CALL sys.create_tag('t', 'd')")
    assert tags(table) == [("a", 1), ("b", 2), ("c", 1), ("d", 2)]


def test_procedures_are_listed(lake: SparkLake) -> None:
    shown = lake.tuples("SHOW PROCEDURES IN {lake}.sys")
    assert (lake.name, ["sys"], "sys", "create_tag") in shown


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("create_tag('db.t')", "lacks the argument 'tag'"),
        ("create_tag('db.t', tag => 'x', tag => 'y')", "is given the argument 'tag' twice"),
        ("create_tag('db.t', 'x', foo => 1)", "has no argument 'foo'"),
        ("create_tag('db.t', 'x', 1, '1 d', 5)", "takes 4 arguments at most, not 5"),
        ("create_tag('db.nosuch', 'x')", "The argument 'table' of the procedure create_tag names no table"),
        ("create_tag('a.b.c', 'x')", "names no table of the catalog"),
        ("create_tag('db.t$tags', 'x')", "names a system table"),
        ("create_tag(NULL, 'x')", "The argument 'table' of the procedure create_tag is missing"),
    ],
)
def test_the_error_of_an_invalid_call_has_the_signature_and_nothing_changes(
    table: SparkLake, call: str, reason: str
) -> None:
    with pytest.raises(Exception, match=r"create_tag\(table STRING, tag STRING, \[snapshot BIGINT\]") as refused:
        table.sql(f"CALL {{lake}}.sys.{call}")
    assert reason in str(refused.value)
    assert tags(table) == []


def test_repair_without_a_name_includes_everything(lake: SparkLake) -> None:
    # The call reaches the catalog, which has nothing to repair.
    with pytest.raises(Exception, match="there is nothing to repair"):
        lake.sql("CALL {lake}.sys.repair('')")
    for none in ("", "NULL"):
        with pytest.raises(Exception, match=r"database_or_table.*repair\(database_or_table STRING\)"):
            lake.sql(f"CALL {{lake}}.sys.repair({none})")


def test_the_error_of_an_unknown_procedure_lists_the_known_ones(lake: SparkLake) -> None:
    with pytest.raises(Exception, match=r"no procedure .*\.sys\.create_tog; there are .*sys\.create_tag"):
        lake.sql("CALL {lake}.sys.create_tog('db.t', 'x')")


def test_the_page_runs_as_written(lake: SparkLake) -> None:
    lake.sql("USE {lake}")
    assert Page("spark-procedures.md").run_sql(lambda sql: lake.spark.sql(sql).collect()) > 60


def test_a_rollback_to_digits_takes_a_tag_and_refuses_what_is_a_snapshot_as_well(table: SparkLake) -> None:
    table.sql("CALL {lake}.sys.create_tag('db.t', '2', 1)")
    table.sql("CALL {lake}.sys.create_tag('db.t', '20260131', 1)")
    with pytest.raises(
        Exception, match=r"is a snapshot and the name of a tag of the snapshot 1; write snapshot => 2 or"
    ):
        table.sql("CALL {lake}.sys.rollback('db.t', '2')")
    assert table.tuples("CALL {lake}.sys.rollback('db.t', '20260131')") == [(2, 1)]
