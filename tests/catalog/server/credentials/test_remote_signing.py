"""Signatures of a server for the requests of clients without keys, in a store that checks signatures."""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

import interbed
from tests.catalog.server.credentials.test_s3_requests import deletion
from tests.support.peers.cache import python_with
from tests.support.peers.process import PeerError
from tests.support.peers.spark import PEERS, SparkPeer, maven_jars
from tests.support.servers.enforcing_store import EnforcingStore, enforcing_store
from tests.support.servers.keyed_server import keyed_server
from tests.support.waits import at_most, wait_until

BUCKET = "lake"
PROGRAM = PEERS / "remote_signing" / "signing_program.py"
TABLE = "/iceberg/v1/hive/namespaces/signed/tables/orders"


class SigningServer:
    """A server that signs requests to a store, and tokens of its principals."""

    def __init__(self, http: str, store: EnforcingStore, tokens: dict[str, str], directory: Path) -> None:
        self.http, self.store, self.tokens, self.directory = http, store, tokens, directory

    def ask(self, path: str, body: object = None, *, user: str = "ann", **headers: str) -> tuple[int, Any, Any]:
        """Return the status, the JSON and the headers of a response."""
        given = {"Authorization": f"Bearer {self.tokens[user]}", **headers}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.http + path, data=content, headers=given)
        try:
            with urllib.request.urlopen(request, timeout=at_most(60)) as response:
                return response.status, json.load(response), response.headers
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error), error.headers

    def sign(self, method: str, key: str, *, user: str = "ann", body: str | None = None, **headers: str) -> Any:
        """Return the answer of signRequest for a path of the store."""
        asked = {
            "method": method,
            "region": "us-east-1",
            "uri": f"{self.store.endpoint}/{BUCKET}{key}",
            "headers": {name.replace("_", "-"): [value] for name, value in headers.items()},
        }
        return self.ask(f"{TABLE}/sign", asked if body is None else {**asked, "body": body}, user=user)


