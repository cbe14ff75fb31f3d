"""Texts and bytes longer than the length of their column are refused, as in Spark; shorter ones are not padded."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import interbed
from interbed.catalog.client.cli.table import table as command
from interbed.storage.base.errors import SchemaMismatchError
from interbed.storage.meta.schema.change import UpdateColumnType

TYPES = {"CHAR(3)": "abc", "VARCHAR(3)": "äöü", "BINARY(3)": b"abc", "VARBINARY(3)": b"\xc3\xa4\x00"}


def make(tmp_path: Path, kind: str, **options: str) -> interbed.Table:
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.create_database("d", ignore_if_exists=True)
    arguments = ["-o", f"warehouse={tmp_path}", "create", "d.t", "--column", "id INT NOT NULL", "--column", f"x {kind}"]
    chosen = [word for key, value in options.items() for word in ("--option", f"{key}={value}")]
    made = CliRunner().invoke(command, [*arguments, "--primary-key", "id", "--option", "bucket=1", *chosen])
    assert made.exit_code == 0, made.output
    return lake.get_table("d.t")


@pytest.mark.parametrize("kind", TYPES)
def test_values_that_are_too_long_are_refused_with_column_and_row(tmp_path: Path, kind: str) -> None:
    table, value = make(tmp_path, kind), TYPES[kind]
    longer: Any = value + value[:1]  # type: ignore[operator]
    table.upsert([{"id": 1, "x": value}, {"id": 2, "x": value[:1]}, {"id": 3, "x": None}])
    for rows in ([{"id": 4, "x": value}, {"id": 5, "x": longer}], [{"id": 4, "x": None}, {"id": 5, "x": longer}]):
        with pytest.raises(SchemaMismatchError, match=r"column 'x' of .*\(3\), and row 1 .* has 4 (characters|bytes)"):
            table.upsert(rows)
    read = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [row["x"] for row in read] == [value, value[:1], None]


@pytest.mark.parametrize("kind", ["CHAR(3)", "VARCHAR(3)"])
def test_existing_texts_that_are_too_long_can_be_deleted_and_compacted(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(tmp_path, kind)
    with monkeypatch.context() as java:
        # Java Paimon accepts such rows.
        java.setattr("interbed.storage.write.row_converter.RowConverter.check_lengths", lambda *_: None)
        table.upsert([{"id": 1, "x": "abcdef"}, {"id": 2, "x": "abcdef"}])
    table.write_changes(pa.table({"id": pa.array([1], pa.int32()), "x": ["abcdef"], "_row_kind": ["-D"]}))
    table.compact()
    table.maintenance.rescale(2)
    assert table.scan().to_arrow().to_pylist() == [{"id": 2, "x": "abcdef"}]


def test_a_type_with_a_greater_length_accepts_the_value(tmp_path: Path) -> None:
    make(tmp_path, "VARCHAR(3)")
    lake = interbed.load_catalog(warehouse=tmp_path)
    lake.alter_table("d.t", UpdateColumnType("x", interbed.data_type("VARCHAR(4)")))
    lake.get_table("d.t").upsert([{"id": 1, "x": "abcd"}])
    assert lake.get_table("d.t").scan().count() == 1


WITHIN: dict[str, tuple[str, Any, Any]] = {
    "ARRAY<VARCHAR(3)>": ("x.element", ["abc", None], ["a", "abcd"]),
    "ARRAY<BINARY(3)>": ("x.element", [b"abc"], [None, b"abcd"]),
    "MULTISET<CHAR(3)>": ("x.key", [("abc", 1)], [("a", 1), ("abcd", 2)]),
    "MAP<VARCHAR(3), INT>": ("x.key", [("abc", 1)], [("a", None), ("abcd", 2)]),
    "MAP<STRING, VARCHAR(3)>": ("x.value", [("abcdef", "abc")], [("a", None), ("b", "abcd")]),
    "ROW<a INT, b VARCHAR(3)>": ("x.b", {"a": 1, "b": "abc"}, {"a": 1, "b": "abcd"}),
    "ROW<a ARRAY<ROW<b VARCHAR(3)>>>": ("x.a.element.b", {"a": [{"b": "abc"}, None]}, {"a": [None, {"b": "abcd"}]}),
    "MAP<STRING, ARRAY<VARCHAR(3)>>": ("x.value.element", [("k", ["abc"])], [("k", []), ("l", ["a", "abcd"])]),
}
"""Type: the path in the error, a value that fits, and one that does not."""


@pytest.mark.parametrize("kind", WITHIN)
def test_nested_values_that_are_too_long_are_refused_with_path_and_row(tmp_path: Path, kind: str) -> None:
    table, (path, fits, longer) = make(tmp_path, kind), WITHIN[kind]
    table.upsert([{"id": 1, "x": fits}, {"id": 2, "x": None}])
    before = table.scan().to_arrow()
    for rows in ([None, fits, longer], [fits, None, longer, fits]):
        at = rows.index(longer)
        with pytest.raises(SchemaMismatchError, match=rf"column '{path}' of .*\(3\), and row {at} .* has 4 "):
            table.upsert([{"id": 4 + number, "x": value} for number, value in enumerate(rows)])
    assert table.scan().to_arrow().equals(before)


@pytest.mark.parametrize("kind", WITHIN)
def test_rows_with_nested_values_that_are_too_long_can_be_deleted(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, (_, fits, longer) = make(tmp_path, kind), WITHIN[kind]
    with monkeypatch.context() as java:
        # Java Paimon accepts such rows.
        java.setattr("interbed.storage.write.row_converter.RowConverter.check_lengths", lambda *_: None)
        table.upsert([{"id": 1, "x": fits}, {"id": 2, "x": longer}])
    rows = table.scan().to_arrow()
    deleted = rows.append_column("_row_kind", pa.array(["-D"] * rows.num_rows))
    # The rows of a slice have offsets of their own.
    table.write_changes(deleted.slice(1, 1))
    assert [row["id"] for row in table.scan().to_arrow().to_pylist()] == [1]
