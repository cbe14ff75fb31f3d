"""Executors never see a secret of a catalog, and no page, plan, log or error shows one.

A plugin of Spark records the bytes that leave the driver. Each kind of catalog runs each kind of statement.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest

from interbed.spark_ext import spark_settings
from tests.catalog.client.rest.answering_server import ChosenAnswer, ReceivedRequest, answering_server
from tests.catalog.server.auth.issuer import AUDIENCE, ISSUER, public_jwk, rsa_key
from tests.catalog.server.migration.commands import run
from tests.support.peers.process import PeerError
from tests.support.peers.spark import SparkPeer
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.servers.paimon_rest import PaimonRestServers
from tests.support.spark.recorder import recorded, recorder_settings
from tests.support.spark.spark_process import QUICK_JVM
from tests.support.waits import at_most

pytestmark = pytest.mark.long

SECRET = "hush-of-a-client"
KEYS_OF_FILES = {"s3.access-key": "AKIDofaccount", "s3.secret-key": "hushed-key-of-files"}
"""Keys of an object store, which executors get, and which nothing shows."""
KINDS = (
    "files",
    "hive-plain",
    "hive-http",
    "hive-oauth2",
    "hive-plain-oauth2",
    "rest-token",
    "rest-header",
    "rest-oauth2",
    "rest-dlf",
    "rest-settings",
)
_FEW = ("files", "rest-dlf")
"""Kinds without views and functions: those of a file system, and of Paimon's reference server in a test. A Hive catalog
has views, and refuses functions.
"""
_PAGES = ("environment", "sql?details=true&planDescription=true&length=1000", "jobs", "stages?details=true")


@dataclass
class SecretiveSession:
    """A session in which all bytes for executors are recorded, with the options of catalogs by kind."""

    spark: SparkPeer
    directory: Path
    options: dict[str, dict[str, str]]
    issued: list[str]
    """Tokens that catalogs have got by their credentials."""
    shown: dict[str, str] = field(default_factory=dict)

    def secrets(self, kind: str) -> list[str]:
        """Return the secrets of a catalog."""
        names = ("token", "credential", "dlf.access-key-secret", "dlf.security-token", "header.X-Tenant")
        given = [self.options[kind][name] for name in names if name in self.options[kind]]
        return [*(part for value in given for part in (value, value.rpartition(":")[2])), *self.issued]

    def show(self, statement: str) -> str:
        """Run a statement, and note what it shows: its result or its error."""
        try:
            text = str(self.spark.run(statement))
        except PeerError as refused:
            text = str(refused)
        self.shown[statement] = text
        return text


def _server_options(server: MetastoreUnderTest, token: str, oauth: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return the options of catalogs on the server: by Thrift with SASL PLAIN and HTTP, and by REST."""
    hive = {"metastore": "hive", "uri": server.uri, "warehouse": f"file:{server.warehouse}"}
    plain = {"hive.metastore.client.auth.mode": "PLAIN", "hive.metastore.client.plain.username": "etl"}
    by_http = {
        "uri": server.http.replace("http://", "thrift://"),
        "hive.metastore.client.thrift.transport.mode": "http",
    }
    rest = {"metastore": "rest", "uri": f"{server.http}/paimon", "warehouse": "hive", "token.provider": "bear"}
    return {
        "hive-plain": {**hive, **plain, "token": token},
        "hive-http": {**hive, **by_http, "token": token},
        "hive-oauth2": {**hive, **by_http, **oauth},
        "hive-plain-oauth2": {**hive, **plain, **oauth},
        "rest-token": {**rest, "token": token},
        "rest-header": {**rest, "token": token, "header.X-Tenant": f"{SECRET}-in-a-header"},
        "rest-oauth2": {**rest, **oauth},
        "rest-settings": {**rest, "token": token},
    }


