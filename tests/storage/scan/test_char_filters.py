"""Filters of CHAR columns find values that writers padded and values that they did not, wherever the column is used."""

import operator
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import interbed
from interbed import DataField, Schema, data_type
from interbed.storage.table.table import Table

VALUES = ["a", "a ", "a  ", "ab", "ab ", "b", "", " ", "a\t", "abc"]
LAYOUTS: dict[str, tuple[list[str], list[str], dict[str, str]]] = {
    "append": ([], [], {}),
    "append with indexes": ([], [], {"file-index.bloom-filter.columns": "c", "file-index.bitmap.columns": "c"}),
    "append, buckets by the column": ([], [], {"bucket": "3", "bucket-key": "c"}),
    "partitions": ([], ["c"], {}),
    "key": (["c"], [], {"bucket": "3"}),
    "key, deletion vectors": (["c"], [], {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "key and partitions": (["p", "c"], ["p"], {"bucket": "2"}),
}
COMPARED: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">=": operator.ge,
}


def compared_with(symbol: str, text: str) -> Callable[[str], bool]:
    return lambda value: COMPARED[symbol](value, text.ljust(3))


CONDITIONS: dict[str, Callable[[str], bool]] = {
    "c IN ('a', 'b  ')": lambda c: c in ("a  ", "b  "),
    "c NOT IN ('a', 'b  ')": lambda c: c not in ("a  ", "b  "),
    "c BETWEEN 'a' AND 'ab'": lambda c: "a  " <= c <= "ab ",
    **{f"c {symbol} '{text}'": compared_with(symbol, text) for symbol, text in product(COMPARED, ("a", "ab ", ""))},
}
"""Conditions, and whether a padded value meets them."""


def expected(condition: str) -> list[str]:
    return sorted(value for value in VALUES if CONDITIONS[condition](value.ljust(3)))


def filled(tmp_path: Path, layout: str, form: str) -> Table:
    keys, partitions, options = LAYOUTS[layout]
    catalog = interbed.load_catalog(warehouse=tmp_path)
    catalog.create_database("s")
    fields = [
        DataField(id=0, name="c", type=data_type("CHAR(3) NOT NULL")),
        DataField(id=1, name="p", type=data_type("CHAR(2) NOT NULL")),
    ]
    schema = Schema(
        fields=fields, primary_keys=keys, partition_keys=partitions, options={**options, "file.format": form}
    )
    table = catalog.create_table("s.t", schema)
    for part in (VALUES[:3], VALUES[3:6], VALUES[6:]):
        table.append([{"c": value, "p": "x " if value.endswith(" ") else "x"} for value in part])
    return table


def found(table: Table, **scan: Any) -> list[str]:
    values: list[Any] = table.scan(**scan).to_arrow().column("c").to_pylist()
    return sorted(values)


@pytest.mark.parametrize(
    ("layout", "form"), [*((each, "parquet") for each in LAYOUTS), ("key", "orc"), ("key", "avro")]
)
def test_a_filter_finds_padded_and_other_values(tmp_path: Path, layout: str, form: str) -> None:
    table = filled(tmp_path, layout, form)
    for compacted in (False, True):
        if compacted:
            table.compact()
        for condition in CONDITIONS:
            assert found(table, filter=condition) == expected(condition), condition
            assert table.scan(filter=condition).count() == len(expected(condition)), condition
        assert found(table, filter="p = 'x' AND c = 'b'") == ["b"]
        assert found(table, filter=interbed.col("c") == "a") == expected("c = 'a'")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_deletion_deletes_what_the_filter_finds(tmp_path: Path, layout: str) -> None:
    table = filled(tmp_path, layout, "parquet")
    table.delete("c = 'a'")
    assert found(table) == sorted(value for value in VALUES if value.rstrip(" ") != "a")
    table.delete("c <> 'ab'")
    assert found(table) == ["ab", "ab "]


def test_a_choice_of_partitions_by_a_filter_ignores_blanks(tmp_path: Path) -> None:
    table = filled(tmp_path, "partitions", "parquet")
    table.delete_partitions("c = 'a'")
    assert found(table) == sorted(value for value in VALUES if value.rstrip(" ") != "a")
    table.delete_partitions({"c": "ab"})
    assert "ab " in found(table), "a mapping names one partition"
