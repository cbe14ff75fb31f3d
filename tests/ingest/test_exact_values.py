"""A column gets exactly the value of the message, or the message is bad, whatever other messages are in its batch."""

import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interbed import DataField, Schema, data_type
from interbed.catalog.client.api import Catalog
from interbed.ingest.formats.canal_json import CanalJson
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.formats.format import Decoder, PlainJson
from interbed.ingest.formats.maxwell_json import MaxwellJson
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.change_fit import ChangeFit
from interbed.ingest.tables.computed_columns import ComputedColumn, with_computed
from interbed.storage.base.row.python_values import python_value
from interbed.storage.table.table import Table
from tests.ingest.every_format import EncodedStream, ingested
from tests.ingest.memory_source import messages_of
from tests.ingest.shop import lake, rows_of
from tests.support.examples import examples
from tests.support.tally import Tally

BAD = "bad"
NUMBERS = (
    *("0", "-0", "1", "12", "16777216", "16777217", "16777218", "9007199254740993", "-9007199254740993"),
    *("9007199254740994", "9223372036854775808", "100000000000000000001", "1152921504606846976", "7" * 40, "1" * 401),
    *("0.5", "0.1", "1.50", "1.0", "-0.0", "1e2", "1E2", "1e39", "1e300", "1e400", "1e-400", "1e-30", "5e-324"),
    *("12345678901234567.89", "12345678901234567890123456789012345.67", "9007199254740993.0", "16777217.0"),
    *("0.1000000000000000055", "0.30000000000000004", "3.4028236e38", "1e99999999999999999999", "123456789.123"),
    "1.00000017881393432617187499",
)
OTHERS = (
    *('"1"', '"0012"', '"9007199254740993"', '"16777217"', '"0.1"', '"12345678901234567.89"', '"1e5"', '"1.0"'),
    *('"a"', '""', '"12"', '"10:00"', '"10:20:30.5"', '"2024-01-31"', '"2024-01-31T10:20:30.123456"', '"NaN"'),
    *("null", "true", "false", '"true"', "[]", "{}", "[1.50]", "[1,9007199254740993,0.5]", '["a",1.50]'),
    *('{"a":1.50}', '{"a":9007199254740993}', '{"b":2}', '{"a":"0012"}', '"{\\"a\\":12345678901234567.89}"', "[0.5]"),
)
KINDS = (
    *("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 2)", "DECIMAL(38, 20)"),
    *("DECIMAL(38, 0)", "BOOLEAN", "STRING", "VARCHAR(6)", "BYTES", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)"),
    *("ROW<a DECIMAL(38, 2)>", "ROW<a DOUBLE, b STRING>", "ROW<a STRING>", "ARRAY<DOUBLE>", "ARRAY<STRING>"),
    *("ARRAY<DECIMAL(38, 2)>", "ARRAY<BIGINT>"),
)
WRAPS: Mapping[str, tuple[str, str]] = {
    "alone": ("{}", "{}"),
    "in a ROW": ('{{"y":{}}}', "ROW<y {}>"),
    "in an ARRAY": ("[{}]", "ARRAY<{}>"),
    "in an ARRAY of ROW": ('[null,{{"y":{}}}]', "ARRAY<ROW<y {}>>"),
}


def _debezium(i: int, x: str) -> str:
    source = '{"db":"shop","schema":"public","table":"orders"}'
    return f'{{"before":null,"after":{{"id":{i},"x":{x}}},"source":{source},"op":"c"}}'


def _debezium_update(i: int, x: str) -> str:
    source = '{"db":"shop","schema":"public","table":"orders"}'
    return f'{{"before":{{"id":{i},"x":{x}}},"after":{{"id":{i},"x":{x}}},"source":{source},"op":"u"}}'


def _maxwell(i: int, x: str) -> str:
    return f'{{"database":"shop","table":"orders","type":"insert","data":{{"id":{i},"x":{x}}}}}'


def _maxwell_update(i: int, x: str) -> str:
    row = f'{{"id":{i},"x":{x},"z":1}}'
    return f'{{"database":"shop","table":"orders","type":"update","data":{row},"old":{{"x":{x}}}}}'


def _canal(i: int, x: str) -> str:
    head = '"database":"shop","table":"orders","type":"INSERT","isDdl":false,"mysqlType":{"id":"bigint"}'
    return f'{{{head},"data":[{{"id":"{i}","x":{x}}}]}}'


