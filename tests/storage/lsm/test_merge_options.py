"""Options of merge engines that contradict each other or the schema are refused when the table is created."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError, NotSupportedError
from interbed.storage.base.types.data_type import field_from_json
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.option_rules import changed_schema
from tests.support.peers.interbed import interbed_table

COLUMNS: list[tuple[str, str | dict[str, Any]]] = [
    ("id", "INT NOT NULL"),
    ("n", "INT"),
    ("t", "STRING"),
    ("short", "VARCHAR(5)"),
    ("b", "BYTES"),
    ("yes", "BOOLEAN"),
    ("list", {"type": "ARRAY", "element": "INT"}),
    ("map", {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
    ("rows", {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 90, "name": "k", "type": "INT"}]}}),
]

AGGREGATION = {"merge-engine": "aggregation"}
PARTIAL = {"merge-engine": "partial-update"}


def _function(column: str, function: str, **more: str) -> dict[str, str]:
    options = {f"fields.{column}.{key.replace('_', '-')}": value for key, value in more.items()}
    return {**AGGREGATION, f"fields.{column}.aggregate-function": function, **options}


@pytest.mark.parametrize(
    ("options", "error", "part"),
    [
        (_function("n", "summ"), InvalidOptionError, "unknown aggregate function 'summ'"),
        ({**AGGREGATION, "fields.default-aggregate-function": "none"}, InvalidOptionError, "'none'"),
        (_function("t", "sum"), InvalidOptionError, "'sum' needs column 't' to be a number"),
        (_function("list", "product"), InvalidOptionError, "'product' needs column 'list'"),
        (_function("n", "bool_and"), InvalidOptionError, "a BOOLEAN; it is INT"),
        (_function("yes", "max"), InvalidOptionError, "can be compared"),
        (_function("map", "min"), InvalidOptionError, "it is MAP"),
        (_function("short", "listagg"), InvalidOptionError, r"VARCHAR\(5\)"),
        (_function("n", "collect"), InvalidOptionError, "an ARRAY"),
        (_function("list", "merge_map"), InvalidOptionError, "a MAP"),
        (_function("map", "merge_map_with_keytime"), InvalidOptionError, "values of type ROW"),
        (_function("list", "nested_update"), InvalidOptionError, "an ARRAY of ROW"),
        (_function("rows", "nested_update", nested_key="q"), InvalidOptionError, "none of k"),
        (_function("rows", "nested_update", nested_sequence_field="k"), NotSupportedError, "nested-sequence-field"),
        (_function("rows", "nested_partial_update"), InvalidOptionError, "nested-key"),
        (_function("t", "rbm32"), InvalidOptionError, "a VARBINARY"),
        (_function("t", "rbm64"), InvalidOptionError, "a VARBINARY"),
        (_function("n", "hll_sketch"), InvalidOptionError, "a VARBINARY"),
        (_function("list", "theta_sketch"), InvalidOptionError, "a VARBINARY"),
        (
            {**_function("n", "sum", ignore_retract="true"), "aggregation.remove-record-on-delete": "true"},
            InvalidOptionError,
            "contradict",
        ),
        ({**AGGREGATION, "sequence.field": "n", "fields.n.aggregate-function": "sum"}, InvalidOptionError, "'n'"),
        ({"sequence.field": "n,n"}, InvalidOptionError, "twice"),
        ({"sequence.field": "n", "sequence.field.sort-order": "up"}, InvalidOptionError, "sort-order"),
        ({"rowkind.field": "n"}, InvalidOptionError, "no text column"),
        ({"rowkind.field": "x"}, InvalidOptionError, "no text column"),
        ({**PARTIAL, "fields.n.aggregate-function": "sum"}, InvalidOptionError, "sequence group"),
        ({**PARTIAL, "fields.x.sequence-group": "t"}, InvalidOptionError, "'x', which the table lacks"),
        ({**PARTIAL, "fields.n.sequence-group": "x"}, InvalidOptionError, "'x', which the table lacks"),
        ({**PARTIAL, "fields.n.sequence-group": "id"}, InvalidOptionError, "primary key"),
        ({**PARTIAL, "fields.id.sequence-group": "t"}, InvalidOptionError, "primary key"),
        ({**PARTIAL, "fields.list.sequence-group": "t"}, InvalidOptionError, "no order"),
        ({**PARTIAL, "fields.n.sequence-group": "t", "fields.b.sequence-group": "t"}, InvalidOptionError, "two"),
        (
            {**PARTIAL, "ignore-delete": "true", "partial-update.remove-record-on-delete": "true"},
            InvalidOptionError,
            "contradict",
        ),
        (
            {**PARTIAL, "fields.n.sequence-group": "t", "partial-update.remove-record-on-delete": "true"},
            InvalidOptionError,
            "sequence groups",
        ),
        (
            {**PARTIAL, "fields.n.sequence-group": "t", "partial-update.remove-record-on-sequence-group": "t"},
            InvalidOptionError,
            "of no group",
        ),
        ({"merge-engine": "first-row", "sequence.field": "n"}, InvalidOptionError, "sequence.field"),
        ({"merge-engine": "first-row", "changelog-producer": "input"}, InvalidOptionError, "changelog-producer"),
    ],
)
def test_tables_with_contradictory_options_are_not_created(
    options: dict[str, str], error: type[Exception], part: str, tmp_path: Path
) -> None:
    table = interbed_table(tmp_path, "db.t")
    with pytest.raises(error, match=part):
        table.create(COLUMNS, primary_keys=["id"], options={"bucket": "1", **options})
    assert not (tmp_path / "db.db" / "t" / "schema").exists()


def test_contradictory_options_cannot_be_set_later_either() -> None:
    fields = tuple(field_from_json({"id": i, "name": n, "type": t}) for i, (n, t) in enumerate(COLUMNS))
    schema = Schema(fields=fields, primary_keys=("id",), options={"bucket": "1", **AGGREGATION}).to_table_schema()
    with pytest.raises(InvalidOptionError, match="'sum' needs column 't'"):
        changed_schema(schema, [SetOption("fields.t.aggregate-function", "sum")])
    assert CoreOptions(schema.options).merge_engine == "aggregation"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"merge-engine": "first-row"}, "'first-row' take no -U and -D rows"),
        (PARTIAL, "'partial-update' take no -U and -D rows"),
        (_function("n", "max"), r"function 'max' of column 'n' can't take values back.*'fields\.n\.ignore-retract'"),
    ],
)
def test_unsupported_retractions_are_refused_and_leave_the_table_unchanged(
    options: dict[str, str], part: str, tmp_path: Path
) -> None:
    table = interbed_table(tmp_path, "db.t")
    table.create(COLUMNS[:2], primary_keys=["id"], options={"bucket": "1", **options})
    snapshot = table.write([[1, 5]])
    for kind in ("-U", "-D"):
        with pytest.raises(InvalidInputError, match=part):
            table.write([[2, 1], [1, 5]], kinds=["+I", kind])
    if options.get("merge-engine") != "first-row":
        assert table.read().rows == [[1, 5]]
    assert table.load().latest_snapshot().id == snapshot  # type: ignore[union-attr]


def test_the_rowkind_field_column_determines_the_kind_of_each_row(tmp_path: Path) -> None:
    table = interbed_table(tmp_path, "db.t")
    table.create(COLUMNS[:3], primary_keys=["id"], options={"bucket": "1", "rowkind.field": "t"})
    table.write([[1, 1, "+I"], [2, 2, "+I"], [3, 3, "+I"]])
    table.write([[1, 1, "-D"], [2, 5, "+U"], [3, 3, "-U"]])
    assert table.read().rows == [[2, 5, "+U"]]
    for wrong in ("D", None):
        with pytest.raises(InvalidInputError, match=f"not {wrong!r}"):
            table.write([[2, 9, wrong]])
    assert table.read().rows == [[2, 5, "+U"]]


def test_update_before_rows_are_ignored_when_the_option_is_set(tmp_path: Path) -> None:
    table = interbed_table(tmp_path, "db.t")
    options = {"bucket": "1", "ignore-update-before": "true", **_function("n", "sum")}
    table.create(COLUMNS[:2], primary_keys=["id"], options=options)
    table.write([[1, 5], [1, 3], [1, 2]], kinds=["+I", "-U", "-D"])
    assert table.read().rows == [[1, 3]]


def test_many_rows_of_one_key_are_aggregated_in_order(tmp_path: Path) -> None:
    table = interbed_table(tmp_path, "db.t")
    functions = {
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "fields.f.aggregate-function": "sum",
        "fields.t.aggregate-function": "max",
    }
    table.create(
        [("id", "INT NOT NULL"), ("n", "INT"), ("f", "DOUBLE"), ("t", "STRING")],
        primary_keys=["id"],
        options={"bucket": "1", **functions},
    )
    rows = 20_000
    data = pa.table(
        {
            "id": pa.array([0] * rows, pa.int32()),
            "n": pa.array([2**16] * rows, pa.int32()),
            "f": pa.array([0.1] * rows),
            "t": pa.array([f"{i:05d}" for i in range(rows)]),
        }
    )
    table.load().append(data)
    # One addition after the other, as Java's loop does.
    total = 0.0
    for _ in range(rows):
        total += 0.1
    expected = {"id": 0, "n": 2**16 * rows, "f": total, "t": f"{rows - 1:05d}"}
    assert table.load().scan().to_arrow().to_pylist() == [expected]
