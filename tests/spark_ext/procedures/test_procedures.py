"""Procedures in Spark: how they are called, and what is said of calls that are wrong."""

from typing import Any

import pytest

from tests.spark_ext.conftest import Lake
from tests.support.pages import Page

TABLE = "CREATE TABLE {lake}.db.t (id INT, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"


@pytest.fixture
def table(lake: Lake) -> Lake:
    """A catalog with the table `db.t` of two snapshots."""
    lake.sql(TABLE)
    for value in range(2):
        lake.sql(f"INSERT INTO {{lake}}.db.t VALUES (1, {value})")
    return lake


def tags(lake: Lake) -> list[tuple[Any, ...]]:
    return lake.tuples("SELECT tag_name, snapshot_id FROM {lake}.db.`t$tags` ORDER BY tag_name")


def test_a_procedure_takes_its_arguments_by_position_and_by_name(table: Lake) -> None:
    assert table.tuples("CALL {lake}.sys.create_tag('db.t', 'a', 1)") == [(True,)]
    table.sql("CALL {lake}.sys.create_tag(tag => 'b', time_retained => '1 d', table => '`db`.`t`')")
    table.sql("CALL {lake}.SYS.Create_Tag('{lake}.db.t', snapshot => 1, Tag => 'c')")
    table.sql("USE {lake}.db")
    table.sql("CALL sys.create_tag('t', 'd')")
    assert tags(table) == [("a", 1), ("b", 2), ("c", 1), ("d", 2)]


def test_procedures_are_listed(lake: Lake) -> None:
    shown = lake.tuples("SHOW PROCEDURES IN {lake}.sys")
    assert (lake.name, ["sys"], "sys", "create_tag") in shown


@pytest.mark.parametrize(
    ("call", "told"),
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
def test_a_wrong_call_is_told_the_signature_and_changes_nothing(table: Lake, call: str, told: str) -> None:
    with pytest.raises(Exception, match=r"create_tag\(table STRING, tag STRING, \[snapshot BIGINT\]") as refused:
        table.sql(f"CALL {{lake}}.sys.{call}")
    assert told in str(refused.value)
    assert tags(table) == []


def test_all_is_repaired_when_nothing_is_named(lake: Lake) -> None:
    # It gets as far as the catalog, which has nothing to repair.
    with pytest.raises(Exception, match="there is nothing to repair"):
        lake.sql("CALL {lake}.sys.repair('')")
    for none in ("", "NULL"):
        with pytest.raises(Exception, match=r"database_or_table.*repair\(database_or_table STRING\)"):
            lake.sql(f"CALL {{lake}}.sys.repair({none})")


def test_an_unknown_procedure_is_told_which_there_are(lake: Lake) -> None:
    with pytest.raises(Exception, match=r"no procedure .*\.sys\.create_tog; there are .*sys\.create_tag"):
        lake.sql("CALL {lake}.sys.create_tog('db.t', 'x')")


def test_the_page_says_what_happens(lake: Lake) -> None:
    lake.sql("USE {lake}")
    assert Page("spark-procedures.md").run_sql(lambda sql: lake.spark.sql(sql).collect()) > 60
