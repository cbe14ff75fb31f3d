"""`sum` and `product` never overflow silently: the result is exact, or an error that names the column."""

from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.types.data_type import field_from_json
from interbed.storage.lsm.merge_function.fields.functions import field_function
from interbed.storage.lsm.merge_function.segments import KeyRows
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.table.table import Table
from tests.support.tally import Tally

INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
DECIMALS = [(1, 0), (4, 2), (9, 9), (18, 0), (18, 4), (19, 2), (20, 2), (38, 0), (38, 10)]
TYPES = [*INTEGERS, *(f"DECIMAL({p}, {s})" for p, s in DECIMALS)]
ARROW: dict[str, pa.DataType] = {
    **{name: getattr(pa, f"int{bits}")() for name, bits in INTEGERS.items()},
    **{f"DECIMAL({p}, {s})": pa.decimal128(p, s) for p, s in DECIMALS},
}
ADDS, RETRACTS = "+", "-"
_EXACT = Context(prec=100)
Step = tuple[str, int | None]


def _bounds(of: str) -> tuple[int, int, int]:
    """The least and the greatest integer of a type (of a decimal: without its scale), and the scale."""
    if of in INTEGERS:
        return -(1 << (INTEGERS[of] - 1)), (1 << (INTEGERS[of] - 1)) - 1, 0
    kind: Any = ARROW[of]
    return -(10**kind.precision) + 1, 10**kind.precision - 1, kind.scale


