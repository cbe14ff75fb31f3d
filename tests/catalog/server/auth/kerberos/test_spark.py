"""Spark with a keytab: interbed's catalogs, Spark's own Hive catalog, and executors that have no login."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from interbed.catalog.server.auth.delegation.hadoop_token import HadoopToken
from interbed.spark_ext import spark_settings
from tests.catalog.server.auth.kerberos.served import KerberosServer, kerberos_server
from tests.catalog.server.auth.kerberos.test_hdfs import HOME, opened_to_all, written_site
from tests.support.peers.hive_delegation import RELEASES, answers_of
from tests.support.peers.process import PeerError
from tests.support.peers.spark import SparkPeer, hive_settings
from tests.support.servers.hdfs import running_hdfs
from tests.support.servers.kdc import REALM, KeyDistributionCenter
from tests.support.spark.recorder import recorded, recorder_settings
from tests.support.spark.spark_process import QUICK_JVM

pytestmark = pytest.mark.long

PREFIX = "spark.sql.catalog"
SERVICE = f"hive/_HOST@{REALM}"


@pytest.fixture(scope="module")
def server(kdc: KeyDistributionCenter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosServer]:
    """Run a server that takes tickets and delegation tokens."""
    directory = tmp_path_factory.mktemp("spark")
    with kerberos_server(kdc, directory, "--http-port", "0", authentication="kerberos,delegation-token") as running:
        yield running


def application_login(kdc: KeyDistributionCenter, user: str = "etl") -> dict[str, str]:
    """Return Spark's settings for a keytab."""
    return {"spark.kerberos.principal": f"{user}@{REALM}", "spark.kerberos.keytab": str(kdc.keytab(user))}


def catalog(name: str, options: dict[str, str]) -> dict[str, str]:
    """Return the settings of a catalog of interbed's."""
    found = {f"{PREFIX}.{name}": "interbed.spark.SparkCatalog"}
    return {**found, **{f"{PREFIX}.{name}.{key}": value for key, value in options.items()}}


def on_server(server: KerberosServer) -> dict[str, dict[str, str]]:
    """Return the options of catalogs on a server: by Thrift, by REST, and with a keytab of their own."""
    hive = {
        "metastore": "hive",
        "uri": server.uri,
        "warehouse": f"file:{server.server.warehouse}",
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVICE,
    }
    rest = {"metastore": "rest", "uri": f"{server.http}/paimon", "warehouse": "hive", "token.provider": "spnego"}
    own = {
        "security.kerberos.login.principal": f"ann@{REALM}",
        "security.kerberos.login.keytab": str(server.kdc.keytab("ann")),
    }
    return {"by_hive": hive, "by_rest": rest, "own_hive": {**hive, **own}, "own_rest": {**rest, **own}}


def jvm(kdc: KeyDistributionCenter) -> str:
    """Return the options of a driver that uses the KDC."""
    return " ".join([QUICK_JVM, *kdc.java_options])


STATEMENTS = (
    "CREATE DATABASE {0}.{0}",
    "CREATE TABLE {0}.{0}.t (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')",
    "INSERT INTO {0}.{0}.t SELECT id, 'a' FROM range(10)",
    "UPDATE {0}.{0}.t SET v = 'b' WHERE id = 2",
    "DELETE FROM {0}.{0}.t WHERE id = 3",
    "CALL {0}.sys.compact(table => '{0}.t')",
)


