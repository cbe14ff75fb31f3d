"""Options of publication: values that are refused at creation, and the location of the metadata."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.iceberg.publish.place import PublishPlace, PublishSettings, Storage, StorageLocation, version_of
from interbed.storage.base.errors import InvalidOptionError, MissingExtraError, NotSupportedError
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.change import SetOption
from interbed.storage.table.table import load_table
from tests.iceberg.publish.tables import (
    KEYED,
    ROWS,
    STORAGE,
    VERSION,
    assert_true,
    by_pyiceberg,
    lake,
    metadata_directory,
    published,
    rows,
)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({STORAGE: "rest-catalog"}, InvalidOptionError, "needs 'metadata.iceberg.rest.uri'"),
        ({VERSION: "1"}, InvalidOptionError, "takes 2 or 3, not '1'"),
        ({"metadata.iceberg.manifest-compression": "lzo"}, InvalidOptionError, "takes one of snappy"),
        ({"metadata.iceberg.storage-location": "elsewhere"}, InvalidOptionError, "catalog-location"),
        ({"file.format": "orc"}, InvalidOptionError, "'file.format' = 'orc' contradict each other"),
        ({"file.format.per.level": "0:avro"}, InvalidOptionError, "'file.format.per.level' = '0:avro' contradict"),
        ({"deletion-vectors.enabled": "true"}, InvalidOptionError, f"needs '{VERSION}' = '3'"),
        (
            {"deletion-vectors.enabled": "true", VERSION: "3"},
            InvalidOptionError,
            "needs 'deletion-vectors.bitmap64' = 'true'",
        ),
        ({"metadata.iceberg.rest.token": "x"}, InvalidOptionError, "is secret"),
        ({"metadata.iceberg.table-properties.x": "y"}, NotSupportedError, "cannot be chosen"),
        ({"metadata.iceberg.hive-client-class": "com.example.Client"}, NotSupportedError, "classes of Java"),
        ({"metadata.iceberg.no-such": "1"}, InvalidOptionError, "There is no option"),
    ],
)
def test_unsupported_options_are_refused_at_creation(
    tmp_path: Path, options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        published(tmp_path, options, schema=KEYED, keys=["id"])
    assert not lake(tmp_path).table_exists("db.t")


@pytest.mark.parametrize(("kind", "name"), [(pa.timestamp("ns"), "at"), (pa.timestamp("s"), "at")])
def test_columns_of_types_that_iceberg_lacks_are_refused(tmp_path: Path, kind: pa.DataType, name: str) -> None:
    schema = pa.schema([("id", pa.int64()), (name, kind)])
    with pytest.raises(NotSupportedError, match=f"The column '{name}'"):
        published(tmp_path, schema=schema)


def test_a_missing_metastore_address_is_reported_at_creation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HIVE_CONF_DIR", "HADOOP_CONF_DIR", "HADOOP_HOME", "HIVE_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidOptionError, match=r"metadata\.iceberg\.uri"):
        published(tmp_path, {"metadata.iceberg.storage": "hive-catalog"})


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("kind", ["TIMESTAMP({})", "TIMESTAMP({}) WITH LOCAL TIME ZONE", "ARRAY<TIMESTAMP({})>"])
def test_nanoseconds_which_files_have_as_int96_are_refused(tmp_path: Path, kind: str, version: str) -> None:
    for precision in range(3, 10):
        columns = [interbed.DataField(id=0, name="at", type=interbed.data_type(kind.format(precision)))]
        given = interbed.Schema(columns, options={STORAGE: "table-location", VERSION: version})
        if precision <= 6:
            lake(tmp_path).create_table(f"db.t{precision}", given)
            continue
        with pytest.raises(NotSupportedError, match=r"column 'at' can't be published .* INT96"):
            lake(tmp_path).create_table(f"db.t{precision}", given)
        table = lake(tmp_path).create_table(f"db.u{precision}", interbed.Schema(columns))
        with pytest.raises(NotSupportedError, match=r"column 'at' can't be published .* INT96"):
            table.store.alter([SetOption(STORAGE, "table-location"), SetOption(VERSION, version)])


def test_invalid_options_are_refused_in_changes_of_existing_tables(tmp_path: Path) -> None:
    table = published(tmp_path)
    with pytest.raises(InvalidOptionError, match=r"file\.format"):
        table.store.alter([SetOption("file.format", "avro")])
    with pytest.raises(InvalidOptionError, match=VERSION):
        table.copy({"deletion-vectors.enabled": "true"})


def test_without_pyiceberg_creation_and_writes_name_the_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = published(tmp_path)
    with monkeypatch.context() as missing:
        for name in [name for name in sys.modules if name.startswith("interbed.iceberg")]:
            missing.delitem(sys.modules, name)
        missing.setitem(sys.modules, "pyiceberg", None)
        message = r"pip install 'interbed\[iceberg\]'"
        with pytest.raises(MissingExtraError, match=message):
            published(tmp_path, name="other")
        with pytest.raises(MissingExtraError, match=message):
            table.append(rows(1))
        assert load_table(table.location).count() == 0
    table.append(rows(1))
    assert_true(table)


@pytest.mark.parametrize(
    ("location", "kind", "directory"),
    [
        ("/w/db.db/t", StorageLocation.TABLE_LOCATION, "/w/db.db/t/metadata"),
        ("s3://b/w/db.db/t", StorageLocation.CATALOG_LOCATION, "s3://b/w/iceberg/db/t/metadata"),
    ],
)
def test_metadata_are_where_paimon_has_them(location: str, kind: StorageLocation, directory: str) -> None:
    assert PublishPlace.of(location, kind).directory == directory


def test_a_table_outside_of_a_warehouse_keeps_its_metadata_in_its_location(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"storage-location' = 'table-location'"):
        PublishPlace.of("/somewhere/t", StorageLocation.CATALOG_LOCATION)
    table = published(tmp_path, {"metadata.iceberg.storage-location": "table-location"})
    table.append(rows(1))
    assert interbed.load_iceberg_table(table.location).count() == 1


def test_the_metadata_location_depends_on_the_storage_option() -> None:
    def of(**options: str) -> StorageLocation:
        return PublishSettings.of(CoreOptions({f"metadata.iceberg.{k}": v for k, v in options.items()})).location

    assert of(storage="table-location") is StorageLocation.TABLE_LOCATION
    assert of(storage="hive-catalog") is StorageLocation.CATALOG_LOCATION
    assert PublishSettings.of(CoreOptions({})).storage is Storage.DISABLED


def test_only_metadata_files_count_as_versions() -> None:
    names = ["v12.metadata.json", "version-hint.text", "v1.json", "vx.metadata.json", "0-v3.metadata.json"]
    assert [version_of(name) for name in names] == [12, None, None, None, None]


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "none"])
def test_manifests_are_compressed_as_configured(tmp_path: Path, codec: str) -> None:
    table = published(tmp_path, {"metadata.iceberg.manifest-compression": codec})
    table.append(rows(1))
    table.append(rows(2))
    assert_true(table)
    name = {"zstd": "zstandard", "gzip": "deflate", "none": "null"}.get(codec, codec).encode()
    assert all(
        b"avro.codec" in p.read_bytes() and name in p.read_bytes() for p in metadata_directory(table).glob("*.avro")
    )


@pytest.mark.parametrize("legacy", ["true", "false"])
def test_manifest_lists_have_the_field_names_of_older_readers_on_request(tmp_path: Path, legacy: str) -> None:
    options = {"metadata.iceberg.manifest-legacy-version": legacy, "metadata.iceberg.manifest-compression": "none"}
    table = published(tmp_path, options)
    table.append(rows(1))
    table.append(rows(2))
    assert_true(table)
    lists = [path.read_bytes() for path in metadata_directory(table).glob("snap-*")]
    assert all((b"added_data_files_count" in content) == (legacy == "true") for content in lists)
    assert ROWS.names == by_pyiceberg(table).schema().column_names
