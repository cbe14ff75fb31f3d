"""One order of floats in every read path: NaN equals itself and is the greatest, -0.0 equals 0.0, as in Spark.

A table of conditions is compared with a few lines of Python: on rows in memory, in files of each format with statistics
and with each kind of index, in partitions, in merged keys, through DuckDB and Polars, and for deletions.
"""

import itertools
import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import interbed
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import bind
from interbed.storage.base.types.data_type import AtomicType, DataField, TypeRoot
from interbed.storage.table.table import Table
from tests.support.shares import LONG
from tests.support.tally import Tally

NAN, INF = math.nan, math.inf
OTHER_NAN: float = struct.unpack("<f", bytes.fromhex("0100c0ff"))[0]
"""NaN of another sign and other bits below it."""
FILES: list[list[float | None]] = [
    [1.5],
    [NAN],
    [-0.0],
    [0.0, None],
    [INF, NAN],
    [-INF, 1.5, 0.0],
    [None],
    [None, OTHER_NAN],
    [1.5, NAN, -0.0, None, 1.5],
    [NAN, -INF, 2.5],
]
"""The values of each file. Statistics depend on the values next to NaN."""
ROWS = list(enumerate(itertools.chain.from_iterable(FILES)))
LITERALS = [NAN, -0.0, 0.0, INF, -INF, 1.5]
TEXTS = {INF: "'Infinity'", -INF: "'-Infinity'"}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
Truth = Callable[[float | None], bool | None]


def rank(value: float) -> tuple[bool, float]:
    """Return the sort key of a float in SQL's order."""
    return (True, 0.0) if value != value else (False, value + 0.0)


def text(value: float | None) -> str:
    if value is None:
        return "NULL"
    return "'NaN'" if value != value else TEXTS.get(value, repr(value))


def compared(sign: str, literal: float | None) -> Truth:
    def truth(value: float | None) -> bool | None:
        return None if value is None or literal is None else COMPARISONS[sign](rank(value), rank(literal))

    return truth


def joined(parts: list[Truth], *, whole: bool) -> Truth:
    """Return the conjunction or disjunction of the parts in three-valued logic."""

    def truth(value: float | None) -> bool | None:
        found = [part(value) for part in parts]
        return (not whole) if (not whole) in found else None if None in found else whole

    return truth


def opposite(inner: Truth) -> Truth:
    def truth(value: float | None) -> bool | None:
        found = inner(value)
        return None if found is None else not found

    return truth


def conditions() -> Iterator[tuple[str, Truth]]:
    """Each condition on `x` as text, with its truth value for a column value."""
    for sign, literal in itertools.product(COMPARISONS, LITERALS):
        yield f"x {sign} {text(literal)}", compared(sign, literal)
    for low, high in itertools.product(LITERALS, LITERALS):
        truth = joined([compared(">=", low), compared("<=", high)], whole=True)
        yield f"x BETWEEN {text(low)} AND {text(high)}", truth
        yield f"x NOT BETWEEN {text(low)} AND {text(high)}", opposite(truth)
    members: list[list[float | None]] = [[v] for v in LITERALS]
    members += [[a, b] for a, b in itertools.combinations([*LITERALS, None], 2)]
    members += [[2.5, NAN, 0.0]]
    for values in members:
        truth = joined([compared("=", v) for v in values], whole=False)
        listed = ", ".join(map(text, values))
        yield f"x IN ({listed})", truth
        yield f"x NOT IN ({listed})", opposite(truth)
    yield "x IS NULL", lambda value: value is None
    yield "x IS NOT NULL", lambda value: value is not None


PLAIN = list(conditions())
CONDITIONS = PLAIN + [(f"NOT ({words})", opposite(truth)) for words, truth in PLAIN]
FEWER = CONDITIONS if LONG else CONDITIONS[::13]
ARROW = {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}
KINDS = sorted(ARROW)


def expected(truth: Truth) -> list[int]:
    return [number for number, value in ROWS if truth(value) is True]


def found(table: Table, words: str) -> list[int]:
    column: Any = table.scan(columns=["id"], filter=words).to_arrow().column("id")
    return sorted(column.to_pylist())


def made(
    path: Path,
    kind: str,
    options: dict[str, str] | None = None,
    primary_keys: list[str] | None = None,
    partition_keys: list[str] | None = None,
) -> Table:
    """A table with a file for each of FILES, with the given kind of column `x`."""
    catalog = interbed.load_catalog("lake", warehouse=str(path))
    catalog.create_database("d")
    schema = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("x", ARROW[kind])))
    table = catalog.create_table(
        "d.t",
        schema,
        primary_keys=primary_keys,
        partition_keys=partition_keys,
        options={"write-only": "true", **(options or {})},
    )
    numbers = itertools.count()
    for values in FILES:
        table.append(pa.table({"id": [next(numbers) for _ in values], "x": values}, schema=schema))
    return table


def check(find: Callable[[str], list[int]], cases: list[tuple[str, Truth]], tally: Tally) -> None:
    wrong = [words for words, truth in cases if find(words) != expected(truth)]
    assert not wrong, wrong
    tally("conditions on floats", len(cases))