FORMS: Mapping[str, tuple[Callable[[], Decoder], Callable[[int, str], str]]] = {
    "json": (PlainJson, lambda i, x: f'{{"id":{i},"x":{x}}}'),
    "debezium-json": (DebeziumJson, _debezium),
    "debezium-json, updates": (DebeziumJson, _debezium_update),
    "maxwell-json": (MaxwellJson, _maxwell),
    "maxwell-json, updates": (MaxwellJson, _maxwell_update),
    "canal-json": (CanalJson, _canal),
}


@pytest.fixture(name="catalog", scope="module")
def _catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    catalog = lake(tmp_path_factory.mktemp("lake"))
    catalog.create_database("shop")
    return catalog


def table_of(catalog: Catalog, kind: str) -> Table:
    """Return a table with a column x of the type, which is created once."""
    name = f"shop.t{zlib.crc32(kind.encode())}"
    if name.partition(".")[2] in catalog.list_tables("shop"):
        return catalog.get_table(name)
    fields = [
        DataField(id=0, name="id", type=data_type("BIGINT NOT NULL")),
        DataField(id=1, name="x", type=data_type(kind)),
        DataField(id=2, name="z", type=data_type("INT")),
    ]
    catalog.create_table(name, Schema(fields=fields, primary_keys=["id"], options={"changelog-producer": "input"}))
    return catalog.get_table(name)


def outcome(fit: ChangeFit, form: str, values: Sequence[str], sizes: Sequence[int]) -> list[list[Any]]:
    """Return the result of each value, the values of its rows or `bad`; batches have `sizes` messages."""
    make, write = FORMS[form]
    decoder = make()
    found: list[list[Any]] = []
    start = 0
    for size in sizes:
        texts = [write(i, x).encode() for i, x in enumerate(values[start : start + size], start)]
        decoded = decoder.decode(messages_of(texts))
        made: dict[int, list[Any]] = {i: [] for i in range(len(texts))}
        bad = {each.index for each in decoded.bad}
        for changes in decoded.changes:
            fitted = fit.fit(changes)
            bad |= {each.index for each in fitted.bad}
            ids = fitted.rows.column("id").to_pylist()
            there = "x" in fitted.rows.schema.names
            xs = list(fitted.rows.column("x")) if there else [None] * len(ids)
            for i, x in zip(ids, xs, strict=True):
                made[int(i or 0) - start].append(None if x is None else repr(python_value(x)))
        start += size
        found += [[BAD] if i in bad else [v if v != "None" else None for v in made[i]] for i in made]
    return found


def exact(text: str, kind: str) -> Any:
    """Return the expected result of a number by the rules of the page."""
    with localcontext(Context(prec=500)):
        return _exact(text, kind)


def _exact(text: str, kind: str) -> Any:
    number = Decimal(text) if "99999999" not in text else None
    is_integer = text.lstrip("-").isdigit()
    if kind == "STRING":
        return str(int(text)) if is_integer else text
    if number is None:
        return BAD
    if kind in ("DOUBLE", "FLOAT"):
        if abs(number) > Decimal("1.7976931348623157e308"):
            return BAD
        double = float(number)
        if not double and number:
            return BAD
        if kind == "FLOAT":
            if abs(double) >= 3.4028235677973366e38:
                return BAD
            if double and not np.float32(double):
                return BAD
            double = float(np.float32(double))
        if not is_integer:
            return double
        return double + 0.0 if Decimal(double) == number else BAD
    if kind.startswith("DECIMAL"):
        precision, scale = map(int, kind.removeprefix("DECIMAL(").removesuffix(")").split(","))
        steps = number.scaleb(scale) if abs(number.adjusted()) < 1000 else Decimal("0.5")
        fits = steps == steps.to_integral_value() and abs(steps) < Decimal(10) ** precision
        return abs(number).quantize(Decimal(1).scaleb(-scale)).copy_sign(number or 1) if fits else BAD
    limit = {"TINYINT": 2**7, "INT": 2**31, "BIGINT": 2**63}[kind]
    fits = number == number.to_integral_value() and -limit <= number < limit
    return int(number) if fits else BAD


def batches(dice: random.Random, count: int) -> Iterator[Sequence[int]]:
    """Strategy for splits of a stream into batches: all in one, and at random."""
    yield [count]
    cuts = sorted({0, count, *dice.sample(range(count), min(2, count - 1))})
    yield np.diff(cuts).tolist()


