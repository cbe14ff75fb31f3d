"""Rows in the forms that callers have, written to tables and read back."""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import interbed
from interbed.storage.base.errors import InvalidInputError, SchemaMismatchError
from interbed.storage.base.incoming import arrow_rows

ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "x", "day": dt.date(2026, 1, 1)},
    {"id": 2, "name": None, "day": None},
]
SCHEMA = pa.schema((("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())))


class ArrowStream:
    """An object of an unknown library that exports an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        table: Any = pa.Table.from_pylist(ROWS, schema=SCHEMA)
        return table.__arrow_c_stream__(requested_schema)


class Struct:
    """The same rows exported as one Arrow array."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        batch: Any = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA)
        return batch.__arrow_c_array__(requested_schema)


def arrow() -> pa.Table:
    return pa.Table.from_pylist(ROWS, schema=SCHEMA)


def relation() -> Any:
    return duckdb.connect().from_arrow(arrow())


FORMS: dict[str, Callable[[], Any]] = {
    "table": arrow,
    "batch": lambda: arrow().to_batches()[0],
    "reader": lambda: arrow().to_reader(),
    "dataset": lambda: ds.dataset(arrow()),
    "scanner": lambda: ds.dataset(arrow()).scanner(),
    "pandas": lambda: arrow().to_pandas(),
    "pandas with an index": lambda: arrow().to_pandas().set_index("id"),
    "pandas with other numbers of rows": lambda: arrow().to_pandas().set_index(pd.Index([7, 3])),
    "polars": lambda: pl.DataFrame(arrow()),
    "polars, lazy": lambda: pl.DataFrame(arrow()).lazy(),
    "duckdb": relation,
    "a stream": ArrowStream,
    "an array": Struct,
    "dicts": lambda: ROWS,
    "a tuple of dicts": lambda: tuple(ROWS),
}
forms = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.fixture
def catalog(tmp_path: Path) -> interbed.Catalog:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("shop")
    return catalog


@pytest.fixture
def table(catalog: interbed.Catalog) -> interbed.Table:
    return catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})


def content(table: interbed.Table) -> list[dict[str, Any]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


@forms
def test_rows_are_written_from_every_supported_form(table: interbed.Table, form: Callable[[], Any]) -> None:
    table.upsert(form())
    assert content(table) == ROWS
    table.append(form())
    table.overwrite(form())
    assert content(table) == ROWS


@forms
def test_a_table_is_created_from_every_supported_form(catalog: interbed.Catalog, form: Callable[[], Any]) -> None:
    table = catalog.create_table("shop.like", form(), options={"write-only": True})
    assert {f.name: str(f.type) for f in table.arrow_schema} == {f.name: str(f.type) for f in SCHEMA}
    assert table.latest_snapshot() is None
    copied = catalog.create_table_as("shop.copied", form())
    assert content(copied) == ROWS
    assert content(catalog.replace_table("shop.copied", form(), form())) == ROWS


def test_a_scan_can_be_written_to_another_table_and_provides_its_schema(
    catalog: interbed.Catalog, table: interbed.Table
) -> None:
    table.upsert(ROWS)
    other = catalog.create_table("shop.u", table.scan(columns=["id", "name"]))
    assert other.field_names == ["id", "name"]
    other.append(table.scan(columns=["name", "id"], filter="id = 1"))
    assert content(other) == [{"id": 1, "name": "x"}]


def test_changes_can_be_given_as_dicts(table: interbed.Table) -> None:
    table.write_changes([{**row, "_row_kind": "+I"} for row in ROWS])
    table.write_changes([{"id": 1, "_row_kind": 3}])
    assert content(table) == ROWS[1:]


def test_a_stream_is_read_batch_by_batch_while_it_is_written(table: interbed.Table) -> None:
    made: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(5):
            made.append(i)
            yield pa.record_batch({"id": [i], "name": ["x"], "day": pa.nulls(1, pa.date32())})

    rows = arrow_rows(pa.RecordBatchReader.from_batches(SCHEMA, batches()), what="t")
    assert made == []
    table.append(rows)
    assert [row["id"] for row in content(table)] == made == [0, 1, 2, 3, 4]
    endless = duckdb.connect().sql("select * from range(1000000000000) as numbers(id)")
    reader = arrow_rows(endless, what="t")
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_next_batch().num_rows > 0
    reader.close()


@pytest.mark.parametrize("series", [pd.Series(["x"], name="name"), pl.Series("name", ["x"])], ids=["pandas", "Polars"])
def test_a_column_without_a_frame_is_refused_by_name(series: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"not Series; give its to_frame\(\)"):
        arrow_rows(series, what="t")
    assert arrow_rows(series.to_frame(), what="t").schema.names == ["name"]


def test_dicts_get_the_types_of_the_table(catalog: interbed.Catalog) -> None:
    schema = pa.schema(
        (
            ("i", pa.int8()),
            ("price", pa.decimal128(5, 2)),
            ("at", pa.timestamp("us")),
            ("tags", pa.list_(pa.string())),
            ("counts", pa.map_(pa.string(), pa.int32())),
            ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        )
    )
    table = catalog.create_table("shop.types", schema)
    table.append(
        [
            {"i": 1, "price": 5, "at": dt.datetime(2026, 1, 1), "counts": {"a": 1}, "place": {"city": "x"}},
            {"price": Decimal("1.20"), "tags": ["a", None], "counts": [("b", 2)]},
            {},
        ]
    )
    rows = table.scan().to_arrow().to_pylist()
    nothing = dict.fromkeys(schema.names)
    assert rows == [
        {
            **nothing,
            "i": 1,
            "price": Decimal("5.00"),
            "at": dt.datetime(2026, 1, 1),
            "counts": [("a", 1)],
            "place": {"city": "x", "zip": None},
        },
        {**nothing, "price": Decimal("1.20"), "tags": ["a", None], "counts": [("b", 2)]},
        nothing,
    ]
    assert table.append([]) is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1, "colour": "red"}, "unknown column 'colour'; its columns are id, n, price, tags, place"),
        ({"id": 1, 7: 1}, "unknown column 7"),
        ({"id": 1.5}, "'id'.*int64.*double"),
        ({"id": "1"}, "'id'.*int64.*string"),
        ({"id": 1, "n": 300}, "'n'.*int8.*300"),
        ({"id": 2**80}, "'id'"),
        ({"id": 1, "price": Decimal("1.234")}, r"'price'.*decimal128\(5, 2\)"),
        ({"id": 1, "price": 1.239}, "'price'.*row 0 .*has 1.239"),
        ({"id": 1, "tags": [1.5]}, "'tags'.*1.5 is not a whole number"),
        ({"id": 1, "place": {"town": "x"}}, "'place'.*no field 'town'; the fields are city"),
        ({"id": 1, "place": 5}, "'place'"),
        ({"n": 1}, "'id'.*admits no nulls"),
    ],
)
def test_dicts_that_do_not_fit_are_refused_by_name(
    catalog: interbed.Catalog, row: dict[Any, Any], message: str
) -> None:
    schema = pa.schema(
        (
            ("id", pa.int64()),
            ("n", pa.int8()),
            ("price", pa.decimal128(5, 2)),
            ("tags", pa.list_(pa.int32())),
            ("place", pa.struct([("city", pa.string())])),
        )
    )
    table = catalog.create_table("shop.t", schema, primary_keys=["id"], options={"bucket": "1"})
    with pytest.raises(SchemaMismatchError, match=message):
        table.upsert([row])
    assert table.latest_snapshot() is None