WAYS: dict[str, dict[str, str]] = {
    "parquet": {"file.format": "parquet"},
    "parquet without statistics": {"metadata.stats-mode": "none"},
    "orc": {"file.format": "orc"},
    "avro": {"file.format": "avro"},
    "bloom filter": {"file-index.bloom-filter.columns": "x", "file-index.bloom-filter.x.items": "20"},
    "bitmap": {"file-index.bitmap.columns": "x"},
    "range bitmap": {"file-index.range-bitmap.columns": "x"},
    "bitmap beside the file": {"file-index.bitmap.columns": "x", "file-index.in-manifest-threshold": "0 b"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_memory(kind: str, tally: Tally) -> None:
    fields = [DataField(0, "id", AtomicType(TypeRoot.BIGINT)), DataField(1, "x", AtomicType(TypeRoot[kind]))]
    numbers, values = zip(*ROWS, strict=True)
    batch = pa.record_batch([pa.array(numbers), pa.array(values, ARROW[kind])], names=["id", "x"])

    def find(words: str) -> list[int]:
        kept: Any = batch.filter(mask(bind(bound_filter(words, fields), fields), batch)).column("id")
        return list(kept.to_pylist())

    check(find, CONDITIONS, tally)


@pytest.mark.sample(6)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.longer
def test_files(tmp_path: Path, kind: str, way: str, tally: Tally) -> None:
    table = made(tmp_path, kind, WAYS[way])
    check(lambda words: found(table, words), FEWER, tally)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.longer
def test_row_groups_and_pages_of_one_file(tmp_path: Path, kind: str, tally: Tally) -> None:
    table = made(tmp_path, kind, {"parquet.block.size": "1", "parquet.page.size": "1"})
    table.compact(full=True)
    check(lambda words: found(table, words), FEWER, tally)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.longer
def test_partitions(tmp_path: Path, kind: str, tally: Tally) -> None:
    table = made(tmp_path, kind, partition_keys=["x"])
    check(lambda words: found(table, words), FEWER, tally)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.longer
def test_merged_rows_and_values_as_buckets(tmp_path: Path, kind: str, tally: Tally) -> None:
    table = made(tmp_path, kind, {"bucket": "4"}, primary_keys=["id"])
    check(lambda words: found(table, words), FEWER, tally)
    spread = made(tmp_path / "spread", kind, {"bucket": "4", "bucket-key": "x"})
    check(lambda words: found(spread, words), FEWER, tally)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.longer
def test_duckdb(tmp_path: Path, kind: str, tally: Tally) -> None:
    table = made(tmp_path, kind)

    def find(words: str) -> list[int]:
        for literal in ("'NaN'", "'Infinity'", "'-Infinity'"):
            words = words.replace(literal, f"{literal}::{kind}")
        return sorted(row[0] for row in table.to_duckdb().filter(words).project("id").fetchall())

    check(find, FEWER, tally)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.longer
def test_polars(tmp_path: Path, kind: str, tally: Tally) -> None:
    table = made(tmp_path, kind)
    x = pl.col("x")
    frame = table.to_polars()
    expressions: list[pl.Expr] = []
    for literal in LITERALS:
        expressions += [x == literal, x != literal, x < literal, x <= literal, x > literal, x >= literal]
    expressions += [x.is_between(low, high) for low, high in itertools.product(LITERALS, LITERALS)]
    expressions += [x.is_in([low, high]) for low, high in itertools.combinations(LITERALS, 2)]
    expressions += [~expression for expression in expressions]
    for expression in expressions if LONG else expressions[::5]:
        lazy = table.to_polars(lazy=True).filter(expression).select("id").collect()
        assert sorted(lazy["id"]) == sorted(frame.filter(expression)["id"]), expression
    tally("conditions on floats", len(expressions))


@pytest.mark.longer
def test_iceberg(tmp_path: Path, tally: Tally) -> None:
    schema = pa.schema((pa.field("id", pa.int64()), pa.field("x", pa.float64())))
    with load_catalog("ice", type="sql", uri=f"sqlite:///{tmp_path}/ice.db", warehouse=f"file://{tmp_path}") as ice:
        ice.create_namespace("d")
        made_of = ice.create_table("d.t", schema)
        numbers = itertools.count()
        for values in FILES:
            made_of.append(pa.table({"id": [next(numbers) for _ in values], "x": values}, schema=schema))
        table = interbed.IcebergTable("d.t", made_of)

        def find(words: str) -> list[int]:
            column: Any = table.scan(["id"], filter=words).to_arrow().column("id")
            return sorted(column.to_pylist())

        check(find, FEWER, tally)


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.longer
def test_deletions(tmp_path: Path, vectors: str, tally: Tally) -> None:
    table = made(tmp_path, "DOUBLE", {"deletion-vectors.enabled": vectors})
    snapshot = table.latest_snapshot()
    assert snapshot is not None
    cases = CONDITIONS if LONG else CONDITIONS[::19]
    for words, truth in cases:
        table.delete(words)
        gone = set(expected(truth))
        left: Any = table.scan(["id"]).to_arrow()["id"].to_pylist()
        assert sorted(left) == [n for n, _ in ROWS if n not in gone], words
        if gone:
            table.versions.rollback_to(snapshot.id)
    tally("conditions on floats", len(cases))


@pytest.mark.parametrize("kind", KINDS)
def test_keys(tmp_path: Path, kind: str) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    schema = pa.schema((pa.field("x", ARROW[kind], nullable=False), pa.field("n", pa.int64())))
    table = catalog.create_table("d.t", schema, primary_keys=["x"], options={"bucket": "2"})
    for number, value in enumerate([NAN, 1.5, INF, -INF]):
        table.append(pa.table({"x": [value], "n": [number]}, schema=schema))
    for number, value in enumerate([OTHER_NAN, 1.5, INF, -INF]):
        row = table.get({"x": value})
        assert row is not None
        assert row["n"] == number
    assert table.scan(["n"], filter="x >= 'Infinity'").to_arrow()["n"].to_pylist() in ([0, 2], [2, 0])
