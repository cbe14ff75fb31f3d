"""CHAR columns in statements of `interbed sql`, where blanks at the end count, and in filters, where they do not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import interbed
from interbed import DataField, Schema, data_type
from interbed.cli import main

PADDED = [{"c": "a  ", "n": 1}, {"c": "ab ", "n": 2}]


@pytest.fixture
def lake(tmp_path: Path) -> interbed.Catalog:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("d")
    return lake


def made(lake: interbed.Catalog, *, keys: list[str]) -> interbed.Table:
    fields = [
        DataField(id=0, name="c", type=data_type("CHAR(3) NOT NULL")),
        DataField(id=1, name="n", type=data_type("BIGINT")),
    ]
    table = lake.create_table("d.t", Schema(fields=fields, primary_keys=keys, options={"bucket": "-1"}))
    table.append(PADDED)
    return table


def sql(lake: interbed.Catalog, statement: str) -> Result:
    return CliRunner().invoke(main, ["-o", f"warehouse={lake.warehouse}", "sql", statement, "--json"])


def rows(table: interbed.Table) -> list[tuple[object, ...]]:
    return sorted((row["c"], row["n"]) for row in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("condition", "count"),
    [("c = 'a'", 0), ("c = 'a  '", 1), ("c <> 'a'", 2), ("c > 'a'", 2), ("c IN ('a', 'ab ')", 1)],
)
def test_statements_select_the_same_rows(lake: interbed.Catalog, condition: str, count: int) -> None:
    table = made(lake, keys=[])
    found = [json.loads(line) for line in sql(lake, f"SELECT * FROM d.t WHERE {condition}").output.splitlines()]
    assert len(found) == count
    assert json.loads(sql(lake, f"UPDATE d.t SET n = n WHERE {condition}").output)["updated"] == count
    assert json.loads(sql(lake, f"DELETE FROM d.t WHERE {condition}").output)["deleted"] == count
    assert len(rows(table)) == len(PADDED) - count


def test_commands_and_python_ignore_blanks(lake: interbed.Catalog) -> None:
    table = made(lake, keys=["c"])
    scanned = CliRunner().invoke(
        main, ["-o", f"warehouse={lake.warehouse}", "table", "scan", "d.t", "--filter", "c = 'a'", "--json"]
    )
    assert json.loads(scanned.output) == PADDED[0]
    assert table.scan(filter="c = 'ab'").to_arrow().to_pylist() == [PADDED[1]]


MERGE = (
    "MERGE INTO d.t AS t USING (SELECT 'a' AS c, 5 AS n) AS s ON {} "
    "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT (c, n) VALUES (s.c, s.n)"
)


def test_a_merge_inserts_no_key_that_differs_by_blanks_alone(lake: interbed.Catalog) -> None:
    table = made(lake, keys=["c"])
    refused = sql(lake, MERGE.format("t.c = s.c"))
    assert refused.exit_code == 1
    message = " ".join(refused.output.split())
    assert "primary key differs from that of the row c = a by blanks at the end of a CHAR" in message
    assert 'rtrim(t."c") = rtrim(s."c")' in message
    assert rows(table) == [("a  ", 1), ("ab ", 2)]
    done = sql(lake, MERGE.format("rtrim(t.c) = rtrim(s.c)"))
    assert done.exit_code == 0, done.output
    assert rows(table) == [("a  ", 5), ("ab ", 2)]


def test_a_merge_inserts_other_keys_of_char(lake: interbed.Catalog) -> None:
    table = made(lake, keys=["c"])
    done = sql(lake, MERGE.format("t.c = s.c").replace("'a'", "'b'"))
    assert done.exit_code == 0, done.output
    assert rows(table) == [("a  ", 1), ("ab ", 2), ("b", 5)]
    plain = sql(lake, MERGE.format("t.c = s.c").replace("'a'", "'a  '"))
    assert plain.exit_code == 0, plain.output
    assert rows(table) == [("a  ", 5), ("ab ", 2), ("b", 5)]


def test_a_merge_of_an_append_table_inserts_any_text(lake: interbed.Catalog) -> None:
    table = made(lake, keys=[])
    assert sql(lake, MERGE.format("t.c = s.c")).exit_code == 0
    assert rows(table) == [("a", 5), ("a  ", 1), ("ab ", 2)]
