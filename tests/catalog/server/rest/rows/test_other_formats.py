"""Rows of Iceberg tables, format tables and Hive's own tables that the server reads for its clients."""

import copy
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table import Table as IcebergMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate
from pyiceberg.types import StringType

from interbed.catalog.client.errors import DatabaseNotFoundError, TableNotFoundError
from interbed.catalog.client.rest.through_server import ServedTable
from interbed.catalog.server.rest.rows.streams import CHECK_SECONDS
from interbed.storage.base.errors import NotSupportedError, TagNotFoundError
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.auth.delegation.connected import plain_client
from tests.catalog.server.rest.rows.served_rows import END_OF_STREAM, ROWS, SHOWN, RowsServer, rows_server
from tests.catalog.server.rest.rows.test_attacks_on_rows import _reason, _rest
from tests.support.waits import wait_until

FORMATS = ("ice", "parquets", "parts", "texts", "hives")
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
TEXT = "org.apache.hadoop.mapred.TextInputFormat"
TEXT_OUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowsServer]:
    """Run a server with tables of each format that have the same rows, grants and policies."""
    with rows_server(tmp_path_factory.mktemp("formats")) as made:
        with iceberg(made) as catalog:
            table = catalog.create_table("sales.ice", ROWS.schema)
            table.append(ROWS.slice(0, 3))
            table.manage_snapshots().create_tag(_newest(table).snapshot_id, "first").commit()
            table.append(ROWS.slice(3))
            for name in ("secret", "crafted"):
                catalog.create_table(f"sales.{name}", ROWS.schema).append(ROWS)
        _hives(made)
        with made.catalog("root") as catalog:
            for name, options, keys in (
                ("parquets", {"file.format": "parquet"}, []),
                ("parts", {"file.format": "parquet"}, ["city"]),
                ("texts", {"file.format": "csv"}, []),
            ):
                options = {"type": "format-table", **options}
                catalog.create_table(f"sales.{name}", ROWS.schema, options=options, partition_keys=keys)
                catalog.get_table(f"sales.{name}").append(ROWS)
            for name in FORMATS:
                for user in ("ann", "bea"):
                    catalog.grant("SELECT", on=f"table sales.{name}", to=f"user {user}")
                catalog.grant("SELECT", on=f"table sales.{name}", columns=["id", "city"], to="user clerk")
                catalog.set_row_filter(f"sales.{name}", "id > 2 AND city IS NOT NULL", to=["user ann"])
                catalog.set_column_mask(f"sales.{name}", "phone", "CONCAT('*', city)", to=["user ann"])
        wait_until(lambda: made.rows("clerk", {"columns": ["id"]}, FORMATS[-1]).status == 200)
        yield made


def iceberg(server: RowsServer, user: str = "root") -> IcebergCatalog:
    """Open Iceberg's REST catalog of a user."""
    uri = f"{server.running.http}/iceberg"
    return load_catalog(user, type="rest", uri=uri, warehouse="hive", token=server.tokens[user])


def _hives(server: RowsServer) -> None:
    """Create a table as Hive does, whose files are text, and one whose SerDe is not known."""
    place = server.running.warehouse / "sales.db" / "hives"
    place.mkdir(parents=True)
    lines = ("\x01".join("\\N" if value is None else str(value) for value in row.values()) for row in ROWS.to_pylist())
    (place / "000000_0").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    kinds = {"id": "bigint", "city": "string", "phone": "string"}
    columns = [ttypes.FieldSchema(name=name, type=kind) for name, kind in kinds.items()]
    storage = ttypes.StorageDescriptor(
        cols=columns,
        location=f"file:{place}",
        inputFormat=TEXT,
        outputFormat=TEXT_OUT,
        serdeInfo=ttypes.SerDeInfo(serializationLib=LAZY, parameters={"serialization.format": "1"}),
        parameters={},
        bucketCols=[],
        sortCols=[],
    )
    entry = ttypes.Table(
        dbName="sales", tableName="hives", tableType="MANAGED_TABLE", sd=storage, partitionKeys=[], parameters={}
    )
    other = copy.deepcopy(entry)
    other.tableName, other.sd.location = "others", None
    other.sd.serdeInfo.serializationLib, other.sd.inputFormat = "org.example.SerDe", "org.example.Input"
    with plain_client(server.running.port, "root", server.tokens["root"]) as client:
        client.create_table(entry)
        client.create_table(other)


def _newest(table: IcebergMetadata) -> Snapshot:
    found = table.current_snapshot()
    assert found is not None
    return found


