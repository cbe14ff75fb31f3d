"""Numbers are converted to DECIMAL exactly or refused; Arrow's own casts overflow silently beyond 128 bits."""

from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import interbed
from interbed.cli import main
from interbed.storage.base.arrow_values import exact_decimals
from interbed.storage.base.errors import InterbedError
from tests.support.tally import Tally

WRAPPED = [
    ("3921269018413419811328609574339736758", 38, 2),
    ("-3921269018413419811328609574339736758", 38, 2),
    ("800000000000000000000", 38, 20),
    ("892", 38, 38),
]
"""Numbers that Arrow converts to wrong values, and the types that they do not fit."""

_WIDE = Context(prec=100)


@given(
    st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-1000, 1000),
    st.integers(0, 38),
    st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))),
)
def test_a_decimal_is_converted_exactly_or_refused(unscaled: int, scale: int, target: tuple[int, int]) -> None:
    value = Decimal(unscaled).scaleb(-scale, _WIDE)
    precision, wanted = target
    shifted = value.scaleb(wanted, _WIDE)
    fits = shifted == shifted.to_integral_value(context=_WIDE) and abs(shifted) < 10**precision
    arrow = pa.decimal128(precision, wanted)
    texts: Any = pa.array([f"{value:f}", None, f"{value:E}"])
    decimals: Any = pa.array([value, None, value], pa.decimal128(38, scale))
    wide: Any = pa.array([value, None, value], pa.decimal256(76, scale))
    for given_ in (texts, decimals, wide):
        if fits:
            assert exact_decimals(given_, arrow).to_pylist() == [value, None, value]
        else:
            with pytest.raises(pa.ArrowInvalid):
                exact_decimals(given_, arrow)


@pytest.mark.parametrize(("text", "precision", "scale"), WRAPPED)
def test_no_write_path_overflows_silently(tmp_path: Path, text: str, precision: int, scale: int, tally: Tally) -> None:
    lake = interbed.load_catalog(warehouse=tmp_path / "lake")
    lake.create_database("d")
    arrow: Any = pa.decimal128(precision, scale)
    table = lake.create_table("d.t", pa.schema([("k", pa.int64()), ("x", arrow), ("l", pa.list_(arrow))]))
    value = Decimal(text)
    ids = pa.array([1, 2], pa.int64())
    decimals: Any = pa.array([value, Decimal(0)], pa.decimal128(38, 0))
    wide: Any = pa.array([value, Decimal(0)], pa.decimal256(76, 0))
    ways: dict[str, Any] = {
        "decimals": lambda: table.append(pa.table({"k": ids, "x": decimals})),
        "wide decimals": lambda: table.append(pa.table({"k": ids, "x": wide})),
        "elements": lambda: table.append(pa.table({"k": ids, "l": pa.array([[value], []], pa.list_(decimals.type))})),
        "floats": lambda: table.append(pa.table({"k": ids, "x": [float(value), 0.0]})),
        "dicts": lambda: table.append([{"k": 1, "x": value}, {"k": 2, "x": Decimal(0)}]),
        "integers": lambda: table.append([{"k": 1, "x": int(value)}, {"k": 2, "x": 0}]),
    }
    for way in ways.values():
        with pytest.raises(InterbedError):
            way()
    command = ["-o", f"warehouse={tmp_path / 'lake'}"]
    for number, content in enumerate((f"k,x\n1,{text}\n", f"k,x\n1,{Decimal(text):E}\n", f"k,x\n1,0\n2,{text}.0\n")):
        (tmp_path / f"{number}.csv").write_text(content)
        refused = CliRunner().invoke(main, ["table", *command, "import", "d.t", str(tmp_path / f"{number}.csv")])
        assert (refused.exit_code, "column 'x'" in refused.output) == (1, True), refused.output
    (tmp_path / "a.jsonl").write_text(f'{{"k": 1, "x": {text}}}\n')
    assert CliRunner().invoke(main, ["table", *command, "import", "d.t", str(tmp_path / "a.jsonl")]).exit_code == 1
    for source in (f"VALUES (1, {text}, NULL)", f"SELECT 1, CAST({text} AS DECIMAL(38, 0)), NULL"):
        refused = CliRunner().invoke(main, [*command, "sql", f"INSERT INTO d.t {source}"])
        assert refused.exit_code == 1, refused.output
    assert table.latest_snapshot() is None
    tally("ways in that wrap no number around", len(ways) + 6)


@pytest.mark.parametrize(("text", "precision", "scale"), WRAPPED)
def test_no_filter_or_lookup_overflows_silently(tmp_path: Path, text: str, precision: int, scale: int) -> None:
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.create_database("d")
    arrow: Any = pa.decimal128(precision, scale)
    wrong: Any = pa.array([Decimal(text)], pa.decimal128(38, 0)).cast(arrow)
    schema = pa.schema([pa.field("x", arrow, nullable=False), pa.field("v", pa.int64())])
    table = lake.create_table("d.t", schema, primary_keys=["x"], options={"bucket": "1"})
    table.upsert(pa.table({"x": wrong, "v": [1]}, schema=schema))
    assert table.scan(filter=f"x = {text}").count() == 0
    assert table.scan(filter=interbed.col("x") == Decimal(text)).count() == 0
    assert table.scan(filter=f"x <= {text}").count() == (1 if Decimal(text) >= wrong[0].as_py() else 0)
    for keys in ([Decimal(text)], pa.table({"x": pa.array([Decimal(text)], pa.decimal128(38, 0))})):
        try:
            found = table.get_many(keys).num_rows
        except InterbedError:
            continue
        assert found == 0
