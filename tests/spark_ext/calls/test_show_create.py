"""SHOW CREATE TABLE: running its text creates an equal table."""

import itertools
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import interbed
from tests.spark_ext.conftest import SparkLake
from tests.support.examples import examples

_PLAIN = {
    "BOOLEAN": "true",
    "TINYINT": "1",
    "SMALLINT": "-2",
    "INT": "7",
    "BIGINT": "9000000000",
    "FLOAT": None,
    "DOUBLE": None,
    "DECIMAL(10,2)": "1.50",
    "STRING": "'it''s'",
    "CHAR(3)": None,
    "VARCHAR(5)": "'ab'",
    "BINARY": None,
    "DATE": "DATE '2026-01-31'",
    "TIMESTAMP": None,
    "TIMESTAMP_NTZ": None,
}
"""Types by their names in SQL, with a default each where the test sets one."""

# No backslash, which Spark writes unescaped and reads as an escape.
_TEXTS = st.sampled_from(["plain", "it's", 'a "quote"', "ünï", "a;b", "two\nlines"])
_NAMES = st.sampled_from(["a", "B", "snake_case", "with blank", "dots.in", "`tick`", "sum", "ünï"])
_COUNT = itertools.count()


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _name(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


def _types(nested: bool = True) -> st.SearchStrategy[str]:
    plain = st.sampled_from(sorted(_PLAIN))
    if not nested:
        return plain
    inner = st.one_of(
        plain,
        plain.map(lambda one: f"ARRAY<{one}>"),
        plain.map(lambda one: f"MAP<STRING, {one}>"),
    )
    struct = st.builds(
        lambda first, second, text: f"STRUCT<x: {first} COMMENT {_quoted(text)}, y: {second} NOT NULL>",
        inner,
        inner,
        _TEXTS,
    )
    return st.one_of(plain, inner, struct)


@st.composite
def _tables(draw: Any) -> str:
    """Strategy for the part of a CREATE TABLE after the name."""
    columns = ["id INT NOT NULL", "part STRING NOT NULL"]
    options: dict[str, str] = {}
    for name in draw(st.lists(_NAMES, max_size=4, unique_by=str.lower)):
        kind = draw(_types())
        column = f"{_name(name)} {kind}"
        if draw(st.booleans()):
            column += " NOT NULL"
        if _PLAIN.get(kind) is not None and draw(st.booleans()):
            column += f" DEFAULT {_PLAIN[kind]}"
        if draw(st.booleans()):
            column += f" COMMENT {_quoted(draw(_TEXTS))}"
        columns.append(column)
    if draw(st.booleans()):
        options |= {"primary-key": "id,part", "bucket": "2"}
    if draw(st.booleans()):
        options |= {"file.format": draw(st.sampled_from(["orc", "parquet", "avro"])), "my.note": draw(_TEXTS)}
    text = f" ({', '.join(columns)})"
    if draw(st.booleans()):
        text += " PARTITIONED BY (part)"
    if draw(st.booleans()):
        text += f" COMMENT {_quoted(draw(_TEXTS))}"
    if options:
        text += f" TBLPROPERTIES ({', '.join(f'{_quoted(k)} = {_quoted(v)}' for k, v in options.items())})"
    return text


@given(table=_tables())
@example(table=" (id INT NOT NULL COMMENT 'it''s', p STRING DEFAULT 'x''y') PARTITIONED BY (p) COMMENT 'a \"b\"'")
@settings(max_examples=examples(8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_text_of_a_table_creates_an_equal_one(lake: SparkLake, table: str) -> None:
    number = next(_COUNT)
    lake.sql(f"CREATE TABLE {{lake}}.db.t{number}{table}")
    shown = lake.tuples(f"SHOW CREATE TABLE {{lake}}.db.t{number}")[0][0]
    lake.sql(shown.replace(f"db.t{number} ", f"db.again{number} ", 1))

    with interbed.load_catalog("lake", warehouse=lake.warehouse) as catalog:
        before, after = (catalog.get_table(f"db.{name}{number}").schema for name in ("t", "again"))
    assert after.fields == before.fields
    assert (after.partition_keys, after.primary_keys) == (before.partition_keys, before.primary_keys)
    assert (after.options, after.comment) == (before.options, before.comment)
