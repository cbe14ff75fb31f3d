"""Point lookups find the same rows as a scan, by key, without opening more files than needed."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.base.memory_cache import MemoryCache
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, RenameColumn
from interbed.storage.read import file_lookup
from interbed.storage.read.file_lookup import CACHE
from interbed.storage.table.table import Table
from tests.support.examples import examples

SCHEMA = pa.schema(
    (
        pa.field("dt", pa.string(), nullable=False),
        pa.field("id", pa.int32(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        pa.field("amount", pa.int64()),
        pa.field("note", pa.string()),
    )
)
BUCKETS = {"bucket": "2"}


def make(warehouse: Path, schema: pa.Schema = SCHEMA, *, keys: list[str], **arguments: Any) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{warehouse}")
    catalog.create_database("d", ignore_if_exists=True)
    return catalog.create_table("d.t", schema, primary_keys=keys, **arguments)


def simple(warehouse: Path, **options: str) -> Table:
    schema = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
    return make(warehouse, schema, keys=["id"], options={"bucket": "1", **options})


def pairs(ids: "list[int]", text: str) -> pa.Table:
    return pa.table({"id": ids, "v": [f"{text}{i}" for i in ids]})


ENGINES = st.sampled_from(
    [
        {"merge-engine": "deduplicate"},
        {"merge-engine": "deduplicate", "deletion-vectors.enabled": "true"},
        {"merge-engine": "deduplicate", "sequence.field": "amount"},
        {"merge-engine": "partial-update", "ignore-delete": "true"},
        {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum", "ignore-delete": "true"},
        {"merge-engine": "first-row", "ignore-delete": "true"},
    ]
)
MODES = st.sampled_from([{"bucket": "2"}, {"bucket": "-1", "dynamic-bucket.target-row-num": "3"}])
KEYS = st.tuples(st.sampled_from(["d1", "d2"]), st.integers(-3, 3), st.sampled_from(["", "a", "ä" * 9]))
CHANGES = st.tuples(
    KEYS, st.none() | st.integers(-9, 9), st.none() | st.text(max_size=3), st.sampled_from([0, 0, 2, 3])
)


@settings(deadline=None, max_examples=examples(25))
@given(
    engine=ENGINES,
    mode=MODES,
    partitioned=st.booleans(),
    write_only=st.booleans(),
    commits=st.lists(st.lists(CHANGES, min_size=1, max_size=12), min_size=1, max_size=4),
    asked=st.lists(KEYS, max_size=12),
    compacted=st.booleans(),
)
def test_lookups_find_the_same_rows_as_a_scan(
    tmp_path_factory: pytest.TempPathFactory,
    engine: dict[str, str],
    mode: dict[str, str],
    partitioned: bool,
    write_only: bool,
    commits: list[list[tuple[Any, ...]]],
    asked: list[tuple[str, int, str]],
    compacted: bool,
) -> None:
    options = {**engine, **mode, "write-only": str(write_only).lower(), "file-index.bloom-filter.columns": "id,name"}
    table = make(
        tmp_path_factory.mktemp("lake"),
        keys=["dt", "id", "name"],
        partition_keys=["dt"] if partitioned else [],
        options={**options, "file-index.bloom-filter.id.items": "20", "file-index.bloom-filter.name.items": "20"},
    )
    for commit in commits:
        keys = [key for key, *_ in commit]
        table.write_changes(
            pa.table(
                {
                    "dt": [k[0] for k in keys],
                    "id": pa.array([k[1] for k in keys], pa.int32()),
                    "name": [k[2] for k in keys],
                    "amount": pa.array([c[1] for c in commit], pa.int64()),
                    "note": pa.array([c[2] for c in commit], pa.string()),
                    "_row_kind": pa.array([c[3] for c in commit], pa.int8()),
                }
            )
        )
    if compacted:
        table.compact(full=True)
    rows = {(r["dt"], r["id"], r["name"]): r for r in table.scan().to_arrow().to_pylist()}
    assert table.get_many(asked).to_pylist() == [rows[k] for k in asked if k in rows]
    for key in asked[:2]:
        assert table.get(key) == rows.get(key)
    if asked:
        wide = pa.table({"name": [k[2] for k in asked], "id": [k[1] for k in asked], "dt": [k[0] for k in asked]})
        amounts = [rows[k]["amount"] for k in asked if k in rows]
        assert table.get_many(wide, columns=["amount"]).to_pydict() == {"amount": amounts}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string(), ["", "a", "b\0", "ä", "\U0001f600"]),
        (pa.binary(), [b"", b"\0", b"\xff"]),
        (pa.float64(), [-1.5, 0.0, 2.5]),
        (pa.decimal128(20, 2), [Decimal("-1.25"), Decimal("0.00"), Decimal("123456789012345678.99")]),
        (pa.date32(), [date(1969, 1, 1), date(2024, 2, 29)]),
        (pa.timestamp("us"), [datetime(1969, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 4)]),
        (pa.timestamp("ns"), [datetime(1969, 1, 1), datetime(2024, 2, 29, 1, 2, 3)]),
        (pa.bool_(), [False, True]),
        (pa.int8(), [-128, 0, 127]),
    ],
)
def test_keys_of_any_type_are_found(tmp_path: Path, kind: Any, values: list[Any]) -> None:
    schema = pa.schema((pa.field("k", kind, nullable=False), pa.field("v", pa.int64())))
    table = make(tmp_path, schema, keys=["k"], options=BUCKETS)
    table.upsert(pa.table({"k": pa.array(values[1:], kind), "v": range(1, len(values))}))
    assert table.get(values[0]) is None
    assert table.get(values[1], columns=["v"]) == {"v": 1}
    found = table.get_many(pa.array([*values, values[-1]], kind))
    assert found.column("v").to_pylist() == [*range(1, len(values)), len(values) - 1]


def test_a_key_is_searched_only_in_the_row_group_that_contains_it(tmp_path: Path) -> None:
    table = simple(tmp_path, **{"file.block-size": "64 kb"})
    table.upsert(pairs(list(range(0, 20_000, 2)), "v"))
    CACHE.clear()
    assert table.get(10_000) == {"id": 10_000, "v": "v10000"}
    one_group = CACHE.bytes
    assert table.get(10_001) is None
    assert CACHE.bytes == one_group
    everything = table.get_many(pa.array(range(20_000)))
    assert everything.column("id").to_pylist() == list(range(0, 20_000, 2))
    assert CACHE.bytes > 3 * one_group


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_few_keys_are_searched_in_pages_and_many_in_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: str
) -> None:
    decoded: list[int] = []
    whole = file_lookup.FileLookup._decode

    def decode(lookup: file_lookup.FileLookup, read: Any, file: Any, path: str, start: int, end: int) -> Any:
        decoded.append(end - start)
        return whole(lookup, read, file, path, start, end)

    monkeypatch.setattr(file_lookup.FileLookup, "_decode", decode)
    options = {"bucket": "2", "deletion-vectors.enabled": vectors, "parquet.page.row.count.limit": "10"}
    table = make(tmp_path, keys=["dt", "id", "name"], options=options)
    # Rows of one day and number lie in two pages, with and without an update or deletion, and some keys do not exist.
    keys = [("d1", i // 7, f"n{i}") for i in range(300)]
    day, number, name = (list(column) for column in zip(*keys, strict=True))
    rows = pa.table({"dt": day, "id": pa.array(number, pa.int32()), "name": name, "amount": list(range(300))})
    table.upsert(rows)
    table.compact(full=True)
    table.upsert(rows.slice(0, 300).take(list(range(0, 300, 11))).set_column(3, "amount", pa.array([-1] * 28)))
    table.delete("name in ('n3', 'n30', 'n299')")
    expected = {(r["dt"], r["id"], r["name"]): r for r in table.scan().to_arrow().to_pylist()}
    asked = [*keys[::29], keys[3], keys[299], ("d1", 5, "none"), ("d9", 1, "n7")]
    decoded.clear()
    assert [table.get(key) for key in asked] == [expected.get(key) for key in asked]
    assert 0 < max(decoded) <= 20
    read = len(decoded)
    assert [table.get(key) for key in asked] == [expected.get(key) for key in asked]
    assert len(decoded) == read
    everything = table.get_many(keys, columns=["amount"])
    assert everything.column("amount").to_pylist() == [expected[k]["amount"] for k in keys if k in expected]
    assert max(decoded[read:]) > 100
    again = len(decoded)
    narrow = table.get_many(asked, columns=["amount"])
    assert narrow.column("amount").to_pylist() == [expected[key]["amount"] for key in asked if key in expected]
    assert len(decoded) == again, "keys and amounts of whole groups are there"


def test_a_page_is_decoded_when_a_second_of_its_rows_is_requested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    whole = file_lookup.FileLookup._decode

    def decode(lookup: file_lookup.FileLookup, read: Any, file: Any, path: str, start: int, end: int) -> Any:
        if read is lookup._files:
            decoded.append(end - start)
        return whole(lookup, read, file, path, start, end)

    monkeypatch.setattr(file_lookup.FileLookup, "_decode", decode)
    table = simple(tmp_path, **{"parquet.page.row.count.limit": "100"})
    table.upsert(pairs(list(range(1_000)), "v"))
    assert table.get(510) == table.get(510) == {"id": 510, "v": "v510"}
    assert decoded == [1]
    assert table.get(590) == {"id": 590, "v": "v590"}
    assert decoded == [1, 100]
    assert [table.get(key) for key in (510, 520)] == [{"id": key, "v": f"v{key}"} for key in (510, 520)]
    assert decoded == [1, 100]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_rows_are_found_in_files_of_any_format(tmp_path: Path, file_format: str) -> None:
    index = {"file-index.bloom-filter.columns": "id", "file-index.bitmap.columns": "v"}
    table = simple(tmp_path, **{"file.format": file_format, "write-only": "true"}, **index)
    table.upsert(pairs(list(range(100)), "old"))
    table.upsert(pairs([7, 200], "new"))
    assert table.get_many([200, 7, 8, 300]).column("v").to_pylist() == ["new200", "new7", "old8"]
    table.compact(full=True)
    assert table.get_many([200, 7, 8, 300]).column("v").to_pylist() == ["new200", "new7", "old8"]
    assert table.scan(filter="v = 'new7'").to_arrow().column("id").to_pylist() == [7]


def test_threads_may_share_decoded_rows(tmp_path: Path) -> None:
    table = simple(tmp_path, **{"file.block-size": "64 kb"})
    table.upsert(pairs(list(range(20_000)), "v"))
    CACHE.clear()
    narrow = table.copy({"lookup.cache-max-memory-size": "200 kb"})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(narrow.get, range(0, 20_000, 501)))
    assert found == [{"id": i, "v": f"v{i}"} for i in range(0, 20_000, 501)]
    assert CACHE.bytes <= 200 << 10


def test_a_file_excluded_by_a_bloom_filter_is_not_read(tmp_path: Path) -> None:
    index = {"file-index.bloom-filter.columns": "id", "file-index.bloom-filter.id.fpp": "0.001"}
    table = simple(tmp_path, **{"write-only": "true"}, **index)
    table.upsert(pairs([1, 9], "old"))
    table.upsert(pairs([2, 8], "new"))
    (split,) = table.new_scan().plan().splits
    older = min(split.files, key=lambda f: f.min_sequence_number)
    assert table.get(1) == {"id": 1, "v": "old1"}
    CACHE.clear()
    # The footer is read for its statistics, but no row.
    content = bytearray(Path(split.path_of(older)).read_bytes())
    content[4 : len(content) // 3] = bytes(len(content) // 3 - 4)
    Path(split.path_of(older)).write_bytes(content)
    assert table.get(8) == {"id": 8, "v": "new8"}


def test_lookups_read_the_newest_snapshot_or_a_given_one(tmp_path: Path) -> None:
    table = simple(tmp_path)
    assert table.get(1) is None
    table.upsert(pairs([1], "a"))
    assert table.get(1) == {"id": 1, "v": "a1"}
    first = table.latest_snapshot()
    assert first is not None
    table.upsert(pairs([1], "b"))
    assert table.get(1) == {"id": 1, "v": "b1"}
    assert table.copy({"scan.snapshot-id": str(first.id)}).get(1) == {"id": 1, "v": "a1"}
    table.delete("id = 1")
    assert table.get(1) is None


def test_rows_of_older_schemas_are_returned_with_the_newest_schema(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    table = simple(tmp_path)
    table.upsert(pairs([1], "a"))
    catalog.alter_table("d.t", [RenameColumn("v", "w"), AddColumn("n", AtomicType(TypeRoot.INT))])
    assert catalog.get_table("d.t").get(1) == {"id": 1, "w": "a1", "n": None}


def test_a_key_without_a_partition_is_found_in_any_partition(tmp_path: Path) -> None:
    schema = pa.schema(
        (pa.field("id", pa.int64(), nullable=False), pa.field("dt", pa.string()), pa.field("v", pa.int64()))
    )
    table = make(tmp_path, schema, keys=["id"], partition_keys=["dt"], options={"bucket": "-1"})
    table.upsert(pa.table({"id": [1, 2], "dt": ["a", "b"], "v": [1, 2]}))
    assert table.get_many([2, 1, 3]).to_pylist() == [{"id": 2, "dt": "b", "v": 2}, {"id": 1, "dt": "a", "v": 1}]


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"id": 1}, "lacks 'dt' and lacks 'name'"),
        ({"dt": "a", "id": 1, "name": "x", "v": 2}, "has 'v', which is none of its columns"),
        (("a", 1), "has 3 values .*, not 2"),
        (5, "has 3 values .*, not 1"),
        (("a", None, "x"), "'id' can't be null"),
        (("a", "one", "x"), "'id' can't take 'one'"),
        (("a", 2**40, "x"), "'id' can't take"),
    ],
)
def test_an_invalid_key_is_refused_with_the_reason(tmp_path: Path, key: Any, message: str) -> None:
    table = make(tmp_path, keys=["dt", "id", "name"], options=BUCKETS)
    with pytest.raises(InvalidInputError, match=message):
        table.get(key)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (pa.table({"id": [1], "dt": ["a"]}), "lacks 'name'"),
        (pa.array([1]), "3 columns"),
        (pa.table({"id": ["x"], "dt": ["a"], "name": ["b"]}), "the data's string does not fit"),
        (pa.table({"id": pa.array([None], pa.int32()), "dt": ["a"], "name": ["b"]}), "null in 'id'"),
        ("abc", "sequence of keys, not str"),
    ],
)
def test_invalid_collections_of_keys_are_refused_with_the_reason(tmp_path: Path, keys: Any, message: str) -> None:
    table = make(tmp_path, keys=["dt", "id", "name"], options=BUCKETS)
    with pytest.raises(InvalidInputError, match=message):
        table.get_many(keys)


def test_an_unknown_column_and_a_table_without_keys_are_refused(tmp_path: Path) -> None:
    table = simple(tmp_path)
    with pytest.raises(InvalidInputError, match="no column 'x'"):
        table.get(1, columns=["x"])
    plain = make(tmp_path / "other", keys=[])
    with pytest.raises(NotSupportedError, match="none; use scan"):
        plain.get(1)


def test_lookups_keep_no_more_in_memory_than_the_option_allows(tmp_path: Path) -> None:
    table = simple(tmp_path, **{"file.block-size": "64 kb"})
    table.upsert(pairs(list(range(20_000)), "v"))
    CACHE.clear()
    narrow = table.copy({"lookup.cache-max-memory-size": "100 kb"})
    keys = pa.array(range(0, 20_000, 7))
    assert narrow.get_many(keys).column("id").to_pylist() == list(range(0, 20_000, 7))
    assert 0 < CACHE.bytes <= 100 << 10
    nothing = table.copy({"lookup.cache-max-memory-size": "0 b"})
    assert nothing.get(5) == {"id": 5, "v": "v5"}
    assert CACHE.bytes == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40)), max_size=30), st.integers(0, 100))
def test_a_cache_stays_within_its_bytes_and_evicts_the_least_recently_used(
    uses: list[tuple[int, int]], limit: int
) -> None:
    class SizedValue:
        def __init__(self, nbytes: int) -> None:
            self.nbytes = nbytes

    cache = MemoryCache()
    model: dict[int, int] = {}
    for key, size in uses:
        cache.get(key, lambda s=size: SizedValue(s), limit=limit)  # type: ignore[misc]
        size = model.pop(key, size)
        if size <= limit:
            model[key] = size
        while sum(model.values()) > limit:
            del model[next(iter(model))]
        assert cache.bytes == sum(model.values()) <= limit
        assert all((k in cache) == (k in model) for k in range(6))
