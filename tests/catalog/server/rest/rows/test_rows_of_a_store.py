"""Rows of a table in an object store, read by the server for readers that get no credentials of the store."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.rest.through_server import ServedTable
from interbed.catalog.server.process.command import RunningServer, stop_server
from interbed.storage.base.errors import NotSupportedError
from tests.catalog.server.migration.commands import run
from tests.support.servers.enforcing_store import ROLE, enforcing_store
from tests.support.servers.metastore import started_server
from tests.support.waits import at_most, wait_until

BUCKET = "lake"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "phone": ["11", "22", "33"]})
SHOWN = [{"id": 2, "phone": None}, {"id": 3, "phone": None}]


class _StoreServers:
    """A server with keys of the store, another one without, and the tokens of users."""

    def __init__(self, first: RunningServer, second: RunningServer, tokens: dict[str, str]) -> None:
        self.first = first
        self.second = second
        self.tokens = tokens

    def catalog(self, user: str, **options: str) -> Catalog:
        """Open the REST catalog of a user, whose files need tokens of the server."""
        given = {"token.provider": "bear", "data-token.enabled": "true", **options}
        return interbed.load_catalog(
            "lake",
            metastore="rest",
            uri=f"{self.first.http}/paimon",
            warehouse="hive",
            token=self.tokens[user],
            **given,
        )


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_StoreServers]:
    """Run a store and two servers on one database, with a table in the store that has policies for `ann`."""
    directory: Path = tmp_path_factory.mktemp("stored")
    db = f"sqlite:///{directory / 'metastore.db'}"
    arguments = (
        *("--http-port", "0", "--authentication", "token", "--access-authorizer", "builtin"),
        *("--access-admins", "root", "--access-trusted", "engine"),
    )
    issuing = ("--credentials-s3-role", ROLE, "--credentials-s3-region", "us-east-1")
    with enforcing_store(BUCKET) as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        endpoint = ("--credentials-s3-endpoint", store.endpoint)
        first = started_server(db, f"s3://{BUCKET}/wh", *arguments, *issuing, *endpoint, log=directory / "first.log")
        for name in store.environment:
            # From here on only the first server has keys.
            patch.delenv(name)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        second = started_server(db, f"s3://{BUCKET}/wh", *arguments, log=directory / "second.log")
        try:
            tokens = {
                name: run("token", "create", name, "--db", db).strip() for name in ("root", "ann", "bea", "engine")
            }
            made = _StoreServers(first, second, tokens)
            with made.catalog("root") as catalog:
                catalog.create_database("sales")
                catalog.create_table("sales.lake", ROWS.schema).append(ROWS)
                for user in ("ann", "bea", "engine"):
                    catalog.grant("SELECT", on="table sales.lake", to=f"user {user}")
                catalog.set_row_filter("sales.lake", "id > 1", to=["user ann", "user engine"])
                catalog.set_column_mask("sales.lake", "phone", "NULL", to=["user ann"])
            with made.catalog("engine") as catalog:
                wait_until(lambda: catalog.table_exists("sales.lake"))
            yield made
        finally:
            stop_server(first)
            stop_server(second)


def _opened(servers: _StoreServers, user: str, **options: Any) -> Any:
    with servers.catalog(user, **options) as catalog:
        return catalog.get_table("sales.lake")


def test_a_bound_reader_without_credentials_reads_by_the_server(servers: _StoreServers) -> None:
    table = _opened(servers, "ann")
    assert isinstance(table, ServedTable)
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == SHOWN
    assert table.count() == 2
    with pytest.raises(NotSupportedError, match="'new_scan' needs the files"):
        _ = table.new_scan


def test_other_readers_read_the_files_with_tokens(servers: _StoreServers) -> None:
    for user, count in (("bea", 3), ("engine", 2), ("root", 3)):
        with servers.catalog(user) as catalog:
            table: object = catalog.get_table("sales.lake")
            assert not isinstance(table, ServedTable)
            assert catalog.get_table("sales.lake").scan().to_arrow().num_rows == count


def test_a_server_without_keys_of_the_store_refuses_by_name(servers: _StoreServers) -> None:
    address = urlsplit(servers.second.http or "")
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=at_most(60))
    path = "/interbed/v1/hive/databases/sales/tables/lake/rows"
    try:
        connection.request("POST", path, headers={"Authorization": f"Bearer {servers.tokens['bea']}"})
        response = connection.getresponse()
        error = json.loads(response.read())["error"]
    finally:
        connection.close()
    assert (response.status, error["type"]) == (503, "StorageAccess")
    assert f"there are no credentials that s3://{BUCKET} takes" in error["message"]