def test_catalogs_log_in_with_the_keytab_of_the_application_or_their_own(
    server: KerberosServer, kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    options = on_server(server)
    settings = {**spark_settings(), **recorder_settings(tmp_path), **application_login(kdc)}
    for name, given in options.items():
        settings.update(catalog(name, given))
    settings["spark.sql.warehouse.dir"] = f"file:{tmp_path / 'spark'}"
    with SparkPeer(settings, jvm=jvm(kdc)) as spark:
        # Before the first statement Spark has sent the settings of the application.
        spark.version()
        before = len(recorded(tmp_path)) if (tmp_path / "bytes").exists() else 0
        for name in options:
            for statement in STATEMENTS:
                spark.run(statement.format(name))
            assert spark.run(f"SELECT count(*), max(v) FROM {name}.{name}.t") == [["9", "b"]]
        log = spark.log()
    made = {line.get("database"): line for line in server.audited() if line["outcome"] == "ok"}
    for name in options:
        user = "ann" if name.startswith("own") else "etl"
        assert (made[name]["user"], made[name]["mechanism"]) == (user, "kerberos")
    found = recorded(tmp_path)[before:]
    assert b"by_hive" in found
    # Executors get neither the name of a keytab nor its keys. Spark itself sends the settings of the application.
    given_by_spark = rb"spark\.kerberos\.keytab.{0,8}" + re.escape(str(kdc.keytab("etl")).encode())
    found = re.sub(given_by_spark, b"", found, flags=re.DOTALL)
    for user in ("etl", "ann"):
        keytab = kdc.keytab(user)
        assert str(keytab).encode() not in found
        # The file ends with a key.
        assert keytab.read_bytes()[-16:] not in found
    assert "Traceback" not in log


def test_a_keytab_that_is_missing_is_reported(
    server: KerberosServer, kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    given = {**on_server(server)["own_hive"], "security.kerberos.login.keytab": str(tmp_path / "absent")}
    with (
        SparkPeer({**spark_settings(), **catalog("lake", given)}, jvm=jvm(kdc)) as spark,
        pytest.raises(PeerError, match=r"login\.keytab' names a file that can't be read"),
    ):
        spark.run("SHOW DATABASES IN lake")


def test_sparks_own_hive_catalog_logs_in_and_gets_a_delegation_token(
    server: KerberosServer, kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    site = {
        "hadoop.security.authentication": "kerberos",
        "hive.metastore.uris": server.uri,
        "hive.metastore.sasl.enabled": "true",
        "hive.metastore.kerberos.principal": SERVICE,
    }
    for name in ("core-site.xml", "hive-site.xml"):
        written_site(tmp_path / name, site)
    settings = {**hive_settings(server.uri, server.server.warehouse), **application_login(kdc, "spark")}
    variables = {"HADOOP_CONF_DIR": str(tmp_path)}
    with SparkPeer(settings, jvm=jvm(kdc), variables=variables) as spark:
        spark.run("CREATE DATABASE of_spark")
        spark.run("CREATE TABLE of_spark.t USING parquet AS SELECT id FROM range(5)")
        assert spark.run("SELECT count(*) FROM of_spark.t") == [["5"]]
        text = spark.hive_token()
    (made,) = [
        line for line in server.audited() if line.get("database") == "of_spark" and "create_database" in str(line)
    ]
    assert (made["user"], made["mechanism"]) == ("spark", "kerberos")
    token = HadoopToken.from_text(text)
    assert (token.identifier.owner, token.identifier.renewer) == ("spark", "hive")
    (found,) = answers_of(RELEASES[0], ("databases", server.uri, text, "privacy"), java_options=server.kdc.java_options)
    assert "of_spark" in found


def test_executors_read_and_write_in_a_secure_hdfs_with_delegation_tokens(
    kdc: KeyDistributionCenter, tmp_path: Path
) -> None:
    with running_hdfs(kdc, "privacy") as running:
        hdfs = opened_to_all(running, kdc)
        # As YARN and Kubernetes do: executors start with the tokens that the driver has got by its keytab.
        hdfs.send(f"token etl {tmp_path / 'tokens'}")
        given = {"warehouse": f"{hdfs.uri}{HOME}/{uuid.uuid4()}", **hdfs.security}
        options = " ".join([QUICK_JVM, *kdc.java_options, f"-Dhadoop.token.files={tmp_path / 'tokens'}"])
        settings = {
            **spark_settings(),
            **application_login(kdc),
            **catalog("lake", given),
            "spark.master": "local-cluster[1,2,1024]",
            "spark.executor.extraJavaOptions": options,
            "spark.sql.warehouse.dir": f"file:{tmp_path / 'spark'}",
        }
        written_site(tmp_path / "core-site.xml", {**hdfs.security, "fs.defaultFS": hdfs.uri})
        with SparkPeer(settings, jvm=jvm(kdc), variables={"HADOOP_CONF_DIR": str(tmp_path)}) as spark:
            for statement in STATEMENTS:
                spark.run(statement.format("lake"))
            assert spark.run("SELECT count(*), max(v) FROM lake.lake.t") == [["9", "b"]]
            assert spark.run("SELECT count(*) FROM lake.lake.`t$audit_log`") == [["9"]]