def test_a_float_becomes_the_decimal_of_its_shortest_text(catalog: interbed.Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema((pa.field("id", pa.int64()), pa.field("p", pa.decimal128(5, 2)))))
    for rows in ([{"id": 1, "p": 1.1}], pd.DataFrame({"id": [1], "p": [1.1]}), pa.table({"id": [1], "p": [1.1]})):
        table.overwrite(rows)
        assert content(table) == [{"id": 1, "p": Decimal("1.10")}]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (7, "not int"),
        (None, "not NoneType"),
        ("id", "not str"),
        ({"id": [1]}, r"not dict; give a list of dicts.*pyarrow\.table"),
        ([(1, "x")], r"not list such as this one, in which \(1, 'x'\) is no dict"),
    ],
)
def test_an_object_without_rows_is_refused(
    catalog: interbed.Catalog, table: interbed.Table, data: Any, message: str
) -> None:
    for take in (table.upsert, table.append, table.overwrite, table.write_changes):
        with pytest.raises(InvalidInputError, match=message):
            take(data)
    with pytest.raises(InvalidInputError, match=message):
        catalog.create_table("shop.x", data)


def test_new_keys_become_columns_where_schemas_are_merged(table: interbed.Table) -> None:
    table.upsert([{"id": 1, "note": "n", "size": 2.5}], merge_schema=True)
    assert table.field_names == ["id", "name", "day", "note", "size"]
    assert content(table)[0]["note"] == "n"