def sent(method: str, signed: Any, content: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Send a signed request to the store."""
    given = {name: values[0] for name, values in signed["headers"].items()}
    further = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(signed["uri"], data=content, headers={**given, **further}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=at_most(60)) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SigningServer]:
    """Run a store and a server that has the only keys; `rita` may only read."""
    directory = tmp_path_factory.mktemp("signing")
    with enforcing_store(BUCKET) as store:
        flags = (
            *("--credentials-s3-signing", "on", "--credentials-s3-region", "us-east-1"),
            *("--credentials-s3-endpoint", store.endpoint, "--access-authorizer", "builtin", "--access-admins", "ann"),
        )
        users = ("ann", "rita", "nina")
        with keyed_server(directory, f"s3://{BUCKET}/wh", store.environment, *flags, users=users) as server:
            yield SigningServer(server.http, store, server.tokens, directory)


@pytest.fixture(scope="module")
def found(signing: SigningServer) -> dict[str, Any]:
    """Run the client, and let `rita` read its table."""
    python = python_with("s3fs", PEERS / "remote_signing" / "requirements.txt")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    ended = subprocess.run(
        [python, PROGRAM, f"{signing.http}/iceberg", signing.tokens["ann"]],
        capture_output=True,
        text=True,
        timeout=at_most(180),
        check=False,
        env={**clean, "AWS_EC2_METADATA_DISABLED": "true"},
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    options = {"metastore": "rest", "uri": f"{signing.http}/paimon", "warehouse": "hive", "token.provider": "bear"}
    with interbed.load_catalog("lake", **options, token=signing.tokens["ann"]) as catalog:
        catalog.grant("SELECT", on="table signed.orders", to="user rita")
    wait_until(lambda: signing.ask(TABLE, user="rita")[0] == HTTPStatus.OK)
    parsed: dict[str, Any] = json.loads(ended.stdout)
    return parsed


def own_key(signing: SigningServer, table: str = "orders") -> str:
    """Return the path of an object of a table."""
    prefix = f"wh/signed.db/{table}/metadata/"
    listed = signing.store.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return f"/{listed['Contents'][0]['Key']}"


def test_pyiceberg_without_keys_writes_and_reads(found: dict[str, Any]) -> None:
    assert found["files"] == "FsspecFileIO"
    assert found["rows"] == [2, 2]
    assert found["big"] == 12 << 20
    assert found["exists"] == [True, False]


def test_pyiceberg_is_refused_for_the_neighbour(found: dict[str, Any]) -> None:
    for name in ("read", "written", "deleted"):
        assert found[name] is not None, name
        assert "403" in found[name] or "PermissionError" in found[name], found[name]
    # Its signer does not send the body that names the objects.
    assert "403" in found["bulk"]


def test_the_store_carries_out_what_was_signed_and_nothing_else(signing: SigningServer, found: dict[str, Any]) -> None:
    own, other = own_key(signing), own_key(signing, "orders_old")
    status, signed, headers = signing.sign("GET", own)
    assert (status, headers["cache-control"]) == (HTTPStatus.OK, "private")
    assert sent("GET", signed)[0] == HTTPStatus.OK
    # The same signature for another object, method or parameter.
    assert sent("GET", {**signed, "uri": signed["uri"].replace(own, other)})[0] == HTTPStatus.FORBIDDEN
    assert sent("DELETE", signed)[0] == HTTPStatus.FORBIDDEN
    assert sent("GET", {**signed, "uri": signed["uri"] + "?acl"})[0] == HTTPStatus.FORBIDDEN
    status, answer, _ = signing.sign("GET", other)
    assert status == HTTPStatus.FORBIDDEN
    assert "not in the directory of the table" in answer["error"]["message"]


def test_deleted_objects_are_those_of_the_signed_body(signing: SigningServer, found: dict[str, Any]) -> None:
    directory = own_key(signing).rpartition("/")[0]
    for name in ("x", "y"):
        status, signed, headers = signing.sign("PUT", f"{directory}/{name}")
        assert (status, headers["cache-control"]) == (HTTPStatus.OK, "no-cache")
        assert sent("PUT", signed, b"content")[0] == HTTPStatus.OK
    body = deletion(*(f"{directory[1:]}/{name}" for name in ("x", "y")))
    status, signed, _ = signing.sign("POST", "?delete", body=body)
    assert status == HTTPStatus.OK, signed
    assert sent("POST", signed, body.encode(), Content_Type="application/xml")[0] == HTTPStatus.OK
    # A copy within the table, and one of the neighbour's.
    own, other = own_key(signing), own_key(signing, "orders_old")
    copy = {"x_amz_copy_source": f"/{BUCKET}{own}"}
    status, signed, _ = signing.sign("PUT", f"{directory}/copy", **copy)
    assert sent("PUT", signed, b"", **copy)[0] == HTTPStatus.OK
    status, answer, _ = signing.sign("PUT", f"{directory}/copy", x_amz_copy_source=f"/{BUCKET}{other}")
    assert (status, "copied object" in answer["error"]["message"]) == (HTTPStatus.FORBIDDEN, True)


def test_grants_decide_what_is_signed(signing: SigningServer, found: dict[str, Any]) -> None:
    own = own_key(signing)
    assert signing.sign("GET", own, user="rita")[0] == HTTPStatus.OK
    assert signing.sign("HEAD", own, user="rita")[0] == HTTPStatus.OK
    for method, path in (("PUT", own), ("DELETE", own), ("POST", f"{own}?uploads"), ("PUT", f"{own}?acl")):
        status, answer, _ = signing.sign(method, path, user="rita")
        assert status == HTTPStatus.FORBIDDEN, answer
    # A table that a principal does not see is missing.
    assert signing.sign("GET", own, user="nina")[0] == HTTPStatus.NOT_FOUND


def test_only_clients_that_ask_are_sent_to_the_signer(signing: SigningServer, found: dict[str, Any]) -> None:
    assert "s3.remote-signing-enabled" not in signing.ask(TABLE)[1]["config"]
    both = signing.ask(TABLE, **{"X-Iceberg-Access-Delegation": "vended-credentials,remote-signing"})[1]
    assert both["config"]["s3.remote-signing-enabled"] == "true"
    assert both["config"]["s3.endpoint"] == signing.store.endpoint
    assert both["config"]["signer.endpoint"] == f"{TABLE.removeprefix('/iceberg/')}/sign"
    assert "storage-credentials" not in both
    assert both["remote-signing-config"] == {"properties": {}, "headers": {}}
    assert "remote-signing-config" not in signing.ask(TABLE)[1]
    other = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    assert "s3.remote-signing-enabled" not in signing.ask(TABLE, **other)[1]["config"]
    endpoints = signing.ask("/iceberg/v1/config")[1]["endpoints"]
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign" in endpoints


def test_a_body_of_another_form_is_refused(signing: SigningServer, found: dict[str, Any]) -> None:
    asked = {"method": "GET", "region": "us-east-1", "uri": "x", "headers": {}}
    assert signing.ask(f"{TABLE}/sign", {**asked, "provider": "gcs"})[0] == HTTPStatus.BAD_REQUEST
    assert signing.ask(f"{TABLE}/sign", {**asked, "headers": {"a": "b"}})[0] == HTTPStatus.BAD_REQUEST
    assert signing.ask(f"{TABLE}/sign", {"method": "GET"})[0] == HTTPStatus.BAD_REQUEST


def test_no_secret_leaves_the_server(signing: SigningServer, found: dict[str, Any]) -> None:
    _, signed, _ = signing.sign("GET", own_key(signing))
    kept = b"".join(path.read_bytes() for path in signing.directory.iterdir() if path.is_file())
    assert b"signed" in kept
    signature = re.search(r"Signature=([0-9a-f]{64})", signed["headers"]["Authorization"][0])
    assert signature is not None
    for secret in (signing.store.secret_key, signature[1]):
        assert secret.encode() not in kept
    assert signing.store.secret_key not in json.dumps(signed)


@pytest.mark.long
def test_iceberg_s_java_client_without_keys_writes_reads_and_deletes(signing: SigningServer) -> None:
    jars = maven_jars("remote_signing", "iceberg-aws-1.12.0")
    settings = {
        "spark.jars": ",".join(str(jar) for jar in sorted(jars.glob("*.jar"))),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    for user in ("ann", "rita"):
        key = f"spark.sql.catalog.{user}"
        settings |= {
            key: "org.apache.iceberg.spark.SparkCatalog",
            f"{key}.type": "rest",
            f"{key}.uri": f"{signing.http}/iceberg",
            f"{key}.token": signing.tokens[user],
            f"{key}.header.X-Iceberg-Access-Delegation": "remote-signing",
            f"{key}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            f"{key}.cache-enabled": "false",
            # An upload of several parts.
            f"{key}.s3.multipart.part-size-bytes": str(5 << 20),
            f"{key}.s3.multipart.threshold": "1.0",
        }
    with SparkPeer(settings, timeout_seconds=at_most(300)) as spark:
        spark.run("CREATE NAMESPACE IF NOT EXISTS ann.java")
        for name in ("t", "t_old"):
            spark.run(f"CREATE TABLE ann.java.{name} (id BIGINT, text STRING) USING iceberg PARTITIONED BY (id)")
            spark.run(f"INSERT INTO ann.java.{name} VALUES (1, 'a'), (2, 'b')")
        spark.run(
            "INSERT INTO ann.java.t SELECT /*+ COALESCE(1) */ 3, sha2(cast(id AS STRING), 512) FROM range(150000)"
        )
        spark.run("DELETE FROM ann.java.t WHERE text = 'a'")
        assert spark.run("SELECT count(*), max(id) FROM ann.java.t") == [["150001", "3"]]
        options = {"metastore": "rest", "uri": f"{signing.http}/paimon", "warehouse": "hive", "token.provider": "bear"}
        with interbed.load_catalog("lake", **options, token=signing.tokens["ann"]) as catalog:
            catalog.grant("SELECT", on="table java.t", to="user rita")
        wait_until(lambda: signing.ask(TABLE.replace("signed/tables/orders", "java/tables/t"), user="rita")[0] == 200)
        assert spark.run("SELECT count(*) FROM rita.java.t WHERE id = 2") == [["1"]]
        with pytest.raises(PeerError, match=r"rita|Not signed"):
            spark.run("INSERT INTO rita.java.t VALUES (4, 'd')")
        # Objects are deleted several at once, with their names in the body.
        before = objects(signing, "wh/java.db/t_old/data/")
        assert len(before) == 2
        spark.run("INSERT OVERWRITE ann.java.t_old VALUES (5, 'e'), (6, 'f')")
        spark.run("DELETE FROM ann.java.t_old WHERE id < 5")
        spark.run(
            "CALL ann.system.expire_snapshots(table => 'java.t_old', older_than => TIMESTAMP '2999-01-01 00:00:00')"
        )
        after = objects(signing, "wh/java.db/t_old/data/")
        assert len(after) == 2
        assert not set(before) & set(after)


def objects(signing: SigningServer, prefix: str) -> list[str]:
    """Return the keys of the objects below a prefix."""
    listed = signing.store.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [each["Key"] for each in listed.get("Contents", ())]
