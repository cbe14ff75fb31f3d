"""Parts of row groups are read by their pages, and hold the same rows as the whole."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.arrays import Positions
from interbed.storage.base.checksums import footer_of, metadata_of
from interbed.storage.base.errors import CorruptFileError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Predicate, bind
from interbed.storage.base.predicate.grammar import parse_filter
from interbed.storage.base.types.data_type import DataField, parse_atomic
from interbed.storage.files.format.pages.index import PageIndex
from interbed.storage.files.format.pages.reading import read_rows
from interbed.storage.files.format.parquet import ParquetReader
from interbed.storage.files.format.parquet_writer import ParquetFileWriter
from interbed.storage.io.local import LocalFileIO
from interbed.storage.meta.options.core import CoreOptions

GOLDEN = Path(__file__).parents[3] / "golden" / "paimon-1.4.2"
ROWS = 6_000
PAGE_ROWS = 500
GROUP_ROWS = 2_500
STRETCHES = [(0, 1), (0, 700), (499, 501), (1_000, 1_500), (2_499, 2_500), (0, 2_500)]


def all_kinds() -> pa.Table:
    """A column of each kind that Parquet encodes differently, some with nulls, some with repeated values."""
    numbers = np.arange(ROWS)
    columns: dict[str, Any] = {
        "id": pa.array(numbers),
        "small": pa.array((numbers % 100 - 50).astype("i1")),
        "text": pa.array([f"k{n % 37}" if n % 5 else None for n in numbers]),
        "list": pa.array([list(range(n % 4)) if n % 7 else None for n in numbers]),
        "map": pa.array([[("a", n), ("b", None)] if n % 3 else [] for n in numbers], pa.map_(pa.string(), pa.int64())),
        "row": pa.array([{"x": n, "y": str(n)} if n % 11 else None for n in numbers]),
        "price": pa.array([Decimal(int(n)).scaleb(-2) for n in numbers], pa.decimal128(9, 2)),
        "day": pa.array(numbers.astype("i4")).view(pa.date32()),
        "at": pa.array(numbers * 1000).view(pa.timestamp("us")),
        "flag": pa.array(numbers % 2 == 0),
        "measure": pa.array(np.random.default_rng(2).random(ROWS)),
        "nothing": pa.nulls(ROWS, pa.int64()),
    }
    return pa.table(columns)


def page_index(source: Any) -> PageIndex:
    """Return the page index of an open file."""
    footer = footer_of(source)
    return PageIndex(footer, metadata_of(footer).schema.to_arrow_schema())


def check_parts(path: Path, stretches: list[tuple[int, int]]) -> None:
    """Check that every range of every row group equals Arrow's rows, and that the pages' values lie within their
    bounds.
    """
    source = pa.memory_map(str(path))
    index = page_index(source)
    with pq.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            group, whole = index.group(number, source), file.read_row_group(number)
            assert group is not None
            names = [n for n in whole.schema.names if group.is_even([n])]
            for start, end in [(s, min(e, group.rows)) for s, e in stretches if s < group.rows]:
                part = read_rows(source, index, group, names, start, end, verify=True)
                expected = whole.select(names).slice(start, end - start)
                assert part.schema.equals(expected.schema)
                # Compare as text, so that NaN is equal to itself.
                assert str(part.to_pylist()) == str(expected.to_pylist())
            for name in names:
                leaf = group.by_name[name][0]
                bounds = leaf.bounds(whole.schema.field(name).type)
                for page in range(len(leaf.starts)) if bounds is not None else ():
                    low, high = leaf.rows[page : page + 2].tolist()
                    ends = pc.min_max(whole.column(name).slice(low, high - low))
                    if bounds is not None and ends["min"].is_valid:
                        assert pc.less_equal(bounds.least[page], ends["min"]).as_py()
                        assert pc.greater_equal(bounds.greatest[page], ends["max"]).as_py()


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "compression": "none"},
        {"compression": "zstd", "store_schema": False, "store_decimal_as_integer": True},
        {"compression": "gzip", "data_page_size": 256},
    ],
    ids=str,
)
def test_any_part_of_a_row_group_has_the_same_rows_as_the_whole(tmp_path: Path, how: dict[str, Any]) -> None:
    path = tmp_path / "file.parquet"
    pq.write_table(
        all_kinds(), path, row_group_size=GROUP_ROWS, write_page_index=True, max_rows_per_page=PAGE_ROWS, **how
    )
    check_parts(path, STRETCHES)


def test_files_of_java_are_read_by_their_pages() -> None:
    found = [path for path in sorted(GOLDEN.rglob("*.parquet")) if pq.read_metadata(path).num_row_groups]
    assert len(found) > 20
    for path in found:
        check_parts(path, [(0, 1), (1, 3), (0, 1 << 20)])


FIELDS = [
    DataField(id=0, name="k", type=parse_atomic("BIGINT NOT NULL")),
    DataField(id=1, name="n", type=parse_atomic("INT")),
    DataField(id=2, name="s", type=parse_atomic("STRING")),
    DataField(id=3, name="x", type=parse_atomic("DOUBLE")),
    DataField(id=4, name="at", type=parse_atomic("TIMESTAMP(6)")),
]


def ours(path: Path, groups: list[pa.RecordBatch], **options: str) -> None:
    """A file as interbed writes it, a row group for each batch."""
    settings = {k.replace("__", "."): v for k, v in options.items()}
    with path.open("wb") as sink:
        writer = ParquetFileWriter(
            sink, groups[0].schema, CoreOptions(settings), codec="zstd", page_rows=50, ascending=frozenset({"k"})
        )
        for batch in groups:
            writer.write([batch])
        writer.finish()


def sorted_rows(count: int, seed: int) -> pa.RecordBatch:
    """Rows with an ascending key, and values that repeat often."""
    chance = np.random.default_rng(seed)
    keys = np.sort(chance.choice(count * 3, count, replace=False))
    texts = [None if n % 9 == 0 else f"t{n % 40:02}" for n in chance.integers(0, 1000, count).tolist()]
    columns: list[pa.Array[Any]] = [
        pa.array(keys),
        pa.array(chance.integers(-20, 20, count).astype("i4"), mask=chance.random(count) < 0.1),
        pa.array(texts),
        pa.array(chance.random(count)),
        pa.array(keys * 1000).view(pa.timestamp("us")),
    ]
    fields: list[Any] = [pa.field("k", pa.int64(), nullable=False), ("n", pa.int32()), ("s", pa.string())]
    fields += [("x", pa.float64()), ("at", pa.timestamp("us"))]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


FILTERS = st.one_of(
    st.tuples(st.integers(0, 3600), st.integers(0, 400)).map(lambda t: f"k between {t[0]} and {t[0] + t[1]}"),
    st.integers(0, 3600).map(lambda k: f"k = {k}"),
    st.lists(st.integers(0, 3600), min_size=1, max_size=8).map(lambda ks: f"k in ({', '.join(map(str, ks))})"),
    st.integers(-20, 20).map(lambda n: f"n = {n} and k < 500"),
    st.integers(0, 40).map(lambda n: f"s = 't{n:02}' or k > 3500"),
    st.sampled_from(["n is null", "s is null and k < 300", "not (k >= 100)", "x < 0.01", "s like 't1%' and n > 15"]),
    st.integers(0, 3600).map(lambda k: f"at >= timestamp '{datetime(1970, 1, 1, 0, 0, k // 1000, k % 1000 * 1000)}'"),
)


@given(
    text=st.none() | FILTERS,
    positions=st.none() | st.lists(st.integers(0, 1199), max_size=30, unique=True).map(sorted),
    names=st.lists(st.sampled_from(["k", "n", "s", "x", "at"]), min_size=1, unique=True),
    batch_rows=st.sampled_from([30, 64, 500, 5000]),
)
def test_no_row_is_missed_that_a_filter_or_a_position_selects(
    tmp_path_factory: pytest.TempPathFactory,
    text: str | None,
    positions: list[int] | None,
    names: list[str],
    batch_rows: int,
) -> None:
    path = tmp_path_factory.mktemp("pages") / "file.parquet"
    rows = sorted_rows(1200, 4)
    ours(path, [rows.slice(0, 700), rows.slice(700)])
    predicate = None if text is None else bind(parse_filter(text, FIELDS), FIELDS)
    wanted = None if positions is None else np.array(positions, np.int64)
    found = read(path, predicate, wanted, names, batch_rows)
    needed = np.ones(rows.num_rows, np.bool_)
    if predicate is not None:
        needed &= mask(predicate, rows).to_numpy(zero_copy_only=False)
    if wanted is not None:
        needed &= np.isin(np.arange(rows.num_rows), wanted)
    assert set(np.flatnonzero(needed).tolist()) <= set(found)
    expected = rows.select([f.name for f in FIELDS if f.name in names]).to_pylist()
    assert all(row == expected[position] for position, row in found.items())


def read(
    path: Path, predicate: Predicate | None, wanted: Positions | None, names: list[str], batch_rows: int
) -> dict[int, dict[str, Any]]:
    """The rows that the reader returns, by their positions, which ascend."""
    found: dict[int, dict[str, Any]] = {}
    batches = ParquetReader().positioned(
        str(path),
        [f for f in FIELDS if f.name in names],
        file_io=LocalFileIO(),
        batch_rows=batch_rows,
        predicate=predicate,
        wanted=wanted,
    )
    for position, batch in batches:
        assert batch.num_rows <= batch_rows
        assert not found or position > max(found)
        found.update(enumerate(batch.to_pylist(), position))
    return found


@pytest.mark.parametrize(
    ("text", "most"), [("k between 300 and 330", 31), ("k = 300", 1), ("k in (3, 1500, 2900)", 3), ("n = 50", 0)]
)
def test_few_rows_are_read_where_few_match(tmp_path: Path, text: str, most: int) -> None:
    path = tmp_path / "file.parquet"
    rows = sorted_rows(1200, 4)
    ours(path, [rows])
    predicate = bind(parse_filter(text, FIELDS), FIELDS)
    found = read(path, predicate, None, ["k", "n", "s", "x", "at"], 5000)
    assert len(found) <= most


def test_damage_of_any_bit_of_the_page_index_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "file.parquet"
    ours(path, [sorted_rows(1200, 4)])
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    source = pa.memory_map(str(path))
    group = page_index(source).group(0, source)
    assert group is not None
    end_of_pages = max(int(leaf.starts[-1] + leaf.sizes[-1]) for leaf in group.leaves)
    predicate = bind(parse_filter("k = 300", FIELDS), FIELDS)
    for place in range(end_of_pages, len(content) - 8 - length, 7):
        damaged = tmp_path / f"damaged-{place}.parquet"
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with pytest.raises(CorruptFileError, match=f"{damaged.name}.*index of its pages is damaged"):
            read(damaged, predicate, None, ["k", "n"], 5000)
        # A reader of all rows does not need the index.
        assert len(read(damaged, None, None, ["k", "n"], 5000)) == 1200