def _of(server: RowsServer, name: str, user: str = "ann", **body: Any) -> list[dict[str, Any]]:
    """Return rows with the columns in one order: a partition column is the last one of its table."""
    return [dict(sorted(row.items())) for row in server.rows(user, {**body}, name).rows]


def _expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [dict(sorted(row.items())) for row in rows]


@pytest.mark.parametrize("name", FORMATS)
def test_a_bound_reader_gets_shown_rows_and_values(server: RowsServer, name: str) -> None:
    assert _of(server, name) == _expected(SHOWN)
    assert _of(server, name, filter="phone = '33'") == []
    assert _of(server, name, filter="id = 1 OR phone = '11'") == []
    assert _of(server, name, filter="phone LIKE '*U%' AND id < 9", columns=["id"]) == [{"id": 5}]
    assert _of(server, name, columns=["phone"], limit=0) == []
    assert len(_of(server, name, filter="phone = '*Bonn'", limit=1)) == 1
    assert server.rows("ann", {"columns": []}, name).table.num_rows == 3
    assert server.rows("ann", {"columns": [], "filter": "phone = '*Bonn'"}, name).table.num_rows == 2


@pytest.mark.parametrize("name", FORMATS)
def test_a_reader_without_policies_gets_all(server: RowsServer, name: str) -> None:
    for user in ("bea", "root"):
        assert _of(server, name, user) == _expected(ROWS.to_pylist())
        assert _of(server, name, user, filter="id > 5", columns=["phone"]) == [{"phone": "66"}]


@pytest.mark.parametrize("name", FORMATS)
def test_readers_of_some_columns_and_strangers_are_refused_by_name(server: RowsServer, name: str) -> None:
    assert _of(server, name, "clerk", columns=["id", "city"], filter="city = 'Ulm'") == [{"city": "Ulm", "id": 5}]
    for body in ({}, {"columns": ["id"], "filter": "phone = '11'"}):
        refused = server.rows("clerk", body, name)
        assert (refused.status, refused.error["type"]) == (403, "Forbidden")
        assert f"on the column phone of the table hive.sales.{name}" in refused.error["message"]
    assert server.rows("eve", table=name).status == 404


@pytest.mark.parametrize("name", FORMATS)
def test_wrong_queries_are_refused(server: RowsServer, name: str) -> None:
    for body in ({"columns": ["none"]}, {"columns": ["id", "id"]}, {"filter": "none = 1"}, {"filter": "id ="}):
        assert server.rows("ann", body, name).status == 400, body
    for body, system in (({}, "$audit_log"), ({}, "$snapshots")):
        assert server.rows("ann", body, f"{name}{system}").status in (404, 501)


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "ice"])
def test_versions_of_tables_without_snapshots_are_refused(server: RowsServer, name: str) -> None:
    for body in ({"snapshot-id": 1}, {"tag": "a"}, {"timestamp-millis": 1}, {"branch": "b"}):
        answer = server.rows("ann", body, name)
        assert (answer.status, answer.error["type"]) == (501, "NotSupported")


def test_tables_of_unknown_formats_are_refused_by_name(server: RowsServer) -> None:
    answer = server.rows("root", table="others")
    assert (answer.status, answer.error["type"]) == (501, "NotSupported")
    assert "'sales.others'" in answer.error["message"]


def test_object_tables_are_refused_by_name(server: RowsServer) -> None:
    with server.catalog("root") as catalog:
        catalog.create_table("sales.things", pa.schema([]), options={"type": "object-table"})
    answer = server.rows("root", table="things")
    assert (answer.status, answer.error["type"]) == (501, "NotSupported")
    assert "'sales.things'" in answer.error["message"]


def test_older_versions_of_an_iceberg_table(server: RowsServer) -> None:
    with iceberg(server) as catalog:
        first, second = (each.snapshot_id for each in catalog.load_table("sales.ice").metadata.snapshots)
    for body in ({"snapshot-id": first}, {"tag": "first"}):
        assert _of(server, "ice", **body) == _expected(SHOWN[:1])
        assert _of(server, "ice", "bea", **body) == _expected(ROWS.slice(0, 3).to_pylist())
    for body in ({"snapshot-id": second}, {"timestamp-millis": 4102444800000}, {"branch": "main"}):
        assert _of(server, "ice", **body) == _expected(SHOWN)
    for body in ({"snapshot-id": 7}, {"tag": "none"}, {"branch": "none"}, {"timestamp-millis": 7}):
        assert server.rows("ann", body, "ice").status == 404, body


