"""Published tables in an Iceberg REST catalog, Java's, as pyiceberg reads them there."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog as load_pyiceberg
from pyiceberg.catalog.rest import RestCatalog

import interbed
from interbed.iceberg.publish.place import PublishSettings
from interbed.iceberg.publish.registration import SECRETS, rest_properties
from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.table.table import Table
from tests.iceberg.publish.tables import KEYED, STORAGE, VECTORS, lake, ordered, published, rows, shown
from tests.support.servers.http_servers import running_rest_catalog


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_rest_catalog(tmp_path_factory.mktemp("rest")) as running:
        yield running


@pytest.fixture
def theirs(uri: str) -> Iterator[RestCatalog]:
    with load_pyiceberg("rest", type="rest", uri=uri) as catalog:
        assert isinstance(catalog, RestCatalog)
        yield catalog


def made(warehouse: Path, uri: str, options: dict[str, str] | None = None, **schema: Any) -> Table:
    """Create a table that is published in the REST catalog, in the namespace of the test's directory."""
    own = {
        STORAGE: "rest-catalog",
        "metadata.iceberg.rest.uri": uri,
        "metadata.iceberg.rest.clients": "1",
        "metadata.iceberg.database": namespace(warehouse),
    }
    return published(warehouse, {**own, **(options or {})}, **schema)


def namespace(warehouse: Path) -> str:
    return warehouse.name


def seen(theirs: RestCatalog, warehouse: Path) -> list[dict[str, Any]]:
    """Return the rows that pyiceberg reads by the catalog."""
    return ordered(theirs.load_table((namespace(warehouse), "t")).scan().to_arrow().to_pylist())


def test_each_commit_is_seen_by_the_catalog(tmp_path: Path, uri: str, theirs: RestCatalog) -> None:
    table = made(tmp_path, uri)
    table.append(rows(1, 2))
    assert seen(theirs, tmp_path) == shown(table)
    table.append(rows(3))
    table.delete("id = 1")
    assert seen(theirs, tmp_path) == shown(table)
    found = theirs.load_table((namespace(tmp_path), "t"))
    assert [one.snapshot_id for one in found.snapshots()] == [one.id for one in table.snapshots()]
    # The first publication was a registration, each other one a commit, whose file is in the same directory.
    log = [entry.metadata_file for entry in found.metadata.metadata_log]
    assert log[0].endswith("/metadata/v1.metadata.json")
    assert len(log) == 2
    assert not found.metadata_location.endswith("/v3.metadata.json")
    assert found.metadata_location.rpartition("/")[0] == log[0].rpartition("/")[0]


def test_changes_of_columns_are_followed(tmp_path: Path, uri: str, theirs: RestCatalog) -> None:
    table = made(tmp_path, uri)
    table.append(rows(1))
    catalog = lake(tmp_path)
    # A change of an option makes a schema with the same columns.
    catalog.alter_table("db.t", [interbed.SchemaChange.set_option("snapshot.num-retained.max", "50")])
    catalog.alter_table("db.t", [interbed.SchemaChange.add_column("w", "INT")])
    catalog.alter_table("db.t", [interbed.SchemaChange.rename_column("v", "text")])
    table = catalog.get_table("db.t")
    table.append([{"id": 2, "text": "b", "p": 1, "w": 7}])
    assert seen(theirs, tmp_path) == shown(table)
    catalog.alter_table("db.t", [interbed.SchemaChange.drop_column("w")])
    table = catalog.get_table("db.t")
    table.append([{"id": 3, "text": "c", "p": 1}])
    assert seen(theirs, tmp_path) == shown(table)


def test_expired_snapshots_and_tags_are_followed(tmp_path: Path, uri: str, theirs: RestCatalog) -> None:
    table = made(tmp_path, uri)
    for number in range(4):
        table.append(rows(number))
    table.versions.create_tag("first", 2)
    table.append(rows(9))
    found = theirs.load_table((namespace(tmp_path), "t"))
    assert found.metadata.refs["first"].snapshot_id == 2
    table.versions.delete_tag("first")
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    table.append(rows(10))
    found = theirs.load_table((namespace(tmp_path), "t"))
    assert "first" not in found.metadata.refs
    assert [one.snapshot_id for one in found.snapshots()] == [one.id for one in table.snapshots()]
    assert seen(theirs, tmp_path) == shown(table)


def test_a_rollback_is_followed(tmp_path: Path, uri: str, theirs: RestCatalog) -> None:
    table = made(tmp_path, uri)
    for number in range(3):
        table.append(rows(number))
    table.versions.rollback_to(1)
    assert seen(theirs, tmp_path) == shown(table) == ordered(rows(0))
    table.append(rows(7))
    assert seen(theirs, tmp_path) == shown(table)


@pytest.mark.parametrize("options", [{}, VECTORS], ids=["merged", "vectors"])
def test_tables_with_keys_and_partitions_are_published(
    tmp_path: Path, uri: str, theirs: RestCatalog, options: dict[str, str]
) -> None:
    table = made(tmp_path, uri, {"bucket": "1", **options}, schema=KEYED, keys=["p", "id"], partitions=["p"])
    table.upsert(rows(1, 2))
    table.compact(full=True)
    assert seen(theirs, tmp_path) == shown(table)
    table.upsert(rows(1, v="new"))
    table.delete("id = 2")
    table.compact(full=True)
    assert seen(theirs, tmp_path) == shown(table) == rows(1, v="new")


def test_a_table_that_is_not_the_publication_stays(
    tmp_path: Path, uri: str, theirs: RestCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    theirs.create_namespace(namespace(tmp_path))
    other = theirs.create_table((namespace(tmp_path), "t"), pa.schema([pa.field("x", pa.int32())]))
    table = made(tmp_path, uri)
    table.append(rows(1))
    assert "is another one" in caplog.text
    assert "'metadata.iceberg.table'" in caplog.text
    assert theirs.load_table((namespace(tmp_path), "t")).metadata == other.metadata
    with pytest.raises(InvalidOptionError, match="is another one"):
        table.maintenance.publish_iceberg()


def test_a_missed_publication_is_made_up_for(tmp_path: Path, uri: str, theirs: RestCatalog) -> None:
    table = made(tmp_path, uri)
    table.append(rows(1))
    # No server listens there.
    away = table.copy({"metadata.iceberg.rest.uri": "http://127.0.0.1:9"})
    away.append(rows(2))
    assert seen(theirs, tmp_path) == ordered(rows(1))
    assert table.maintenance.publish_iceberg() == 2
    assert seen(theirs, tmp_path) == ordered(rows(1, 2))
    # Dropped there by another client: registered again.
    theirs.drop_table((namespace(tmp_path), "t"))
    table.append(rows(3))
    assert seen(theirs, tmp_path) == shown(table)


def test_options_are_checked_at_creation(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"needs 'metadata\.iceberg\.rest\.uri'"):
        published(tmp_path, {STORAGE: "rest-catalog"})
    options = {
        STORAGE: "rest-catalog",
        "metadata.iceberg.rest.uri": "http://x",
        "metadata.iceberg.rest.token": "secret",
    }
    with pytest.raises(InvalidOptionError, match=r"'metadata.iceberg.rest.token' is secret") as refused:
        published(tmp_path, options)
    assert SECRETS["token"] in str(refused.value)


def test_secrets_come_from_the_environment() -> None:
    settings = PublishSettings.of(CoreOptions({"metadata.iceberg.rest.uri": "http://x"}))
    assert rest_properties(settings, {SECRETS["token"]: "s"}) == {"uri": "http://x", "token": "s"}
    assert rest_properties(settings, {}) == {"uri": "http://x"}
