"""Every kind of file index against a check of each value."""

import math
import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.storage.base.errors import InvalidOptionError, UnsupportedVersionError
from interbed.storage.base.predicate.evaluate import mask
from interbed.storage.base.predicate.expr import Comparison, In, IsNotNull, IsNull, Leaf, NotIn, Op
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.files.file_index.api import IndexReader
from interbed.storage.files.file_index.bloom_filter import BloomFilterReader, hash_binary, hash_integers
from interbed.storage.files.file_index.spec import KINDS, check_type, value_form
from interbed.storage.meta.options.reader import OptionReader

INSTANTS = st.datetimes(datetime(1960, 1, 1), datetime(2040, 1, 1))
DAY = 86_399


CASES: list[tuple[AtomicType, st.SearchStrategy[Any]]] = [
    (AtomicType(TypeRoot.BOOLEAN), st.booleans()),
    (AtomicType(TypeRoot.TINYINT), st.integers(-128, 127)),
    (AtomicType(TypeRoot.SMALLINT), st.integers(-3, 3) | st.integers(-(2**15), 2**15 - 1)),
    (AtomicType(TypeRoot.INT), st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1)),
    (AtomicType(TypeRoot.BIGINT), st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)),
    (AtomicType(TypeRoot.FLOAT), st.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan])),
    (AtomicType(TypeRoot.DOUBLE), st.sampled_from([0.0, -0.0, math.nan]) | st.floats()),
    (AtomicType(TypeRoot.DECIMAL, precision=10, scale=2), st.decimals(-(10**7), 10**7, places=2)),
    (AtomicType(TypeRoot.VARCHAR, length=40), st.text("aä\U0001f600", max_size=3) | st.text(max_size=40)),
    (AtomicType(TypeRoot.VARBINARY, length=80), st.binary(max_size=3) | st.binary(max_size=80)),
    (AtomicType(TypeRoot.DATE), st.dates(date(1969, 12, 30), date(1970, 1, 3))),
    (AtomicType(TypeRoot.TIME), st.integers(0, DAY).map(lambda s: time(s // 3600, s // 60 % 60, s % 60))),
    (AtomicType(TypeRoot.TIMESTAMP, precision=3), INSTANTS.map(lambda d: d.replace(microsecond=0))),
    (AtomicType(TypeRoot.TIMESTAMP, precision=6), INSTANTS),
    (AtomicType(TypeRoot.TIMESTAMP, precision=9), INSTANTS),
    (AtomicType(TypeRoot.TIMESTAMP_LTZ, precision=6), INSTANTS.map(lambda d: d.replace(tzinfo=UTC))),
]
OPTIONS: dict[str, list[dict[str, str]]] = {
    "bloom-filter": [{"items": "20", "fpp": "0.2"}, {}],
    "bitmap": [{}, {"version": "1"}, {"index-block-size": "20 b"}],
    "bsi": [{}],
    "range-bitmap": [{}, {"chunk-size": "9 b"}],
}
CHOICES = [
    (kind, options, data_type, values)
    for kind, found in KINDS.items()
    for data_type, values in CASES
    if value_form(found, data_type) is not None
    for options in OPTIONS[kind]
]


def reader(
    kind: str, data_type: AtomicType, parts: Sequence["pa.Array[Any]"], options: dict[str, str]
) -> IndexReader | None:
    """Index of a column that is written in parts, read back."""
    form = check_type(kind, "c", data_type)
    writer = KINDS[kind].writer(form, OptionReader(options))
    for part in parts:
        writer.add(part)
    content = writer.finish()
    return None if content is None else KINDS[kind].reader(form, content)


@given(data=st.data())
def test_an_index_excludes_no_matching_row(data: st.DataObject) -> None:
    kind, options, data_type, values = data.draw(st.sampled_from(CHOICES))
    arrow = type_to_arrow(data_type)
    rows = data.draw(st.lists(st.none() | values, max_size=40))
    column: pa.Array[Any] = pa.array(rows, arrow)
    cut = data.draw(st.integers(0, len(rows)))
    index = reader(kind, data_type, [column.slice(0, cut), column.slice(cut)], options)
    present = [r for r in rows if r is not None]
    literals = values | st.sampled_from(present) if present else values
    leaves: st.SearchStrategy[Leaf] = st.one_of(
        st.builds(Comparison, st.sampled_from(list(Op)), st.just("c"), literals),
        st.builds(In, st.just("c"), st.lists(literals, max_size=3).map(tuple)),
        st.builds(NotIn, st.just("c"), st.lists(literals, max_size=3).map(tuple)),
        st.just(IsNull("c")),
        st.just(IsNotNull("c")),
    )
    if index is None:
        # The least 64-bit number, which bsi cannot represent.
        assert kind == "bsi"
        return
    for leaf in data.draw(st.lists(leaves, min_size=1, max_size=5)):
        wanted = set(np.flatnonzero(mask(leaf, pa.record_batch([column], names=["c"])).to_numpy(zero_copy_only=False)))
        chosen = index.rows(leaf)
        if chosen.rows is None:
            continue
        assert wanted <= set(chosen.rows)
        exact = kind != "bloom-filter" and data_type.precision != 9
        is_float = data_type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
        if exact and not is_float:
            assert wanted == set(chosen.rows)


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "range-bitmap"])
def test_a_bitmap_returns_the_rows_of_a_value(kind: str) -> None:
    column: pa.Array[Any] = pa.array([7, None, -7, 7, 9] * 1000, pa.int32())
    index = reader(kind, AtomicType(TypeRoot.INT), [column], {})
    assert index is not None
    chosen = index.rows(In("c", (7, 9, 11)))
    assert chosen.positions() is not None
    assert np.array_equal(chosen.positions() % 5, [0, 3, 4] * 1000)  # type: ignore[operator]