def test_a_policy_whose_column_was_renamed_refuses_the_reader(server: RowsServer) -> None:
    with iceberg(server) as catalog, server.catalog("root") as own:
        table = catalog.create_table("sales.renamed", ROWS.schema)
        table.append(ROWS)
        own.grant("SELECT", on="table sales.renamed", to="user ann")
        own.set_row_filter("sales.renamed", "city = 'Ulm'", to=["user ann"])
        wait_until(lambda: server.rows("ann", table="renamed").status == 200)
        before = _newest(table).snapshot_id
        with table.update_schema() as update:
            update.rename_column("city", "town")
        refused = server.rows("ann", table="renamed")
        assert (refused.status, refused.error["type"]) == (403, "Forbidden")
        with pytest.raises(BadRequestError, match="would bind another column"), table.update_schema() as update:
            update.add_column("city", StringType())
        own.drop_policy("sales.renamed", "filter")
        with table.update_schema() as update:
            update.add_column("city", StringType())
        own.set_row_filter("sales.renamed", "city = 'Ulm'", to=["user ann"])
        wait_until(lambda: server.rows("ann", table="renamed").status == 200)
        # The column of that name was another one in the older version.
        refused = server.rows("ann", {"snapshot-id": before}, "renamed")
        assert (refused.status, refused.error["type"]) == (501, "NotSupported")
        assert server.rows("ann", table="renamed").table.num_rows == 0
        assert server.rows("root", table="renamed").table.num_rows == 6


@pytest.mark.parametrize("name", FORMATS)
def test_interbeds_client_reads_by_the_server(server: RowsServer, name: str) -> None:
    for user, expected in (("ann", SHOWN), ("bea", ROWS.to_pylist())):
        with server.catalog(user, **{"read.rows-from": "server"}) as catalog:
            table: Any = catalog.get_table(f"sales.{name}")
            assert isinstance(table, ServedTable)
            assert sorted(table.field_names) == sorted(ROWS.column_names)
            assert table.scan(["id", "city", "phone"]).to_arrow().sort_by("id").to_pylist() == expected
            assert table.count() == len(expected)
            assert table.scan(["id"], "phone = '*Ulm' AND id < 9").to_arrow().num_rows == (user == "ann")
            assert table.to_duckdb().filter("id > 5").project("id").fetchall() == [(6,)]
    with server.catalog("eve", **{"read.rows-from": "server"}) as catalog, pytest.raises(DatabaseNotFoundError):
        catalog.get_table(f"sales.{name}")


def test_interbeds_client_reads_older_versions_of_an_iceberg_table(server: RowsServer) -> None:
    with server.catalog("ann", **{"read.rows-from": "server"}) as catalog:
        table: Any = catalog.get_table("sales.ice")
        assert table.copy({"scan.tag-name": "first"}).to_arrow().to_pylist() == SHOWN[:1]
        with pytest.raises(TagNotFoundError):
            table.copy({"scan.tag-name": "none"}).to_arrow()
    with server.catalog("ann") as catalog, pytest.raises((TableNotFoundError, NotSupportedError)):
        catalog.get_table("sales.ice")


# -- attacks -----------------------------------------------------------------------------------------------------------


def _crafted(catalog: IcebergCatalog) -> tuple[IcebergMetadata, IcebergMetadata]:
    return catalog.load_table("sales.crafted"), catalog.load_table("sales.secret")


@pytest.mark.attack("ways round privileges")
def test_a_manifest_with_files_of_another_table_is_refused(server: RowsServer) -> None:
    with iceberg(server) as catalog:
        own, secret = _crafted(catalog)
        (task,) = secret.scan().plan_files()
        with own.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            append.append_data_file(task.file)
        refused = server.rows("root", table="crafted")
        assert (refused.status, refused.error["type"]) == (501, "NotSupported")
        assert "is not in" in refused.error["message"]
        assert b"Bonn" not in refused.body


@pytest.mark.attack("ways round privileges")
def test_a_snapshot_with_the_manifests_of_another_table_is_refused(server: RowsServer) -> None:
    with iceberg(server) as catalog:
        own, secret = _crafted(catalog)
        stolen, last = _newest(secret), _newest(own).sequence_number or 0
        snapshot = stolen.model_copy(
            update={
                "snapshot_id": uuid.uuid4().int >> 66,
                "sequence_number": last + 1,
                "parent_snapshot_id": own.metadata.current_snapshot_id,
                "timestamp_ms": int(time.time() * 1000),
            }
        )
        reference = SetSnapshotRefUpdate.model_validate(
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": snapshot.snapshot_id}
        )
        catalog.commit_table(own, (), (AddSnapshotUpdate(snapshot=snapshot), reference))
        refused = server.rows("root", table="crafted")
        assert refused.status != 200
        assert b"Bonn" not in refused.body


