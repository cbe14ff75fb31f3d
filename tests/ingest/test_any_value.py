"""A run that skips bad messages continues, whatever JSON value a column of any type gets."""

import random
from pathlib import Path
from typing import Any

import pytest

from interbed import DataField, Schema, data_type
from interbed.catalog.client.api import Catalog
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.every_format import GUESSED, Row, RowChange, ingested, written
from tests.ingest.shop import lake
from tests.support.examples import examples
from tests.support.tally import Tally

KINDS = (
    *("TINYINT", "SMALLINT", "INT", "INT NOT NULL", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "BOOLEAN"),
    *("STRING", "CHAR(3)", "VARCHAR(4)", "BYTES", "DATE", "TIME(3)"),
    *("TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)", "TIMESTAMP_LTZ(3)"),
    *("ARRAY<INT>", "ARRAY<STRING NOT NULL>", "ARRAY<ROW<a INT>>", "MAP<STRING, INT>", "MULTISET<STRING>"),
    *("ROW<a INT, b STRING NOT NULL>", "ROW<a ARRAY<DECIMAL(3, 1)>>"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 128, 2**31, 2**53 + 1, 2**63, -(2**63), 2**70, 10**40),
    *(1.5, -0.0, 1e300, -1e-300, 1e39),
    *("", "a", "abcd", "5", "1.5", "1e5", "NaN", "-Infinity", "true", "null", "é☃", "\0", "[1,2]", '{"a":1}', "["),
    *("2024-01-31", "2024-02-30", "10000-01-01", "2024-01-31 10:20:30", "2024-01-31T10:20:30.123456789"),
    *("2024-01-31T10:20:30Z", "2024-01-31T10:20:30+25:00", "10:20:30", "25:00:00", "10:20:30.1234"),
    *([], [1], [None], ["x", None], [1.5], [[1]], [True], [{"a": 1}], [{"a": "x"}], [{}], [None, {}]),
    *({}, {"a": 1}, {"a": "x"}, {"a": 1, "b": None}, {"a": 1, "b": "y"}, {"A": 1}, {"a": {"b": 1}}, {"c": [1]}),
    *({"a": [1.25]}, {"a": [1.5]}, {"a": [1e300]}),
)
KEYS: tuple[Any, ...] = (None, "x", 2**70, 1.5)


def table_of(dice: random.Random, catalog: Catalog) -> int:
    """Create a table with some columns, and maybe partitions, or no table. Return the number of columns."""
    kinds = dice.sample(KINDS, dice.randint(1, 4))
    fields = [DataField(id=i + 1, name=f"c{i}", type=data_type(kind)) for i, kind in enumerate(kinds)]
    fields.insert(0, DataField(id=0, name="id", type=data_type("BIGINT NOT NULL")))
    is_divided = dice.random() < 0.3 and not kinds[0].startswith(("ARRAY", "ROW", "MAP", "MULTISET"))
    options = {"bucket": dice.choice(["1", "2", "-1"])}
    if dice.random() < 0.2:
        options["merge-engine"] = "partial-update"
    catalog.create_database("shop")
    if dice.random() < 0.7:
        parts = ["c0"] if is_divided else []
        if is_divided and kinds[0].startswith(("BYTES", "BINARY", "VARBINARY")):
            options["partition.legacy-name"] = "false"
        schema = Schema(fields=fields, primary_keys=["id", *parts], partition_keys=parts, options=options)
        catalog.create_table("shop.orders", schema)
    return len(kinds)


def stream_of(dice: random.Random, count: int) -> list[RowChange]:
    """Strategy for changes of rows with any values, keys and names."""
    found = []
    for i in range(dice.randint(1, 12)):
        row: Row = {"id": dice.choice([i, i, i, 0, *KEYS])}
        row |= {f"c{j}": dice.choice(VALUES) for j in range(count) if dice.random() < 0.85}
        if dice.random() < 0.15:
            row[dice.choice(["new", "ID", "_KEY_q", "", "C0"])] = dice.choice(VALUES)
        after = {**row, "c0": dice.choice(VALUES)} if dice.random() < 0.2 else None
        found.append(RowChange(before=row, after=after) if after or dice.random() < 0.1 else RowChange(after=row))
    return found


@pytest.mark.parametrize("form", GUESSED)
def test_no_value_ends_a_run_that_skips_bad_messages(tmp_path: Path, form: str, tally: Tally) -> None:
    bad = messages = 0
    for seed in range(examples(60)):
        dice = random.Random(f"{form} {seed}")
        catalog = lake(tmp_path / str(seed))
        stream = written(form, stream_of(dice, table_of(dice, catalog)), {})
        tables = TableSettings(primary_keys=["id"], options={"bucket": "1"})
        run = ingested(catalog, stream, tables=tables, sizes=[dice.choice([1, 3, 100])], bad_messages=BadMessages.SKIP)
        bad += run.result.bad
        messages += len(stream.messages)
        if "orders" in catalog.list_tables("shop"):
            catalog.get_table("shop.orders").scan().to_arrow()
    tally("messages with any JSON for columns of any type", messages)
    tally("of them bad", bad)
    assert 0 < bad < messages