@pytest.fixture(scope="module")
def secretive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretiveSession]:
    """Run the servers and a session with an event log and pages."""
    directory = tmp_path_factory.mktemp("secretive")
    (directory / "events").mkdir()
    key = rsa_key()
    issued: list[str] = []
    (directory / "keys.json").write_text(json.dumps({"keys": [public_jwk(key, "k")]}))

    def endpoint(_: ReceivedRequest) -> ChosenAnswer:
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "etl", "exp": int(time.time()) + 3600}
        made = jwt.encode(claims, key, "RS256", headers={"kid": "k"})
        issued.append(made)
        return ChosenAnswer(body=json.dumps({"access_token": made, "token_type": "Bearer"}).encode())

    db = f"sqlite:///{directory / 'metastore.db'}"
    arguments = (
        *("--http-port", "0", "--authentication", "token,jwt", "--jwt-issuer", ISSUER),
        *("--jwt-audience", AUDIENCE, "--jwt-keys", str(directory / "keys.json")),
    )
    with ExitStack() as stack:
        server = stack.enter_context(metastore_under_test(db, directory, *arguments))
        uri, _ = stack.enter_context(answering_server(endpoint))
        paimon = stack.enter_context(PaimonRestServers())
        dlf = {"key": "a-key", "secret": f"{SECRET}-of-dlf", "session": f"{SECRET}-session", "region": "cn-hangzhou"}
        url = stack.enter_context(paimon.server(directory / "dlf", **dlf))
        oauth = {"credential": f"etl:{SECRET}", "oauth2-server-uri": f"{uri}/token"}
        options = {
            "files": {"warehouse": str(directory / "files"), "token": f"{SECRET}-unused"},
            **_server_options(server, run("token", "create", "etl", "--db", db).strip(), oauth),
            "rest-dlf": {
                "metastore": "rest",
                "uri": url,
                "warehouse": "lake",
                "token.provider": "dlf",
                "dlf.region": "cn-hangzhou",
                "dlf.access-key-id": "a-key",
                "dlf.access-key-secret": dlf["secret"],
                "dlf.security-token": dlf["session"],
            },
        }
        by_settings = {**options["rest-settings"], **KEYS_OF_FILES}
        settings = {
            **spark_settings(),
            **recorder_settings(directory),
            "spark.sql.catalog.rest_settings": "interbed.spark.SparkCatalog",
            **{f"spark.sql.catalog.rest_settings.{name}": value for name, value in by_settings.items()},
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": str(directory / "spark"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file:{directory / 'events'}",
        }
        # The recorder is on the class path, which the archive of Spark's classes does not fit.
        spark = stack.enter_context(SparkPeer(settings, jvm=QUICK_JVM))
        yield SecretiveSession(spark, directory, options, issued)


STATEMENTS = {
    "write": "INSERT INTO {}.db.t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)",
    "write rows": "INSERT INTO {}.db.log SELECT id, 'x', id % 2 FROM range(10)",
    "overwrite": "INSERT OVERWRITE {}.db.log SELECT id, 'y', id % 2 FROM range(8)",
    "read": "SELECT * FROM {}.db.t ORDER BY id",
    "filtered read": "SELECT v FROM {}.db.log WHERE id > 5 AND p = 1",
    "join": "SELECT count(*) FROM {0}.db.t JOIN {0}.db.log USING (id)",
    "update": "UPDATE {}.db.t SET v = 'z' WHERE id = 2",
    "delete": "DELETE FROM {}.db.t WHERE id = 3",
    "merge": "MERGE INTO {0}.db.t USING {0}.db.log s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT *",
    "update of rows without a key": "UPDATE {}.db.log SET v = 'w' WHERE id = 2",
    "create as": "CREATE TABLE {0}.db.copied AS SELECT * FROM {0}.db.log",
    "compaction": "CALL {}.sys.compact(table => 'db.t')",
    "compaction of all": "CALL {}.sys.compact_database()",
    "sorted compaction": "CALL {}.sys.compact(table => 'db.log', order_strategy => 'order', order_by => 'id')",
    "indexes": "CALL {}.sys.rewrite_file_index(table => 'db.log')",
    "changes": "SELECT * FROM {}.db.`t$audit_log`",
    "changes between": "SELECT * FROM paimon_incremental_query('{}.db.t', '1', '2')",
    "files": "SELECT count(*) FROM {}.db.`t$files`",
    "options": "SELECT * FROM {}.sys.catalog_options",
    "statistics": "ANALYZE TABLE {}.db.t COMPUTE STATISTICS FOR ALL COLUMNS",
    "view": "CREATE VIEW {0}.db.v AS SELECT id FROM {0}.db.t",
    "read of a view": "SELECT count(*) FROM {}.db.v",
    "function": "CREATE FUNCTION {}.db.f(x INT) RETURNS INT RETURN x + 1",
    "read by a function": "SELECT {0}.db.f(id) FROM {0}.db.t",
}
_OF_VIEWS = {"view", "read of a view"}
_OF_FUNCTIONS = {"function", "read by a function"}
REFUSED = (
    "SELECT nothing FROM {}.db.t",
    "SELECT * FROM {}.db.t WITH ('s3.unknown' = 'x')",
    "SELECT * FROM {}.db.missing",
    "INSERT INTO {}.db.t SELECT raise_error('a reason'), 'a', 1",
    "CALL {}.sys.compact(table => 'db.missing')",
    "CREATE TABLE {}.db.u (id INT) TBLPROPERTIES ('s3.secret-key' = 'x')",
)
PLANS = (
    "EXPLAIN EXTENDED SELECT * FROM {}.db.t WHERE id > 1",
    "EXPLAIN FORMATTED INSERT INTO {}.db.log VALUES (1, 'b', 1)",
    "EXPLAIN EXTENDED DELETE FROM {}.db.t WHERE id = 1",
    "DESCRIBE TABLE EXTENDED {}.db.t",
    "SHOW CREATE TABLE {}.db.t",
    "DESCRIBE DATABASE EXTENDED {}.db",
    "SHOW TBLPROPERTIES {}.db.t",
)


