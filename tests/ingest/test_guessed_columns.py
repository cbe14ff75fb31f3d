"""Inferred column types and their values are the same for all batch boundaries."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from interbed import DataField, Schema, data_type
from interbed.ingest.formats.format import PlainJson
from interbed.ingest.run_settings import BadMessages
from tests.ingest.every_format import EncodedStream, ingested
from tests.ingest.shop import lake
from tests.ingest.test_exact_values import FORMS
from tests.support.examples import examples
from tests.support.tally import Tally

VALUES = (
    *("null", "1", "2", "1.5", "1.0", "1e400", "9007199254740993", "1180591620717411303424", "true", '"a"', '"1"'),
    *("[]", "{}", "[null]", "[1]", "[1.5]", "[1,1.5]", '["a"]', "[[]]", "[[1]]", "[{}]", '[{"a":1}]', '[{"b":[]}]'),
    *('{"a":1}', '{"a":1.5}', '{"a":null}', '{"b":"x"}', '{"a":1,"b":{}}', '{"a":[]}', '{"a":{}}', '{"a":{"c":1}}'),
    *('{"a":1,"b":{"c":[1]}}', '{"a":1,"b":{"c":[]}}', '{"A":1}'),
)
KINDS = (None, "INT", "FLOAT", "STRING", "ROW<a BIGINT>", "ROW<a INT, b ROW<c ARRAY<INT>>>", "ARRAY<ROW<a INT>>")
Found = tuple[list[tuple[str, str]], list[dict[str, Any]], int]


def outcome(path: Path, form: str, values: Sequence[str], sizes: Sequence[int], kind: str | None = None) -> Found:
    """Return the columns, the rows and the number of bad messages. The table has a column of the `before` type, or is
    new.
    """
    make, write = FORMS[form]
    catalog = lake(path)
    if kind is not None:
        catalog.create_database("shop")
        fields = [
            DataField(id=0, name="id", type=data_type("BIGINT NOT NULL")),
            DataField(id=1, name="x", type=data_type(kind)),
        ]
        catalog.create_table("shop.orders", Schema(fields=fields, primary_keys=["id"], options={"bucket": "1"}))
    messages = [(None, write(i, value).encode()) for i, value in enumerate(values)]
    run = ingested(catalog, EncodedStream(messages=messages, decoder=make), sizes=sizes, bad_messages=BadMessages.SKIP)
    if not catalog.list_databases() or "orders" not in catalog.list_tables("shop"):
        return [], [], run.result.bad
    table = catalog.get_table("shop.orders")
    rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    return [(f.name, str(f.type)) for f in table.fields], rows, run.result.bad


@pytest.mark.parametrize("form", [form for form in FORMS if form != "canal-json"])
def test_columns_and_values_are_the_same_for_all_batch_boundaries(tmp_path: Path, form: str, tally: Tally) -> None:
    for seed in range(examples(12)):
        dice = random.Random(f"{form} {seed}")
        values, kind = dice.choices(VALUES, k=dice.randint(2, 5)), dice.choice(KINDS)
        alone = outcome(tmp_path / f"{seed}-1", form, values, [1], kind)
        for size in (2, 100):
            assert outcome(tmp_path / f"{seed}-{size}", form, values, [size], kind) == alone, (values, kind, size)
        tally("sequences of guessed values, apart and together", 1)


@pytest.mark.parametrize("sizes", [[1], [100]])
@pytest.mark.parametrize(
    ("values", "kind", "wanted", "bad"),
    [
        (("1", "1.5", "2"), "BIGINT", [1, 2], 1),
        (("1.5", "1"), "DOUBLE", [1.5, 1.0], 0),
        (("1", "1180591620717411303424"), "DECIMAL(38, 0)", [1, 2**70], 0),
        (("1", '"a"'), "BIGINT", [1], 1),
        (('"a"', "1", "[1.50]"), "STRING", ["a", "1", "[1.50]"], 0),
        (("[]", "[1]", "[]"), "ARRAY<BIGINT>", [None, [1], []], 0),
        (("{}", '{"a":1}', "{}"), "ROW<a BIGINT>", [None, {"a": 1}, {"a": None}], 0),
        (
            ('{"a":1,"b":{}}', '{"a":1,"b":{"c":2}}'),
            "ROW<a BIGINT, b ROW<c BIGINT>>",
            [{"a": 1, "b": None}, {"a": 1, "b": {"c": 2}}],
            0,
        ),
        (("[1]", "[1.5]"), "ARRAY<BIGINT>", [[1]], 1),
        (("[9007199254740993,1.5]", "[1.5]"), "ARRAY<DOUBLE>", [[1.5]], 1),
    ],
)
def test_the_first_value_defines_the_column_type(
    tmp_path: Path, values: Sequence[str], sizes: Sequence[int], kind: str, wanted: Sequence[Any], bad: int
) -> None:
    columns, rows, found = outcome(tmp_path, "json", values, sizes)
    assert dict(columns)["x"] == kind
    assert [row["x"] for row in rows] == wanted
    assert found == bad


@pytest.mark.parametrize("sizes", [[1], [100]])
def test_a_key_keeps_the_type_of_its_first_value(tmp_path: Path, sizes: Sequence[int]) -> None:
    messages = [(None, f'{{"id":{key}}}'.encode()) for key in ("1", "1180591620717411303424", "2.0", '"a"')]
    catalog = lake(tmp_path)
    run = ingested(
        catalog, EncodedStream(messages=messages, decoder=PlainJson), sizes=sizes, bad_messages=BadMessages.SKIP
    )
    assert run.result.bad == 2
    assert catalog.get_table("shop.orders").scan().to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("sizes", [[1], [100]])
@pytest.mark.parametrize(
    ("first", "kind", "wanted", "bad"),
    [
        ("1", "BIGINT NOT NULL", [1], 0),
        ("1.0", "DOUBLE NOT NULL", [1.0], 0),
        ('"1"', "STRING NOT NULL", ["1"], 2),
    ],
)
def test_spellings_of_a_number_are_one_key(
    tmp_path: Path, sizes: Sequence[int], first: str, kind: str, wanted: Sequence[Any], bad: int
) -> None:
    messages = [(None, f'{{"id":{key}}}'.encode()) for key in (first, "1", "1.0", "1e0")]
    catalog = lake(tmp_path)
    run = ingested(
        catalog, EncodedStream(messages=messages, decoder=PlainJson), sizes=sizes, bad_messages=BadMessages.SKIP
    )
    table = catalog.get_table("shop.orders")
    assert str(table.fields[0].type) == kind
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == wanted
    assert run.result.bad == bad