def test_whole_numbers_in_float_columns_of_pandas_are_integers(table: interbed.Table) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    frame = pd.DataFrame({"id": [1, 2], "n": [5.0, None]})
    found = arrow_rows(frame, schema, what="t")
    assert not isinstance(found, pa.RecordBatchReader)
    assert found.to_pydict() == {"id": [1, 2], "n": [5, None]}
    frame["n"] = [5.5, None]
    assert arrow_rows(frame, schema, what="t").schema.field("n").type == pa.float64()


LABELS = {
    "texts": (pd.Index(["2000-01-01", "2010-01-02"]), "'2000-01-01'"),
    "times": (pd.date_range("2026-01-01", periods=2), r"Timestamp\('2026-01-01 00:00:00'\)"),
    "fractions": (pd.Index([0.5, 1.5]), "0.5"),
    "levels": (pd.MultiIndex.from_tuples([("x", "a"), ("y", "b")], names=["name", None]), "'a'"),
}


@pytest.mark.parametrize(("index", "label"), LABELS.values(), ids=LABELS)
def test_labels_of_an_index_without_a_name_are_refused(table: interbed.Table, index: pd.Index, label: str) -> None:
    frame = pd.DataFrame({"id": [1, 2]}, index=index)
    with pytest.raises(SchemaMismatchError, match=rf"index .* no name, such as {label}.*rename_axis.*reset_index"):
        table.append(frame)
    assert table.snapshots() == []


def test_an_index_that_differs_from_the_column_of_its_name_is_refused(table: interbed.Table) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["x", "y"]}).set_index("id", drop=False)
    table.append(frame)
    with pytest.raises(SchemaMismatchError, match=r"index 'id' .* other values than the column 'id'"):
        table.append(frame.assign(id=[3, 4]))
    assert [row["id"] for row in content(table)] == [1, 2]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"id": [1, 2, 3]}).iloc[1:],
        pd.DataFrame({"id": [3, 2, 4]}).query("id != 4").sort_values("id"),
        pd.DataFrame({"id": [2, 3]}, index=pd.Index([0, 1], dtype=object)),
        pd.concat([pd.DataFrame({"id": [2]}), pd.DataFrame({"id": [3]})]),
    ],
    ids=["slice", "query", "objects", "concat"],
)
def test_numbers_of_rows_in_an_index_are_left_out(table: interbed.Table, frame: pd.DataFrame) -> None:
    table.append(frame)
    assert [row["id"] for row in content(table)] == [2, 3]


def test_an_index_without_rows_has_no_labels(table: interbed.Table) -> None:
    assert table.append(pd.DataFrame({"id": pd.Series([], dtype="int64")}, index=pd.Index([], dtype=object))) is None


def test_pandas_categories_are_written_as_strings(catalog: interbed.Catalog) -> None:
    frame = pl.DataFrame({"id": [1], "c": pl.Series(["a"], dtype=pl.Categorical)})
    for number, data in enumerate([frame, frame.lazy(), frame.to_pandas()]):
        table = catalog.create_table_as(f"shop.c{number}", data)
        assert content(table) == [{"id": 1, "c": "a"}]
        assert str(table.arrow_schema.field("c").type) == "string"


@pytest.mark.parametrize(
    ("kind", "values", "lacking"),
    [
        (pl.Int128, [2**100], "Int128"),
        (pl.UInt128, [2**100], "Int128"),
        (pl.Object, [{1, 2}], "Object"),
        (pl.List(pl.Int128), [[2**100]], "Int128"),
        (pl.Struct({"x": pl.Int128}), [{"x": 2**100}], "Int128"),
    ],
)
def test_the_error_names_polars_columns_without_an_arrow_type(kind: Any, values: list[Any], lacking: str) -> None:
    frame = pl.DataFrame({"id": [1], "x": pl.Series(values, dtype=kind)})
    given = [frame] if kind is pl.Object else [frame, frame.lazy()]
    for data in given:
        with pytest.raises(SchemaMismatchError, match=f"The column 'x' of the Polars frame is .*{lacking}.*; cast it"):
            arrow_rows(data, what="d.t")


def test_a_stream_of_another_library_with_an_unknown_type_is_refused() -> None:
    class ArrowStream:
        def __init__(self) -> None:
            self._frame = pl.DataFrame({"x": pl.Series([2**100], dtype=pl.Int128)})

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return self._frame.__arrow_c_stream__(requested_schema)

    with pytest.raises(SchemaMismatchError, match="a column of a type that Arrow lacks"):
        arrow_rows(ArrowStream(), what="d.t")