@pytest.mark.sample(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_value_has_the_same_result_beside_any_others(catalog: Catalog, form: str, wrap: str, tally: Tally) -> None:
    value, column = WRAPS[wrap]
    tried = 0
    for kind in KINDS:
        fit = ChangeFit(table_of(catalog, column.format(kind)))
        for seed in range(examples(2)):
            dice = random.Random(f"{form} {wrap} {kind} {seed}")
            texts = dice.sample((*NUMBERS, *OTHERS), dice.randint(2, 7))
            alone = [outcome(fit, form, [value.format(text)], [1])[0] for text in texts]
            for sizes in batches(dice, len(texts)):
                found = outcome(fit, form, [value.format(text) for text in texts], sizes)
                assert found == alone, (kind, texts, sizes)
                tried += len(texts)
    tally("values of messages beside any others", tried)


@pytest.mark.sample(6)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrap", WRAPS)
def test_a_number_is_exact_or_bad(catalog: Catalog, form: str, wrap: str, tally: Tally) -> None:
    value, column = WRAPS[wrap]
    kinds = ("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 2)", "STRING")
    for kind in (*kinds, "DECIMAL(38, 20)", "DECIMAL(38, 0)"):
        fit = ChangeFit(table_of(catalog, column.format(kind)))
        texts = [*NUMBERS, "null", '"a"']
        found = outcome(fit, form, [value.format(text) for text in texts], [len(texts)])
        for text, made in zip(NUMBERS, found, strict=False):
            wanted = exact(text, kind)
            if form == "canal-json" and wrap == "alone" and kind.endswith("INT") and not text.lstrip("-").isdigit():
                # It is a text, which is an integer only if it is written as one.
                wanted = BAD
            assert made == [BAD] if wanted is BAD else inner(wrap, wanted) in made, (kind, text, made, wanted)
        tally("numbers of messages, exact or bad", len(NUMBERS))


def inner(wrap: str, value: Any) -> str:
    """Return the value of a column that contains it."""
    within = {"alone": value, "in a ROW": {"y": value}, "in an ARRAY": [value]}
    return repr(within.get(wrap, [None, {"y": value}]))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "canal-json"])
def test_an_object_of_a_key_has_one_text(tmp_path: Path, form: str) -> None:
    catalog = lake(tmp_path)
    catalog.create_database("shop")
    fields = [
        DataField(id=0, name="id", type=data_type("BIGINT")),
        DataField(id=1, name="x", type=data_type("STRING NOT NULL")),
    ]
    catalog.create_table("shop.orders", Schema(fields=fields, primary_keys=["x"], options={"bucket": "1"}))
    make, write = FORMS[form]
    spellings = ['{"a":1}', '{"a": 1}', '{ "a" : 1 }', '{"\\u0061":1}', "[1, 2]", "[1,2]"]
    doubtful = ['{"a":1.0}', '{"a":{"b":[1e0]}}', '{"b":2,"a":1}', '{"a":[{"b":2,"a":1}]}']
    as_text = ['"{\\"a\\": 1}"', '"{\\"b\\":1.0}"', '{"a":1,"b":2}', '{ "a": 1, "b": 2}', '"{\\"b\\":2,\\"a\\":1}"']
    values = [*spellings, *doubtful, *as_text]
    messages = [(None, write(i, value).encode()) for i, value in enumerate(values)]
    run = ingested(catalog, EncodedStream(messages=messages, decoder=make), sizes=[20], bad_messages=BadMessages.SKIP)
    assert run.result.bad == len(doubtful)
    found = {row["x"]: row["id"] for row in rows_of(catalog)}
    assert found == {
        '{"a":1}': 3,
        "[1,2]": 5,
        '{"a": 1}': 10,
        '{"b":1.0}': 11,
        '{"a":1,"b":2}': 13,
        '{"b":2,"a":1}': 14,
    }