def test_a_bloom_filter_keeps_its_false_positive_rate() -> None:
    column: pa.Array[Any] = pa.array(np.arange(10_000))
    index = reader("bloom-filter", AtomicType(TypeRoot.BIGINT), [column], {"items": "10000", "fpp": "0.05"})
    assert isinstance(index, BloomFilterReader)
    assert index.may_hold(column).all()
    absent: pa.Array[Any] = pa.array(np.arange(10_000, 20_000))
    assert index.may_hold(absent).mean() < 0.1


def test_an_index_recognizes_a_column_of_nulls() -> None:
    for kind in ("bitmap", "bsi", "range-bitmap"):
        index = reader(kind, AtomicType(TypeRoot.INT), [pa.array([None, None], pa.int32())], {})
        assert index is not None
        assert index.rows(IsNotNull("c")).is_empty
        assert index.rows(IsNull("c")).positions().tolist() == [0, 1]  # type: ignore[union-attr]
        assert index.rows(Comparison(Op.EQ, "c", 1)).is_empty


def test_hashes_equal_those_of_xxhash_and_of_thomas_wang() -> None:
    # From the reference implementation of xxHash64, seed 0.
    known = {
        b"": 0xEF46DB3751D8E999,
        b"a": 0xD24EC4F1A98C6E5B,
        b"abc": 0x44BC2CF5AD770999,
        b"Nobody inspects the spammish repetition": 0xFBCEA83C8A378BF1,
    }
    assert hash_binary(pa.array(list(known), pa.binary())).tolist() == list(known.values())
    assert hash_integers(np.array([0, 1, -1, 2**63 - 1])).view(np.int64).tolist() == [
        _wang(k) for k in (0, 1, -1, 2**63 - 1)
    ]


def _wang(key: int) -> int:
    """Hash one number as paimon-common's FastHash does."""

    def wrapped(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    key = wrapped(~key + (key << 21))
    key ^= key >> 24
    key = wrapped(key + (key << 3) + (key << 8))
    key ^= key >> 14
    key = wrapped(key + (key << 2) + (key << 4))
    key ^= key >> 28
    return wrapped(key + (key << 31))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bloom-filter", {"items": "0"}),
        ("bloom-filter", {"fpp": "1.5"}),
        ("bloom-filter", {"items": "2000000000", "fpp": "0.001"}),
        ("bitmap", {"version": "3"}),
    ],
)
def test_an_option_that_an_index_kind_does_not_have_is_refused(kind: str, options: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match=next(iter(options))):
        KINDS[kind].writer(check_type(kind, "c", AtomicType(TypeRoot.INT)), OptionReader(options))


@pytest.mark.parametrize(
    ("kind", "data_type"),
    [
        ("bloom-filter", AtomicType(TypeRoot.BOOLEAN)),
        ("bitmap", AtomicType(TypeRoot.VARBINARY)),
        ("bsi", AtomicType(TypeRoot.VARCHAR)),
        ("bsi", AtomicType(TypeRoot.DECIMAL, precision=20)),
        ("range-bitmap", AtomicType(TypeRoot.TIMESTAMP, precision=9)),
    ],
)
def test_a_type_that_an_index_kind_does_not_support_is_refused_by_name(kind: str, data_type: AtomicType) -> None:
    with pytest.raises(InvalidOptionError, match=f"file-index.{kind}.columns.*'c'"):
        check_type(kind, "c", data_type)


def damaged(content: bytes) -> list[Callable[[], bytes]]:
    """The bytes, truncated at several positions."""
    return [lambda n=n: content[:n] for n in range(0, len(content), max(len(content) // 7, 1))]  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["bitmap", "bsi", "range-bitmap"])
def test_truncated_bytes_are_reported_as_such(kind: str) -> None:
    form = check_type(kind, "c", AtomicType(TypeRoot.INT))
    writer = KINDS[kind].writer(form, OptionReader({}))
    writer.add(pa.array([1, 1, 2, None, None, 5], pa.int32()))
    content = writer.finish()
    assert content is not None
    for cut in damaged(content):
        try:
            found = KINDS[kind].reader(form, cut()).rows(Comparison(Op.EQ, "c", 1))
        except (ValueError, IndexError, struct.error, UnsupportedVersionError):
            continue
        # The missing bytes were not needed.
        assert found.rows is None or {0, 1} <= set(found.rows)
