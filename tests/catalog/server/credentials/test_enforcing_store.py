"""Credentials of a server in a store that enforces the rights of sessions, through both REST catalogs."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyiceberg.catalog.rest import RestCatalog

import interbed
from tests.support.servers.enforcing_store import ROLE, EnforcingStore, enforcing_store
from tests.support.servers.keyed_server import keyed_server
from tests.support.waits import at_most

BUCKET = "lake"
TABLE = "/iceberg/v1/hive/namespaces/shop/tables/orders"
ASKING = {"X-Iceberg-Access-Delegation": "vended-credentials"}
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@dataclass(frozen=True)
class DelegatingServer:
    """A server that issues credentials for a store, and a token of the principal `ann`."""

    http: str
    token: str
    store: EnforcingStore
    directory: Path

    def ask(self, path: str, headers: Mapping[str, str] | None = None, body: object = None) -> Any:
        """Return the JSON of a response."""
        with self._answer(path, headers, body) as response:
            return json.load(response)

    def tag(self, path: str) -> str:
        """Return the ETag of a response."""
        with self._answer(path) as response:
            return str(response.headers["etag"])

    def _answer(self, path: str, headers: Mapping[str, str] | None = None, body: object = None) -> Any:
        given = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.http + path, data=content, headers=given)
        return urllib.request.urlopen(request, timeout=at_most(60))

    def iceberg(self, **properties: str) -> RestCatalog:
        """Return pyiceberg's catalog of the server."""
        return RestCatalog("lake", uri=f"{self.http}/iceberg", token=self.token, **properties)


@pytest.fixture(scope="module")
def delegating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DelegatingServer]:
    """Run a store and a server."""
    directory = tmp_path_factory.mktemp("delegating")
    with enforcing_store(BUCKET) as store:
        flags = (
            *("--credentials-s3-role", ROLE, "--credentials-s3-region", "us-east-1"),
            *("--credentials-s3-endpoint", store.endpoint),
        )
        with keyed_server(directory, f"s3://{BUCKET}/wh", store.environment, *flags) as server:
            yield DelegatingServer(http=server.http, token=server.tokens["ann"], store=store, directory=directory)


@pytest.fixture(scope="module")
def orders(delegating: DelegatingServer) -> RestCatalog:
    """Write two tables, one of which has the name of the other as its beginning."""
    catalog = delegating.iceberg()
    catalog.create_namespace("shop")
    for name in ("orders", "orders_old"):
        catalog.create_table(f"shop.{name}", ROWS.schema).append(ROWS)
    return catalog


def keys_of(config: dict[str, str]) -> dict[str, str]:
    """Return the keys of credentials for boto3's client."""
    return {
        "aws_access_key_id": config["s3.access-key-id"],
        "aws_secret_access_key": config["s3.secret-access-key"],
        "aws_session_token": config["s3.session-token"],
    }


def files_of(store: EnforcingStore, prefix: str) -> list[str]:
    """Return the keys of the objects below a prefix."""
    found = store.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [each["Key"] for each in found["Contents"]]


def denied(call: Callable[[], object]) -> None:
    """Check that the store denies a request."""
    with pytest.raises(ClientError) as error:
        call()
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.FORBIDDEN


def test_clients_without_keys_write_and_read(delegating: DelegatingServer, orders: RestCatalog) -> None:
    assert delegating.iceberg().load_table("shop.orders").scan().to_arrow()["id"].to_pylist() == [1, 2]


def test_credentials_of_one_table_are_refused_for_its_neighbour(
    delegating: DelegatingServer, orders: RestCatalog
) -> None:
    answer = delegating.ask(f"{TABLE}/credentials")
    (found,) = answer["storage-credentials"]
    location = orders.load_table("shop.orders").location()
    assert found["prefix"] == location
    s3 = delegating.store.client("s3", keys_of(found["config"]))
    own, others = location.removeprefix(f"s3://{BUCKET}/"), location.removeprefix(f"s3://{BUCKET}/") + "_old"
    own_file, other_file = files_of(delegating.store, own + "/")[0], files_of(delegating.store, others + "/")[0]

    assert s3.get_object(Bucket=BUCKET, Key=own_file)["Body"].read()
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix=own + "/")["KeyCount"]
    s3.put_object(Bucket=BUCKET, Key=f"{own}/data/new", Body=b"x")
    s3.delete_object(Bucket=BUCKET, Key=f"{own}/data/new")

    denied(lambda: s3.get_object(Bucket=BUCKET, Key=other_file))
    denied(lambda: s3.put_object(Bucket=BUCKET, Key=other_file, Body=b"x"))
    denied(lambda: s3.delete_object(Bucket=BUCKET, Key=other_file))
    for prefix in ("", "wh/", own, others, others + "/"):
        denied(partial(s3.list_objects_v2, Bucket=BUCKET, Prefix=prefix))
    denied(lambda: delegating.store.client("s3", {**keys_of(found["config"])}).list_buckets())


