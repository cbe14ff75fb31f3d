"""Tables that Java Paimon wrote are read row for row, with files that are merged and files that are read raw."""

import json

import pyarrow as pa
import pytest

from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.read.table_read import TableRead
from interbed.storage.table.opening import open_store
from tests.golden.load import TABLE_NAMES, expected, expected_types, table_path
from tests.storage.read.bare_plan import bare_splits
from tests.support.peers.json import PeerType, comparable, parse_type, table_to_rows


def _types_of(schema: TableSchema, store: FileStore) -> tuple[PeerType, ...]:
    # The JSON of the schema file, so that the types do not pass through the code under test.
    raw = json.loads(store.file_io.read_bytes(store.paths.schema(schema.id)))
    return tuple(parse_type(field["type"]) for field in raw["fields"])


@pytest.mark.parametrize("name", TABLE_NAMES)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_newest_snapshot_is_read_as_java_reads_it(name: str, threads: int) -> None:
    store = open_store(str(table_path(name)))
    read = TableRead(store)
    rows = read.to_reader(bare_splits(store), threads=threads).read_all()
    rows.validate(full=True)
    assert rows.schema.equals(store.schema.arrow)
    types = expected_types(name)
    assert comparable(table_to_rows(rows, types), types) == comparable(expected(name)["latest"]["rows"], types)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_older_snapshots_are_read_with_their_own_schema(name: str) -> None:
    location = str(table_path(name))
    newest = open_store(location)
    for snapshot in expected(name)["snapshots"]:
        schema = newest.schemas.schema(newest.snapshots.snapshot(snapshot["id"]).schema_id)
        store = open_store(location, schema=schema)
        assert list(schema.names) == snapshot["columns"]
        rows = TableRead(store).to_reader(bare_splits(store, snapshot["id"])).read_all()
        types = _types_of(schema, store)
        assert comparable(table_to_rows(rows, types), types) == comparable(snapshot["rows"], types)


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_any_projection_returns_the_requested_columns_of_all_rows(name: str) -> None:
    store = open_store(str(table_path(name)))
    splits = bare_splits(store)
    whole = TableRead(store).to_reader(splits, threads=1).read_all()
    for columns in (store.schema.names[-1:], tuple(reversed(store.schema.names)), ()):
        rows = TableRead(store, columns).to_reader(splits, threads=1).read_all()
        assert rows.num_rows == whole.num_rows
        assert rows.schema.equals(pa.schema([store.schema.arrow.field(c) for c in columns]))
        # As text, because NaN does not equal itself; sorted, because the order of rows may depend on the projection.
        expected_rows = whole.select(list(columns)).to_pylist()
        assert sorted(map(str, rows.to_pylist())) == sorted(map(str, expected_rows))


def test_rows_have_the_ids_that_java_gives_them() -> None:
    store = open_store(str(table_path("append_tracked")))
    for snapshot in expected("append_tracked")["row_ids"]:
        read = TableRead(store, (store.schema.names[0], "_ROW_ID", "_SEQUENCE_NUMBER"))
        rows = read.to_reader(bare_splits(store, snapshot["id"])).read_all().sort_by("_ROW_ID")
        assert [list(row.values()) for row in rows.to_pylist()] == snapshot["rows"]


def test_a_compacted_level_is_read_raw() -> None:
    store = open_store(str(table_path("pk_compacted")))
    merged = TableRead(store).to_reader(bare_splits(store)).read_all()
    assert TableRead(store).to_reader(bare_splits(store, raw=True)).read_all().equals(merged)