@pytest.mark.attack("ways round privileges")
@pytest.mark.parametrize("name", ["parquets", "linked"])
def test_links_to_files_of_another_table_are_refused(server: RowsServer, name: str) -> None:
    warehouse = server.running.warehouse / "sales.db"
    with server.catalog("root") as catalog:
        if name == "linked":
            table = catalog.create_table("sales.linked", ROWS.schema)
            table.append(ROWS)
            (file,) = (warehouse / name).glob("bucket-*/*.parquet")
            (secret,) = (warehouse / "secret" / "data").glob("*.parquet")
            file.unlink()
        else:
            file = warehouse / name / "linked.parquet"
            (secret,) = (warehouse / "secret" / "data").glob("*.parquet")
    os.symlink(secret, file)
    connection, response = server.begin("root", {}, name)
    try:
        body, is_whole = _rest(response)
        # The rows of a file before it may be sent.
        assert body.count(b"Bonn") == (0 if name == "linked" else 3)
        assert "is not in" in (_reason(body) if response.status == 200 else body.decode())
        assert response.status == 501 or not is_whole
    finally:
        connection.close()
        file.unlink()


@pytest.mark.attack("ways round privileges")
def test_external_paths_of_a_table_are_refused(server: RowsServer, tmp_path: Path) -> None:
    options = {"data-file.external-paths": f"file://{tmp_path}", "data-file.external-paths.strategy": "round-robin"}
    with server.catalog("root") as catalog:
        catalog.create_table("sales.outside", ROWS.schema, options=options).append(ROWS)
        assert catalog.get_table("sales.outside").scan().to_arrow().num_rows == 6
    assert list(tmp_path.rglob("*.parquet"))
    refused = server.rows("root", table="outside")
    assert (refused.status, refused.error["type"]) == (501, "NotSupported")
    assert "is not in" in refused.error["message"]


def test_a_stream_of_an_iceberg_table_ends_when_its_policies_change(server: RowsServer) -> None:
    count, width = 100_000, 400
    text = np.random.default_rng(1).integers(97, 122, count * width, dtype=np.uint8).tobytes().decode()
    rows = pa.table({"id": range(count), "text": [text[start : start + width] for start in range(0, len(text), width)]})
    with iceberg(server) as catalog, server.catalog("root") as own:
        catalog.create_table("sales.wide", rows.schema).append(rows)
        own.grant("SELECT", on="table sales.wide", to="user ann")
        own.set_row_filter("sales.wide", "id >= 1000", to=["user ann"])
        wait_until(lambda: server.rows("ann", {"limit": 0}, "wide").status == 200)
        connection, response = server.begin("ann", {}, "wide")
        try:
            assert response.status == 200
            begun = response.read(1 << 16)
            read_at = time.monotonic()
            own.set_row_filter("sales.wide", "id >= 5000", name="more", to=["user ann"])
            wait_until(lambda: server.rows("ann", {"columns": []}, "wide").table.num_rows == count - 5000)
            wait_until(lambda: time.monotonic() - read_at > 2 * CHECK_SECONDS)
            rest, is_whole = _rest(response)
        finally:
            connection.close()
    assert not is_whole
    assert not (begun + rest).endswith(END_OF_STREAM)
    assert "The row filters or column masks of the table hive.sales.wide have changed" in _reason(begun + rest)


def test_registered_partitions_elsewhere_are_read(server: RowsServer, tmp_path: Path) -> None:
    place = server.running.warehouse / "elsewhere"
    place.mkdir()
    pq.write_table(ROWS.select(["id", "phone"]), place / "a.parquet")
    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name="id", type="bigint"), ttypes.FieldSchema(name="phone", type="string")],
        location=f"file:{server.running.warehouse / 'sales.db' / 'spread'}",
        inputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        serdeInfo=ttypes.SerDeInfo(
            serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", parameters={}
        ),
        parameters={},
        bucketCols=[],
        sortCols=[],
    )
    keys = [ttypes.FieldSchema(name="day", type="string")]
    entry = ttypes.Table(
        dbName="sales", tableName="spread", tableType="MANAGED_TABLE", sd=storage, partitionKeys=keys, parameters={}
    )
    with plain_client(server.running.port, "root", server.tokens["root"]) as client:
        client.create_table(entry)
        of_partition = copy.copy(storage)
        of_partition.location = f"file:{place}"
        client.add_partition(
            ttypes.Partition(dbName="sales", tableName="spread", values=["1"], sd=of_partition, parameters={})
        )
    assert server.rows("root", {"columns": ["id", "day"], "filter": "id < 3"}, "spread").rows == [
        {"id": 1, "day": "1"},
        {"id": 2, "day": "1"},
    ]