def test_only_clients_that_ask_get_credentials(delegating: DelegatingServer, orders: RestCatalog) -> None:
    for _ in range(2):
        assert "storage-credentials" not in delegating.ask(TABLE)
        asked = delegating.ask(TABLE, ASKING)
        assert asked["config"]["s3.access-key-id"] == asked["storage-credentials"][0]["config"]["s3.access-key-id"]
        assert int(asked["config"]["s3.session-token-expires-at-ms"]) > time.time() * 1000
        path = asked["config"]["client.refresh-credentials-endpoint"]
        assert delegating.ask(f"/iceberg/{path}")["storage-credentials"][0]["prefix"] == asked["metadata"]["location"]
    tag = delegating.tag(TABLE)
    assert delegating.ask(TABLE, {**ASKING, "If-None-Match": tag})["storage-credentials"]


def test_no_secret_is_stored(delegating: DelegatingServer, orders: RestCatalog) -> None:
    body = {"name": "kept", "schema": {"type": "struct", "schema-id": 0, "fields": []}}
    key = "0198c2d4-0000-7000-8000-000000000001"
    headers = {**ASKING, "Idempotency-Key": key, "Content-Type": "application/json"}
    answers = [delegating.ask("/iceberg/v1/hive/namespaces/shop/tables", headers, body) for _ in range(2)]
    for answer in answers:
        assert answer["config"]["s3.secret-access-key"]
    secrets = [each["config"][name] for each in answers for name in ("s3.secret-access-key", "s3.session-token")]
    kept = b"".join(path.read_bytes() for path in delegating.directory.iterdir() if path.is_file())
    assert b"shop" in kept
    for secret in [*secrets, delegating.store.secret_key]:
        assert secret.encode() not in kept


def test_paimon_s_clients_get_tokens(delegating: DelegatingServer) -> None:
    options = {
        "metastore": "rest",
        "uri": f"{delegating.http}/paimon",
        "warehouse": "hive",
        "token.provider": "bear",
        "token": delegating.token,
        "data-token.enabled": "true",
    }
    with interbed.load_catalog("lake", **options) as catalog:
        catalog.create_database("lake")
        for name in ("t", "t_old"):
            created = catalog.create_table(f"lake.{name}", ROWS.schema, primary_keys=["id"], options={"bucket": "1"})
            created.upsert(ROWS)
        table = catalog.get_table("lake.t")
        assert table.scan().to_arrow()["id"].to_pylist() == [1, 2]
        location = table.location
    token = delegating.ask("/paimon/v1/hive/databases/lake/tables/t/token")["token"]
    keys = {
        "aws_access_key_id": token["fs.s3a.access.key"],
        "aws_secret_access_key": token["fs.s3a.secret.key"],
        "aws_session_token": token["fs.s3a.session.token"],
    }
    s3 = delegating.store.client("s3", keys)
    path = location.removeprefix("s3://").removeprefix("s3a://").removeprefix(f"{BUCKET}/")
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix=path + "/")["KeyCount"]
    denied(lambda: s3.get_object(Bucket=BUCKET, Key=files_of(delegating.store, path + "_old/")[0]))


def test_a_table_around_another_one_gets_none(delegating: DelegatingServer, orders: RestCatalog) -> None:
    # Writing at a directory around others would give a client the files of all of them.
    location = orders.load_table("shop.orders").location().rpartition("/")[0]
    schema = {"type": "struct", "schema-id": 0, "fields": []}
    headers = {**ASKING, "Content-Type": "application/json"}
    body = {"name": "around", "schema": schema, "location": location}
    answer = delegating.ask("/iceberg/v1/hive/namespaces/shop/tables", headers, body)
    assert "storage-credentials" not in answer
    with pytest.raises(urllib.error.HTTPError, match="400") as error:
        delegating.ask("/iceberg/v1/hive/namespaces/shop/tables/around/credentials")
    assert error.value.code == HTTPStatus.BAD_REQUEST
    error.value.close()