@pytest.mark.parametrize("kind", KINDS)
def test_no_secret_of_a_catalog_leaves_the_driver(secretive: SecretiveSession, kind: str) -> None:
    lake = kind.replace("-", "_")
    database = f"db_{lake}"
    if kind != "rest-settings":
        given = {"type": "interbed", **secretive.options[kind], **KEYS_OF_FILES}
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
        assert secretive.spark.run(f"CREATE CATALOG {lake} WITH ({listed})") == []

    def sent(statement: str) -> str:
        named = statement.replace("{}", lake).replace("{0}", lake)
        return named.replace(f"{lake}.db", f"{lake}.{database}").replace("'db.", f"'{database}.")

    secretive.spark.run(f"CREATE DATABASE {lake}.{database}")
    columns = "(id BIGINT NOT NULL, v STRING, p BIGINT)"
    keyed = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2', 'changelog-producer' = 'input')"
    secretive.spark.run(f"CREATE TABLE {lake}.{database}.t {columns} {keyed}")
    indexed = (
        "TBLPROPERTIES ('bucket' = '-1', 'row-tracking.enabled' = 'false', 'file-index.bloom-filter.columns' = 'id')"
    )
    secretive.spark.run(f"CREATE TABLE {lake}.{database}.log {columns} PARTITIONED BY (p) {indexed}")
    before = len(recorded(secretive.directory))
    for name, statement in STATEMENTS.items():
        if (name in _OF_VIEWS | _OF_FUNCTIONS and kind in _FEW) or (name in _OF_FUNCTIONS and "hive" in kind):
            continue
        secretive.spark.run(sent(statement))
    checkpoint = secretive.directory / f"checkpoint-{kind}"
    source, target = f"{lake}.{database}.log", f"{lake}.{database}.t"
    secretive.spark.stream(source, ["id", "v", "p"], target, checkpoint)
    for statement in (*REFUSED, *PLANS):
        secretive.show(sent(statement))
    found = recorded(secretive.directory)
    assert database.encode() in found[before:]
    hidden = secretive.secrets(kind)
    assert hidden
    assert [secret for secret in hidden if secret.encode() in found] == []
    assert KEYS_OF_FILES["s3.secret-key"].encode() in found
    secretive.show(f"CREATE CATALOG {lake} WITH ('type' = 'interbed', 'token' = '{hidden[0]}')")


def test_nothing_that_a_session_shows_contains_a_secret(secretive: SecretiveSession) -> None:
    address, application = secretive.spark.web()
    pages = [f"/api/v1/applications/{application}/{page}" for page in _PAGES]
    for page in (*pages, "/environment/", "/SQL/", "/jobs/"):
        with urllib.request.urlopen(address + page, timeout=at_most(30.0)) as answer:
            secretive.shown[page] = answer.read().decode()
    for statement in ("SET", "SET -v", "SHOW CATALOGS"):
        secretive.show(statement)
    events = [file.read_text() for file in (secretive.directory / "events").rglob("*") if file.is_file()]
    shown = {**secretive.shown, "the log": secretive.spark.log(), "the event log": "\n".join(events)}
    assert "rest_oauth2" in shown["the event log"]
    hidden: set[Any] = {*KEYS_OF_FILES.values(), *(s for kind in KINDS for s in secretive.secrets(kind))}
    assert [name for name, text in shown.items() if any(secret in text for secret in hidden)] == []
