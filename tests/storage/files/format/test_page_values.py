"""Rows of a page that are decoded without Arrow equal those that Arrow decodes."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.types.data_type import DataField, parse_atomic
from interbed.storage.files.format.pages.footer import Footer, read_footer
from interbed.storage.files.format.pages.reading import read_rows
from interbed.storage.files.format.parquet import ParquetReader
from interbed.storage.io.local import LocalFileIO

ROWS = 900
SMALL, LARGE = -(1 << 31), (1 << 31) - 1
MOST = (1 << 63) - 1


def integers(seed: int, low: int, high: int, width: str) -> "np.ndarray[Any, Any]":
    """Numbers of which some ascend, some repeat, and some are arbitrary."""
    chance = np.random.default_rng(seed)
    anything = chance.integers(low, high, ROWS, endpoint=True)
    numbers = np.where(np.arange(ROWS) % 300 < 100, anything, np.arange(ROWS) % 100)
    numbers[200:300] = 7
    return numbers.astype(width)


def texts(seed: int, kind: str) -> list[bytes]:
    """Texts of one kind, for a column."""
    chance = np.random.default_rng(seed)
    lengths = {
        "one length": np.full(ROWS, 12),
        "short": chance.integers(1, 40, ROWS),
        "some empty": chance.integers(0, 4, ROWS),
        "all empty": np.zeros(ROWS, np.int64),
        "some long": np.where(chance.random(ROWS) < 0.01, 700, 9),
        "with zeros": chance.integers(1, 12, ROWS),
        "last longer": np.where(np.arange(ROWS) % 100 == 99, 16, 8),
    }[kind]
    if kind == "with zeros":
        return [bytes(n) if n % 2 else b"\x05\0\0\0" + bytes(n) for n in lengths.tolist()]
    return [bytes(chance.integers(97, 123, n).astype("u1")) for n in lengths.tolist()]


KINDS = ["one length", "short", "some empty", "all empty", "some long", "with zeros", "last longer"]


def columns(seed: int, kind: str) -> dict[str, "pa.Array[Any]"]:
    """A column of each type, without nulls."""
    long, wide = integers(seed, -MOST - 1, MOST, "i8"), integers(seed + 1, SMALL, LARGE, "i4")
    some = texts(seed, kind)
    return {
        "i8": pa.array(integers(seed, -128, 127, "i1")),
        "i16": pa.array(integers(seed, -(1 << 15), (1 << 15) - 1, "i2")),
        "i32": pa.array(wide),
        "i64": pa.array(long),
        "u32": pa.array(wide.view("u4")),
        "u64": pa.array(long.view("u8")),
        "day": pa.array(wide).view(pa.date32()),
        "ms": pa.array(np.abs(wide) % 86_400_000).cast(pa.int32()).view(pa.time32("ms")),
        "us": pa.array(np.abs(long >> 8) % 86_400_000_000).view(pa.time64("us")),
        "at_s": pa.array(long % 10**9).view(pa.timestamp("s")),
        "at_ms": pa.array(long).view(pa.timestamp("ms")),
        "at_us": pa.array(long).view(pa.timestamp("us", tz="UTC")),
        "at_ns": pa.array(long).view(pa.timestamp("ns")),
        "span": pa.array(long).view(pa.duration("us")),
        "f32": pa.array(wide.view("f4")),
        "f64": pa.array(long.view("f8")),
        "price": pa.array(wide).cast(pa.decimal128(12, 0)),
        "flag": pa.array(wide % 2 == 0),
        "bytes": pa.array(some, pa.binary()),
        "text": pa.array([t.decode("latin-1") for t in some]),
        "large": pa.array([t.decode("latin-1") for t in some], pa.large_string()),
    }


def write(table: pa.Table, path: Path, **how: Any) -> None:
    """Write a file with a page index."""
    pq.write_table(table, path, write_page_index=True, **how)


ENCODINGS: list[dict[str, Any]] = [
    {"use_dictionary": True},
    {"use_dictionary": False},
    {
        "use_dictionary": False,
        "column_encoding": {
            **dict.fromkeys(("i8", "i16", "i32", "i64", "u32", "u64", "day", "ms", "at_us"), "DELTA_BINARY_PACKED"),
            **dict.fromkeys(("f32", "f64"), "BYTE_STREAM_SPLIT"),
            "text": "DELTA_LENGTH_BYTE_ARRAY",
            "bytes": "DELTA_BYTE_ARRAY",
        },
    },
]


@given(
    seed=st.integers(0, 1 << 32),
    kind=st.sampled_from(KINDS),
    encoding=st.sampled_from(ENCODINGS),
    codec=st.sampled_from(["zstd", "none", "snappy", "lz4", "gzip", "brotli"]),
    version=st.sampled_from(["1.0", "2.0"]),
    nulls=st.sampled_from(["not allowed", "none", "some", "all"]),
    page_rows=st.sampled_from([1, 31, 100, 129, 500, ROWS]),
    has_checksums=st.booleans(),
    data=st.data(),
)
def test_any_range_of_rows_equals_what_arrow_decodes(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    kind: str,
    encoding: dict[str, Any],
    codec: str,
    version: str,
    nulls: str,
    page_rows: int,
    has_checksums: bool,
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("values") / "file.parquet"
    made = columns(seed, kind)
    if nulls in ("some", "all"):
        gone = np.random.default_rng(seed).random(ROWS) < (0.02 if nulls == "some" else 2)
        indices: Any = pa.array(np.arange(ROWS), mask=gone)
        made = {name: column.take(indices) for name, column in made.items()}
    schema = pa.schema([pa.field(n, c.type, nullable=nulls != "not allowed") for n, c in made.items()])
    write(
        pa.table(list(made.values()), schema=schema),
        path,
        max_rows_per_page=page_rows,
        compression=codec,
        data_page_version=version,
        write_page_checksum=has_checksums,
        **encoding,
    )
    start = data.draw(st.integers(0, ROWS - 1))
    # Most ranges lie within a page or two, where rows are decoded without Arrow.
    end = min(ROWS, start + data.draw(st.integers(1, 2 * page_rows) | st.integers(1, ROWS)))
    source = pa.memory_map(str(path))
    footer = read_footer(source, str(path), verify=True)
    index = footer.pages(source)
    group = index.group(0, source)
    assert group is not None
    expected = pq.read_table(path).slice(start, end - start).combine_chunks().to_batches()[0]
    for _ in range(2):
        found = read_rows(source, index, group, schema.names, start, end, verify=True)
        found.validate(full=True)
        assert found.schema.equals(expected.schema)
        for name in schema.names:
            # Compare bits, so that NaN is equal to itself.
            assert bits_of(found.column(name)) == bits_of(expected.column(name)), name


def bits_of(column: "pa.Array[Any]") -> Any:
    """The values in a comparable form."""
    if pa.types.is_floating(column.type):
        return column.view(pa.int32() if column.type == pa.float32() else pa.int64())
    return column


def opened(path: Path) -> tuple[pa.NativeFile, Footer]:
    """The mapped file and its footer."""
    source = pa.memory_map(str(path))
    return source, read_footer(source, str(path), verify=True)


@pytest.mark.parametrize("codec", ["zstd", "none", "snappy", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    ("name", "encoding", "kind", "made"),
    [
        ("i64", "PLAIN", "short", 3),
        ("i8", "PLAIN", "short", 3),
        ("f64", "PLAIN", "short", 3),
        ("at_us", "PLAIN", "short", 3),
        ("i16", "DELTA_BINARY_PACKED", "short", 103),
        ("i32", "DELTA_BINARY_PACKED", "short", 103),
        ("text", "PLAIN", "one length", 3),
        ("text", "PLAIN", "short", 3),
        ("bytes", "PLAIN", "short", 3),
        ("text", "PLAIN", "some long", 300),
        ("text", "DELTA_LENGTH_BYTE_ARRAY", "short", 300),
        ("price", "PLAIN", "short", 300),
    ],
)
def test_only_the_values_that_are_needed_are_decoded(
    tmp_path: Path, name: str, encoding: str, kind: str, made: int, version: str, codec: str
) -> None:
    path = tmp_path / "file.parquet"
    write(
        pa.table({name: columns(3, kind)[name]}),
        path,
        max_rows_per_page=300,
        compression=codec,
        data_page_version=version,
        write_page_checksum=True,
        use_dictionary=False,
        column_encoding={name: encoding},
    )
    source, footer = opened(path)
    index = footer.pages(source)
    group = index.group(0, source)
    assert group is not None
    noted: list[tuple[int, int, int]] = []
    read_rows(source, index, group, [name], 400, 403, verify=True, noted=lambda *n: noted.append(n))
    assert [(values, count) for values, count, _ in noted] == [(made, 1)]


FIELDS = [
    DataField(id=0, name="i64", type=parse_atomic("BIGINT NOT NULL")),
    DataField(id=1, name="i32", type=parse_atomic("INT")),
    DataField(id=2, name="f64", type=parse_atomic("DOUBLE")),
    DataField(id=3, name="text", type=parse_atomic("STRING")),
]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_a_damaged_page_never_returns_other_values(tmp_path: Path, version: str, codec: str) -> None:
    path = tmp_path / "file.parquet"
    some = columns(9, "short")
    schema = pa.schema([pa.field(f.name, some[f.name].type, nullable=f.name != "i64") for f in FIELDS])
    # Arrow itself has no checksum of the footer and the index; these are left undamaged here.
    write(
        pa.table([some[n] for n in schema.names], schema=schema),
        path,
        max_rows_per_page=300,
        compression=codec,
        data_page_version=version,
        write_page_checksum=True,
        use_dictionary=False,
        column_encoding={"i64": "PLAIN", "i32": "DELTA_BINARY_PACKED", "f64": "PLAIN", "text": "PLAIN"},
    )
    content = path.read_bytes()
    source, footer = opened(path)
    group = footer.pages(source).group(0, source)
    assert group is not None
    expected = pq.read_table(path).slice(400, 3).to_pylist()
    assert rows_at(path) == expected
    for leaf in group.leaves:
        begin, size = int(leaf.starts[1]), int(leaf.sizes[1])
        # Damage each byte of the header, which has no checksum, and some bytes of the rest.
        for place in (*range(begin, begin + 40), *range(begin + 40, begin + size, 41)):
            damaged = tmp_path / f"damaged-{place}.parquet"
            damaged.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
            found = rows_or_refusal(damaged)
            assert found in (expected, damaged.name) if place < begin + 40 else found == damaged.name
            damaged.unlink()


def rows_or_refusal(path: Path) -> list[dict[str, Any]] | str:
    """Return the rows of rows_at, or the name of the refused file."""
    try:
        return rows_at(path)
    except CorruptFileError as error:
        return path.name if path.name in str(error) else str(error)


def rows_at(path: Path) -> list[dict[str, Any]]:
    """Three rows in the middle of a page."""
    batches = ParquetReader().positioned(
        str(path), FIELDS, file_io=LocalFileIO(), batch_rows=100, wanted=np.arange(400, 403)
    )
    return [row for _, batch in batches for row in batch.to_pylist()]