def _extremes(of: str) -> list[int | None]:
    least, greatest, scale = _bounds(of)
    one = 10**scale if 10**scale <= greatest else 1
    return [None, *sorted({least, least + 1, -one, 0, 1, one, greatest // 2 + 1, greatest - 1, greatest})]


def _rounded(a: int, b: int) -> int:
    magnitude = (2 * abs(a) + abs(b)) // (2 * abs(b))
    return -magnitude if (a < 0) != (b < 0) else magnitude


def _sum(of: str, steps: Sequence[Step]) -> int | str | None:
    """The exact sum of all rows; an error text when it is beyond the type."""
    least, greatest, _ = _bounds(of)
    numbers = [v if kind == ADDS else -v for kind, v in steps if v is not None]
    if not numbers:
        return None
    return sum(numbers) if least <= sum(numbers) <= greatest else "beyond"


def _product(of: str, steps: Sequence[Step]) -> int | str | None:
    """The product, rounded to the scale at each step; an error text when a step is beyond the type."""
    least, greatest, scale = _bounds(of)
    held: int | None = None
    for _, value in steps:
        if value is not None:
            held = value if held is None else _rounded(held * value, 10**scale)
            if not least <= held <= greatest:
                return "beyond"
    return held


MODELS: dict[str, Callable[[str, Sequence[Step]], int | str | None]] = {"sum": _sum, "product": _product}


def _column(of: str, values: Sequence[int | None]) -> Any:
    scale = _bounds(of)[2]
    made: list[Any] = [None if v is None else Decimal(v).scaleb(-scale, _EXACT) for v in values]
    return pa.array(made if of not in INTEGERS else values, ARROW[of])


def _integers(of: str, column: Any) -> list[int | None]:
    column.validate(full=True)
    assert column.type == ARROW[of]
    scale = _bounds(of)[2]
    return [None if v is None else int(Decimal(v).scaleb(scale, _EXACT)) for v in column.to_pylist()]


def _refusal(error: InvalidInputError, of: str, function: str) -> str:
    begin, end = f"The function '{function}' of column 'c' makes ", f", which its type {of} does not hold."
    return "beyond" if str(error).startswith(begin) and end in str(error) else str(error)


def _folded(of: str, function: str, steps: Sequence[Step]) -> int | str | None:
    """Aggregate the rows of one key one by one."""
    field = field_from_json({"id": 1, "name": "c", "type": of})
    fold = field_function(field, function, CoreOptions({})).fold(_column(of, [v for _, v in steps]), 1)
    try:
        for row, (kind, _) in enumerate(steps):
            (fold.add if kind == ADDS else fold.retract_unless_ignored)(slice(0, 1), np.array([row]))
        result: Any = fold.result()
    except InvalidInputError as error:
        return _refusal(error, of, function)
    return _integers(of, result)[0]


def _reduced(of: str, function: str, values: Sequence[int | None]) -> int | str | None:
    """Aggregate the rows of one key at once, together with those of other keys."""
    field = field_from_json({"id": 1, "name": "c", "type": of})
    greatest = _bounds(of)[1]
    fold = field_function(field, function, CoreOptions({})).fold(_column(of, [greatest, *values, greatest]), 0)
    try:
        result: Any = fold.reduce(KeyRows(np.arange(len(values) + 2), np.array([0, 1, len(values) + 1])))
    except InvalidInputError as error:
        return _refusal(error, of, function)
    if result is None:
        return _folded(of, function, [(ADDS, v) for v in values])
    assert _integers(of, result)[::2] == [greatest, greatest]
    return _integers(of, result)[1]


@pytest.mark.sample(8)
@pytest.mark.parametrize("function", MODELS)
@pytest.mark.parametrize("of", TYPES)
def test_extremes_are_added_and_multiplied_exactly_or_refused(of: str, function: str, tally: Tally) -> None:
    values = _extremes(of)
    cases = [*product(values, repeat=2), *product(values, repeat=3)]
    refused = 0
    for case in cases:
        steps = [(ADDS, v) for v in case]
        wanted = MODELS[function](of, steps)
        assert _folded(of, function, steps) == wanted, case
        assert _reduced(of, function, case) == wanted, case
        refused += wanted == "beyond"
    assert (refused > 0) == ((of, function) != ("DECIMAL(9, 9)", "product"))
    assert refused < len(cases)
    tally("sums and products of extreme numbers", 2 * len(cases))


@pytest.mark.sample(5)
@pytest.mark.parametrize("of", TYPES)
def test_extremes_are_retracted_exactly_or_refused(of: str, tally: Tally) -> None:
    kinds = (ADDS, RETRACTS)
    values = _extremes(of)
    cases = [list(zip(k, v, strict=True)) for k in product(kinds, repeat=2) for v in product(values, repeat=2)]
    # Retractions that overflow, and a third row that brings the sum back into range.
    cases += [list(zip(k, v, strict=True)) for k in product(kinds, repeat=3) for v in product(values[::2], repeat=3)]
    for case in cases:
        assert _folded(of, "sum", case) == _sum(of, case), case
    tally("sums of extreme numbers with retracted rows", len(cases))


def test_sums_of_many_rows_may_exceed_64_bits() -> None:
    for count in (1_000, 70_000):
        for of, greatest in (("BIGINT", 2**63 - 1), ("TINYINT", 127)):
            back = [greatest] * count + [-greatest] * count
            assert _reduced(of, "sum", back) == 0
            assert _reduced(of, "sum", [*back, 1, greatest]) == "beyond"
            assert _reduced(of, "product", [1, -1] * count) == (-1) ** count


def test_retracting_a_factor_of_minus_one_from_the_least_integer_is_refused() -> None:
    for of, bits in INTEGERS.items():
        least = -(1 << (bits - 1))
        assert _folded(of, "product", [(ADDS, least), (RETRACTS, -1)]) == "beyond"
        assert _folded(of, "product", [(ADDS, least), (RETRACTS, 2)]) == least // 2


def test_floats_become_infinite() -> None:
    field = field_from_json({"id": 1, "name": "c", "type": "FLOAT"})
    for function, values in (("sum", [3e38, 3e38]), ("product", [3e38, 10.0])):
        fold = field_function(field, function, CoreOptions({})).fold(pa.array(values, pa.float32()), 0)
        reduced: Any = fold.reduce(KeyRows(np.arange(2), np.array([0])))
        assert reduced.to_pylist() == [float("inf")]


# Cases of tables: type, function, the values written one by one, the next wider type and the result in it.
BEYOND: dict[str, tuple[pa.DataType, str, list[Any], str, Any]] = {
    "tiny product": (pa.int8(), "product", [127, 127], "SMALLINT", 16_129),
    "int sum": (pa.int32(), "sum", [2**31 - 1, 1], "BIGINT", 2**31),
    "short decimal sum": (pa.decimal128(4, 2), "sum", ["99.99", "0.01"], "DECIMAL(20, 2)", "100.00"),
    "short decimal product": (pa.decimal128(4, 2), "product", ["99.99", "99.99"], "DECIMAL(20, 2)", "9998.00"),
    "decimal sum": (pa.decimal128(20, 2), "sum", ["9" * 18, "1"], "DECIMAL(30, 2)", "1" + "0" * 18 + ".00"),
}


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Table]]:
    catalog = interbed.load_catalog("limits", warehouse=tmp_path.as_uri())
    catalog.create_database("d")

    def made(of: pa.DataType, function: str, **options: str) -> Table:
        name = f"d.t{len(catalog.list_tables('d'))}"
        fields = [pa.field("k", pa.int64(), nullable=False), pa.field("v", of), pa.field("w", pa.string())]
        schema = pa.schema(fields)
        chosen = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": function}
        return catalog.create_table(name, schema, primary_keys=["k"], options={**chosen, **options})

    yield made
    catalog.close()


def _value(of: pa.DataType, value: Any) -> Any:
    return Decimal(value) if pa.types.is_decimal(of) else value


@pytest.mark.sample(6)
@pytest.mark.parametrize("file_format", ["parquet", "avro", "orc"])
@pytest.mark.parametrize("case", BEYOND)
def test_readers_of_an_overflowed_sum_get_an_error_until_the_column_is_widened(
    make: Callable[..., Table], case: str, file_format: str
) -> None:
    of, function, values, wider, wanted = BEYOND[case]
    table = make(of, function, **{"file.format": file_format, "write-only": "true"})
    for value in values:
        table.upsert([{"k": 1, "v": _value(of, value), "w": "x"}, {"k": 2, "v": _value(of, 1), "w": "y"}])
    reads: list[Callable[[], Any]] = [
        lambda: table.scan().to_arrow(),
        lambda: table.scan(filter="v > 50").count(),
        lambda: table.get((1,)),
        lambda: table.copy({"write-only": "false"}).compact(),
    ]
    for read in reads:
        with pytest.raises(InvalidInputError, match=f"'{function}' of column 'v' makes .* its type .* does not hold"):
            read()
    assert table.scan(columns=["k", "w"]).to_arrow().num_rows == 2
    with table.update_schema() as update:
        update.update_column_type("v", wider)
    assert [row["v"] for row in table.scan(filter="k = 1").to_arrow().to_pylist()] == [_value(of, wanted)]
    table.copy({"write-only": "false"}).compact()
    assert table.scan(filter="v > 50").count() == 1


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_a_row_that_overflows_on_merge_is_refused_and_nothing_is_committed(
    make: Callable[..., Table], producer: str
) -> None:
    table = make(pa.int32(), "sum", **{"changelog-producer": producer})
    table.upsert([{"k": 1, "v": 2**31 - 1, "w": "x"}])
    before = table.latest_snapshot()
    with pytest.raises(InvalidInputError, match="makes 4294967294, which its type INT does not hold"):
        table.upsert([{"k": 2, "v": 2**31 - 1, "w": "x"}] * 2)
    if producer == "lookup":
        with pytest.raises(InvalidInputError, match="makes 2147483648, which its type INT does not hold"):
            table.upsert([{"k": 1, "v": 1, "w": "y"}])
        assert table.latest_snapshot() == before
        assert table.scan().to_arrow()["v"].to_pylist() == [2**31 - 1]


def test_a_row_that_brings_an_overflowed_sum_into_range_makes_the_key_readable(make: Callable[..., Table]) -> None:
    table = make(pa.int32(), "sum", **{"write-only": "true"})
    for value in (2**31 - 1, 1):
        table.upsert([{"k": 1, "v": value, "w": "x"}])
    with pytest.raises(InvalidInputError, match="2147483648"):
        table.scan().to_arrow()
    table.upsert([{"k": 1, "v": -1, "w": "y"}])
    assert table.scan().to_arrow()["v"].to_pylist() == [2**31 - 1]
