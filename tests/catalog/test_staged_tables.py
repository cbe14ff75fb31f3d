"""Tables created or replaced together with their rows: both or neither."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from interbed import load_catalog
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import TableExistsError, TableNotFoundError
from interbed.catalog.client.staging import TableFill
from interbed.storage.base.errors import CommitConflictError, InterbedError, InvalidInputError
from interbed.storage.base.types.data_type import AtomicType, TypeRoot
from interbed.storage.meta.schema.change import AddColumn, SetOption
from interbed.storage.meta.schema.table_schema import REPLACES, Schema
from interbed.storage.table.table import Table
from tests.support.servers.metastore import metastore

_OLD = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
_NEW = pa.table({"k": ["x"], "id": pa.array([7], pa.int64()), "v": pa.array([1.5])})


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with metastore() as uri:
        yield uri


@pytest.fixture(params=["file system", "metastore"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Catalog]:
    """Open a catalog with the database `db`."""
    if request.param == "file system":
        with load_catalog(warehouse=str(tmp_path / "lake")) as made:
            made.create_database("db")
            yield made
        return
    uri: str = request.getfixturevalue("uri")
    with load_catalog(metastore="hive", uri=uri, warehouse=str(tmp_path / "lake")) as made:
        made.create_database("db")
        yield made
        made.drop_database("db", cascade=True)


def _files(catalog: Catalog) -> list[str]:
    root = Path(catalog.warehouse)
    return sorted(str(f.relative_to(root)) for f in root.rglob("*") if f.parent.name == "db.db")


def test_a_table_is_created_with_its_rows(catalog: Catalog) -> None:
    made = catalog.create_table_as("db.t", _OLD, primary_keys=["id"], options={"bucket": 2})

    assert made.primary_keys == ["id"]
    assert made.scan().to_arrow().sort_by("id").to_pylist() == _OLD.to_pylist()
    assert [s.commit_kind.value for s in made.snapshots()] == ["APPEND"]
    with pytest.raises(TableExistsError):
        catalog.create_table_as("db.t", _OLD)


def test_errors_about_rows_have_the_name_of_the_table(catalog: Catalog) -> None:
    with pytest.raises(InterbedError, match=r"^The column 'id' of the table 'db\.t' admits no nulls, but row 1 "):
        catalog.create_table_as("db.t", pa.table({"id": [1, None]}), primary_keys=["id"], options={"bucket": 1})
    catalog.create_table_as("db.t", _OLD, primary_keys=["id"], options={"bucket": 1})
    with pytest.raises(InterbedError, match=r"^The column 'id' of the table 'db\.t' admits no nulls"):
        catalog.replace_table(
            "db.t", pa.table({"id": [1, None]}).schema, pa.table({"id": [1, None]}), primary_keys=["id"]
        )


def test_a_failed_creation_with_rows_leaves_nothing(catalog: Catalog) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield from _OLD.to_batches()
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        catalog.create_table_as("db.t", pa.RecordBatchReader.from_batches(_OLD.schema, rows()))

    assert catalog.list_tables("db") == []
    assert _files(catalog) == []


def test_a_replaced_table_has_new_columns_and_keeps_its_history(catalog: Catalog) -> None:
    old = catalog.create_table_as(
        "db.t", _OLD, primary_keys=["id"], options={"bucket": 1, "merge-engine": "partial-update"}
    )

    new = catalog.replace_table("db.t", _NEW.schema, _NEW, primary_keys=["k"], options={"bucket": 3}, comment="new")

    assert new.scan().to_arrow().to_pylist() == _NEW.to_pylist()
    assert dict(new.schema.options) == {"bucket": "3"}
    assert (new.schema.comment, new.primary_keys) == ("new", ["k"])
    assert new.scan(snapshot_id=1).to_arrow().sort_by("id").to_pylist() == _OLD.to_pylist()
    new.upsert(_NEW)
    assert new.scan().to_arrow().num_rows == 1
    with pytest.raises(InvalidInputError, match="was replaced"):
        old.scan().to_arrow()
    with pytest.raises(InvalidInputError, match="was replaced"):
        old.upsert(_OLD)
    catalog.alter_table("db.t", [AddColumn("more", AtomicType(root=TypeRoot.INT))])
    assert REPLACES not in catalog.get_table("db.t").schema.unknown
    assert catalog.get_table("db.t").schema.id == 2


def test_columns_of_the_same_name_and_type_keep_their_ids(catalog: Catalog) -> None:
    catalog.create_table_as("db.t", _OLD)

    new = catalog.replace_table("db.t", _NEW.schema)

    assert {f.name: f.id for f in new.schema.fields} == {"k": 2, "id": 0, "v": 3}
    assert new.scan().to_arrow().num_rows == 0


def test_a_replacement_that_fails_changes_nothing(catalog: Catalog) -> None:
    catalog.create_table_as("db.t", _OLD)
    files = sorted(Path(catalog.warehouse).rglob("*.parquet"))
    staged = catalog.stage_table("db.t", Schema.from_pyarrow_schema(_NEW.schema), replace=True)

    def fill(table: Table) -> None:
        # Between the new schema and the snapshot the old table is readable.
        assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == _OLD.to_pylist()
        raise InterbedError("no room left")

    with pytest.raises(InterbedError, match="no room left"):
        staged.commit(TableFill(fill, "me"))

    found = catalog.get_table("db.t")
    assert found.scan().to_arrow().to_pylist() == _OLD.to_pylist()
    assert sorted(Path(catalog.warehouse).rglob("*.parquet")) == files
    assert found.store.schemas.ids() == [0]


def test_an_interrupted_replacement_changes_nothing(catalog: Catalog) -> None:
    catalog.create_table_as("db.t", _OLD)
    staged = catalog.stage_table("db.t", Schema.from_pyarrow_schema(_NEW.schema), replace=True)

    def fill(table: Table) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        staged.commit(TableFill(fill, "me"))

    found = catalog.get_table("db.t")
    assert found.schema.id == 0
    found.append(_OLD)
    assert found.scan().to_arrow().num_rows == 4
    catalog.alter_table("db.t", SetOption("snapshot.num-retained.max", "20"))
    altered = catalog.get_table("db.t")
    assert (altered.schema.id, altered.field_names) == (2, ["id", "v"])
    assert catalog.replace_table("db.t", _NEW.schema, _NEW).scan().to_arrow().to_pylist() == _NEW.to_pylist()


def test_a_rollback_to_before_the_replacement_restores_the_old_table(catalog: Catalog) -> None:
    catalog.create_table_as("db.t", _OLD)
    catalog.replace_table("db.t", _NEW.schema, _NEW).versions.rollback_to(1)

    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == _OLD.to_pylist()


def test_a_concurrent_alteration_is_a_conflict(catalog: Catalog) -> None:
    catalog.create_table_as("db.t", _OLD)
    staged = catalog.stage_table("db.t", Schema.from_pyarrow_schema(_NEW.schema), replace=True)
    catalog.alter_table("db.t", SetOption("snapshot.num-retained.max", "20"))

    with pytest.raises(CommitConflictError, match="was altered"):
        staged.write(_NEW)

    assert catalog.get_table("db.t").scan().to_arrow().num_rows == 2


def test_rows_written_before_a_replacement_are_a_conflict(catalog: Catalog) -> None:
    old = catalog.create_table_as("db.t", _OLD)
    with old.new_write("me") as write:
        write.write_arrow(_OLD)
        messages = write.prepare_commit()
    catalog.replace_table("db.t", _NEW.schema, _NEW)

    with pytest.raises(CommitConflictError, match="was replaced"):
        old.new_commit("me").commit(messages)

    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == _NEW.to_pylist()


def test_unsupported_replacements_are_refused(catalog: Catalog) -> None:
    catalog.create_table_as("db.t", _OLD, partition_keys=["v"])

    with pytest.raises(InvalidInputError, match="keeps the partition columns"):
        catalog.replace_table("db.t", _NEW.schema, partition_keys=["v"])
    with pytest.raises(TableNotFoundError):
        catalog.replace_table("db.u", _NEW.schema)
    assert catalog.replace_table("db.u", _NEW.schema, _NEW, create=True).scan().to_arrow().num_rows == 1


def test_a_second_table_of_the_same_name_columns_and_millisecond_is_refused(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = Schema.from_pyarrow_schema(_OLD.schema)
    with monkeypatch.context() as stopped:
        stopped.setattr("time.time", lambda: 1_700_000_000.0)
        stopped.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
        first, second = catalog.stage_table("db.t", schema), catalog.stage_table("db.t", schema)
        assert first.schema.time_millis == second.schema.time_millis
    first.write(_OLD)
    with pytest.raises(TableExistsError):
        second.write(_OLD)
    assert catalog.get_table("db.t").scan().to_arrow().to_pylist() == _OLD.to_pylist()
    assert [snapshot.id for snapshot in catalog.get_table("db.t").snapshots()] == [1]