@pytest.mark.sample(4)
@pytest.mark.parametrize("sizes", [[1], [10]])
@pytest.mark.parametrize(
    ("x", "other", "kind"),
    [
        ("16777217", "0.5", "FLOAT"),
        ("9007199254740993", '"1"', "DOUBLE"),
        ('"9007199254740993"', "null", "DOUBLE"),
        ("9007199254740993", "true", "DOUBLE"),
        ("9007199254740993", "0.5", "DOUBLE"),
        ("0.5", "9007199254740993", "BIGINT"),
        ("1e-400", "1.25", "DECIMAL(38, 2)"),
        ('"11111111111111111111111111111111111111"', "1", "DECIMAL(38, 2)"),
    ],
)
def test_a_run_skips_only_the_bad_value(tmp_path: Path, sizes: Sequence[int], x: str, other: str, kind: str) -> None:
    catalog = lake(tmp_path)
    catalog.create_database("shop")
    fields = [
        DataField(id=0, name="id", type=data_type("BIGINT NOT NULL")),
        DataField(id=1, name="x", type=data_type(kind)),
    ]
    catalog.create_table("shop.orders", Schema(fields=fields, primary_keys=["id"], options={"bucket": "1"}))
    messages = [(None, f'{{"id":{i},"x":{value}}}'.encode()) for i, value in enumerate((x, other, "null"))]
    is_other_bad = other == "true"
    run = ingested(
        catalog,
        EncodedStream(messages=messages, decoder=PlainJson),
        sizes=sizes,
        bad_messages=BadMessages.SKIP,
    )
    assert run.result.bad == 1 + is_other_bad
    assert [row["id"] for row in rows_of(catalog)] == ([2] if is_other_bad else [1, 2])
    assert str(catalog.get_table("shop.orders").fields[1].type) == kind


@pytest.mark.parametrize("sizes", [[1], [10]])
def test_an_integer_column_is_widened_for_its_first_value_that_does_not_fit(
    tmp_path: Path, sizes: Sequence[int]
) -> None:
    for number, values, kind, bad in (
        (0, ("1", "1099511627776", "0.5"), "BIGINT", 1),
        (1, ("1", "0.5", "1099511627776"), "DOUBLE", 0),
        (2, ("0.5", "9007199254740993"), "DOUBLE", 1),
        (3, ("9223372036854775808", "0.5", "1"), "DECIMAL(38, 0)", 1),
    ):
        catalog = lake(tmp_path / str(number))
        catalog.create_database("shop")
        fields = [
            DataField(id=0, name="id", type=data_type("BIGINT NOT NULL")),
            DataField(id=1, name="x", type=data_type("INT")),
        ]
        catalog.create_table("shop.orders", Schema(fields=fields, primary_keys=["id"], options={"bucket": "1"}))
        messages = [(None, f'{{"id":{i},"x":{value}}}'.encode()) for i, value in enumerate(values)]
        stream = EncodedStream(messages=messages, decoder=PlainJson)
        run = ingested(catalog, stream, sizes=sizes, bad_messages=BadMessages.SKIP)
        assert (run.result.bad, str(catalog.get_table("shop.orders").fields[1].type)) == (bad, kind), values


def test_a_text_computed_from_a_number_uses_the_digits_that_were_sent() -> None:
    [column] = [ComputedColumn.parse("y=substring(x,0,4)")]
    for values in (["1.50"], ["1.50", '"abcdef"'], ["1.50", "7"], ["12345678901234567890", "1.50"]):
        [changes] = PlainJson().decode(messages_of([f'{{"x":{x}}}'.encode() for x in values])).changes
        computed, bad = with_computed(changes, [column])
        wanted = [x.strip('"')[:4] for x in values]
        assert (computed.rows.column("y").to_pylist(), bad) == (wanted, [])


def test_values_of_rows_before_keep_their_digits_too(catalog: Catalog) -> None:
    source = '"source":{"db":"shop","schema":"public","table":"orders"}'
    number, other = "12345678901234567.89", "0.25"
    messages = [
        f'{{"before":null,"after":{{"id":1,"x":{other},"z":1}},{source},"op":"c"}}',
        f'{{"before":{{"id":1,"x":{number},"z":1}},"after":{{"id":1,"z":null}},{source},"op":"u"}}',
        f'{{"before":{{"id":1,"x":{other},"z":1}},"after":{{"id":1,"x":{number},"z":1}},{source},"op":"u"}}',
        f'{{"before":{{"id":1,"x":{number},"z":1}},"after":null,{source},"op":"d"}}',
    ]
    [changes] = DebeziumJson().decode(messages_of([each.encode() for each in messages])).changes
    fitted = ChangeFit(table_of(catalog, "DECIMAL(38, 2)")).fit(changes)
    assert not fitted.bad
    wanted = [other, number, number, other, number, number]
    assert [str(x) for x in fitted.rows.column("x").to_pylist()] == wanted
