"""Lookup files: keys are found at any position, rows are restored, and the cache is bounded."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.base.bucket_id import BucketId
from interbed.storage.lsm import key_words
from interbed.storage.lsm.older_rows import LookupFile, LookupFiles, shared_lookup_files, write_lookup_file
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import EMPTY_ROW
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND
from interbed.storage.scan.live_files import restore_buckets
from interbed.storage.table.table import Table

_KEY = st.tuples(st.integers(-50, 50), st.text("ab\0ä", max_size=3))
SCHEMA = pa.schema((("a", pa.int32()), ("b", pa.string()), ("v", pa.int64())))


def columns(keys: list[tuple[int, str]]) -> list["pa.Array[Any]"]:
    return [pa.array([k[0] for k in keys], pa.int32()), pa.array([k[1] for k in keys], pa.string())]


@settings(deadline=None)
@given(st.sets(_KEY, max_size=60), st.lists(_KEY, max_size=60), st.integers(1, 9), st.integers(1, 7))
def test_every_key_is_found_at_its_position(
    tmp_path_factory: pytest.TempPathFactory,
    there: set[tuple[int, str]],
    asked: list[tuple[int, str]],
    every: int,
    batch_rows: int,
) -> None:
    directory = tmp_path_factory.mktemp("lookup")
    keys = sorted(there, key=lambda k: (k[0], k[1].encode()))
    rows = pa.record_batch([*columns(keys), pa.array(range(len(keys)), pa.int64())], schema=SCHEMA)
    batches = (rows.slice(i, batch_rows) for i in range(0, len(keys), batch_rows))
    write_lookup_file(directory, batches, SCHEMA, ["a", "b"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_words, "SAMPLE_EVERY", every)
        file = LookupFile(directory, ["a", "b"])
        found = file.find(columns(asked))
    assert found.tolist() == [keys.index(k) if k in there else -1 for k in asked]
    positions = found[found >= 0]
    assert file.rows(positions, ["v", "a"]).to_pydict() == {
        "v": positions.tolist(),
        "a": [keys[p][0] for p in positions],
    }


def table_with_files(warehouse: Path, count: int) -> FileStore:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db")
    schema = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
    table = catalog.create_table("db.t", schema, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    for number in range(count):
        table.upsert(pa.table({"id": [1, number + 2], "v": [f"x{number}", None]}, schema=schema))
    return table.store


def test_the_cache_builds_a_file_once_and_evicts_by_size_and_age(tmp_path: Path) -> None:
    store = table_with_files(tmp_path, 3)
    now = [0.0]
    cache = LookupFiles(store.with_options({"lookup.cache-file-retention": "10 s"}), clock=lambda: now[0])
    files = restore_buckets(store).files(BucketId(EMPTY_ROW, 0))
    paths = {f.file_name: f"{store.paths.bucket_directory(BucketId(EMPTY_ROW, 0))}/{f.file_name}" for f in files}
    first = cache.of(files[0], paths[files[0].file_name])
    assert cache.of(files[0], paths[files[0].file_name]) is first
    assert first.rows(np.array([1, 0]), ["id", "v", SEQUENCE_NUMBER, VALUE_KIND]).to_pylist() == [
        {"id": 2, "v": None, SEQUENCE_NUMBER: 1, VALUE_KIND: 0},
        {"id": 1, "v": "x0", SEQUENCE_NUMBER: 0, VALUE_KIND: 0},
    ]
    now[0] = 11
    cache.of(files[1], paths[files[1].file_name])
    assert not first.directory.exists()
    # An open file stays readable after its eviction.
    assert first.find([pa.array([2, 7])]).tolist() == [1, -1]
    small = LookupFiles(store.with_options({"lookup.cache-max-disk-size": "1 b"}))
    opened = [small.of(f, paths[f.file_name]) for f in files]
    assert small.bytes == opened[-1].bytes
    home = opened[-1].directory.parent
    assert [p.name for p in home.iterdir()] == [files[-1].file_name]
    small.close()
    assert not home.exists()


def lookup_table(warehouse: Path, **options: str) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{warehouse}")
    catalog.create_database("db", ignore_if_exists=True)
    schema = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
    return catalog.create_table(
        "db.t", schema, primary_keys=["id"], options={"bucket": "1", "changelog-producer": "lookup", **options}
    )


def kept(table: Table) -> set[str]:
    """The names of the data files of which this process has lookup files."""
    return set(shared_lookup_files(table.store)._known)


def test_lookup_files_of_one_writer_are_reused_by_the_next(tmp_path: Path) -> None:
    table = lookup_table(tmp_path)
    table.upsert(pa.table({"id": list(range(50_000)), "v": [f"{i * 7919}" for i in range(50_000)]}))
    table.upsert(pa.table({"id": [5], "v": ["b"]}))
    made = dict(shared_lookup_files(table.store)._known)
    table.upsert(pa.table({"id": [7, 200], "v": ["c", "c"]}))
    again = shared_lookup_files(table.store)._known
    assert made
    assert all(again[name][0] is file for name, (file, _) in made.items() if name in again)
    assert set(made) & set(again)
    # Files that were compacted away use no local disk any more, and neither do those of a dropped table.
    live = {f.file_name for f in restore_buckets(table.store).files(BucketId(EMPTY_ROW, 0))}
    assert kept(table) <= live
    table.compact(full=True)
    assert kept(table) == set()
    assert shared_lookup_files(table.store).bytes == 0


def test_a_table_with_another_schema_has_lookup_files_of_its_own(tmp_path: Path) -> None:
    table, other = lookup_table(tmp_path / "a"), lookup_table(tmp_path / "b")
    files = shared_lookup_files(table.store)
    assert shared_lookup_files(table.copy({"lookup.cache-max-disk-size": "1 mb"}).store) is files
    assert shared_lookup_files(other.store) is not files
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path / 'a'}")
    catalog.drop_table("db.t")
    catalog.create_table("db.t", pa.schema([pa.field("id", pa.int64(), nullable=False)]), primary_keys=["id"])
    assert shared_lookup_files(catalog.get_table("db.t").store) is not files
