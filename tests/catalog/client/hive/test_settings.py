"""Settings of a catalog from hive-site.xml and from options, and the transports and protocols that they select."""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAcceleratedFactory
from thrift.protocol.TCompactProtocol import TCompactProtocolAcceleratedFactory
from thrift.transport.TSocket import TServerSocket
from thrift.transport.TTransport import TBufferedTransportFactory, TFramedTransportFactory, TTransportException

import interbed
from interbed.catalog.client.errors import CatalogUnavailableError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.client.hive.connection import TransportSettings
from interbed.catalog.client.hive.settings import hive_settings
from interbed.catalog.client.options import CatalogOptions
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore
from tests.support.waits import at_most

pytestmark = pytest.mark.integration


def site(directory: Path, properties: Mapping[str, str]) -> str:
    inner = "".join(
        f"<property><name>{escape(k)}</name><value>{escape(v)}</value></property>" for k, v in properties.items()
    )
    directory.mkdir(exist_ok=True)
    (directory / "hive-site.xml").write_text(f'<?xml version="1.0"?><configuration>{inner}</configuration>')
    return str(directory)


def settings_of(directory: Path, properties: Mapping[str, str], options: Mapping[str, str] | None = None) -> object:
    told = {"hive-conf-dir": site(directory, properties), **(options or {})}
    return hive_settings(CatalogOptions(told), {})


def test_hive_site_alone_is_enough_to_open_a_catalog(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        down = f"thrift://127.0.0.1:{unused.getsockname()[1]}"
        directory = site(
            tmp_path / "conf",
            {"hive.metastore.uris": f"{down},{server}", "hive.metastore.warehouse.dir": f"file:{tmp_path}/lake"},
        )
        with interbed.CatalogFactory.create({"metastore": "hive", "hive-conf-dir": directory}) as catalog:
            assert catalog.list_databases() == ["default"]
            assert catalog.warehouse == f"{tmp_path}/lake"
        monkeypatch.setenv("HIVE_CONF_DIR", directory)
        with interbed.CatalogFactory.create({"metastore": "hive"}) as catalog:
            assert catalog.warehouse == f"{tmp_path}/lake"


def test_hive_site_is_read_in_both_spellings_and_options_take_precedence(tmp_path: Path) -> None:
    old = hive_settings(
        CatalogOptions(
            {
                "hive-conf-dir": site(
                    tmp_path,
                    {
                        "hive.metastore.uris": "thrift://a:1",
                        "hive.metastore.warehouse.dir": "/w/${user.name}/${env.LAKE:-x}/${base}",
                        "base": "b",
                        "hive.metastore.client.socket.timeout": "90",
                        "hive.metastore.thrift.framed.transport.enabled": "true",
                        "hive.metastore.connect.retries": "7",
                        "hive.metastore.client.connect.retry.delay": "250ms",
                        "hive.metastore.batch.retrieve.max": "11",
                    },
                )
            }
        ),
        {"LAKE": "y"},
    )
    assert (old.uri, old.timeout_seconds, old.list_batch) == ("thrift://a:1", 90.0, 11)
    assert old.warehouse is not None
    assert old.warehouse.startswith("/w/")
    assert old.warehouse.endswith("/y/b")
    assert old.transport == TransportSettings(framed=True, connect_tries=7, connect_pause_seconds=0.25)
    new = hive_settings(
        CatalogOptions(
            {
                "hive-conf-dir": site(
                    tmp_path,
                    {
                        "metastore.thrift.uris": "thrift://a:1",
                        "metastore.warehouse.dir": "/w",
                        "metastore.client.socket.timeout": "2min",
                        "metastore.thrift.compact.protocol.enabled": "TRUE",
                    },
                ),
                "hive.metastore.client.socket.timeout": "10s",
                "warehouse": "/mine",
                "client-pool-size": "2",
            }
        ),
        {},
    )
    assert (new.uri, new.warehouse, new.timeout_seconds) == ("thrift://a:1", "/mine", 10.0)
    assert new.transport == TransportSettings(compact=True, pool_size=2)
    last = hive_settings(CatalogOptions({"uri": "thrift://b:2", "client-timeout": "5 s"}), {})
    assert (last.uri, last.warehouse, last.timeout_seconds) == ("thrift://b:2", None, 5.0)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hive.metastore.client.auth.mode", "KERBEROS", "by PLAIN, or by JWT over HTTP"),
        ("hive.metastore.client.auth.mode", "JWT", r"tokens need hive\.metastore"),
        ("metastore.client.thrift.transport.mode", "quic", "binary and http"),
        ("hive.metastore.service.discovery.mode", "zookeeper", "zookeeper"),
    ],
)
def test_unsupported_ways_of_authentication_are_reported(tmp_path: Path, key: str, value: str, message: str) -> None:
    with pytest.raises(NotSupportedError, match=message):
        settings_of(tmp_path, {"hive.metastore.uris": "thrift://a:1", key: value})


def test_plain_has_a_user_and_a_token(tmp_path: Path) -> None:
    plain = {"uri": "thrift://a:1", "hive.metastore.client.auth.mode": "plain"}
    user = {"hive.metastore.client.plain.username": "ann"}
    given = hive_settings(CatalogOptions({**plain, **user, "token": "t"}), {})
    assert given.transport == TransportSettings(plain_user="ann", token="t")
    directory = site(tmp_path, {"metastore.client.auth.mode": "PLAIN", "metastore.client.plain.username": "bob"})
    options = {"uri": "thrift://a:1", "hive-conf-dir": directory, "token.provider.path": "/f"}
    assert hive_settings(CatalogOptions(options), {}).transport == TransportSettings(plain_user="bob", token_file="/f")
    for lacking in ({}, {"token": "t"}, {"hive.metastore.client.plain.username": "ann"}):
        with pytest.raises(InvalidOptionError, match=r"plain\.username, and a token"):
            hive_settings(CatalogOptions({**plain, **lacking}), {"HMS_JWT": "v"})
    with pytest.raises(NotSupportedError, match="mode=binary"):
        hive_settings(CatalogOptions({**plain, "hive.metastore.client.thrift.transport.mode": "http"}), {})


def test_http_has_a_path_and_a_token(tmp_path: Path) -> None:
    http = {"uri": "thrift://a:1", "hive.metastore.client.thrift.transport.mode": "http"}
    plain = hive_settings(CatalogOptions(http), {}).transport
    assert plain == TransportSettings(http_path="/metastore")
    given = {**http, "hive.metastore.client.thrift.http.path": "/hms", "token": "t"}
    assert hive_settings(CatalogOptions(given), {"HMS_JWT": "v"}).transport == TransportSettings(
        http_path="/hms", token="t"
    )
    by_variable = hive_settings(CatalogOptions({**http, "hive.metastore.client.auth.mode": "JWT"}), {"HMS_JWT": "v"})
    assert by_variable.transport == TransportSettings(http_path="/metastore", token="v")
    assert "token" not in repr(by_variable.transport).replace("token_file", "")
    by_file = hive_settings(CatalogOptions({**http, "token.provider.path": "/f"}), {"HMS_JWT": "v"}).transport
    assert by_file == TransportSettings(http_path="/metastore", token_file="/f")
    with pytest.raises(InvalidOptionError, match=r"auth\.mode=PLAIN"):
        hive_settings(CatalogOptions({"uri": "thrift://a:1", "token": "t"}), {})
    with pytest.raises(NotSupportedError, match="neither framed"):
        hive_settings(CatalogOptions({**http, "hive.metastore.thrift.framed.transport.enabled": "true"}), {})


def test_invalid_hive_sites_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"hive-conf-dir.*nowhere"):
        hive_settings(CatalogOptions({"hive-conf-dir": str(tmp_path / "nowhere")}), {})
    with pytest.raises(InvalidOptionError, match=r"HIVE_CONF_DIR.*nowhere"):
        hive_settings(CatalogOptions({}), {"HIVE_CONF_DIR": str(tmp_path / "nowhere")})
    (tmp_path / "hive-site.xml").write_text("<configuration>")
    with pytest.raises(InvalidOptionError, match="well-formed"):
        hive_settings(CatalogOptions({"hive-conf-dir": f"file://{tmp_path}"}), {})
    with pytest.raises(InvalidOptionError, match="hive-conf-dir"):
        settings_of(tmp_path, {"some.other": "x"})
    with pytest.raises(InvalidOptionError, match=r"hive\.metastore\.client\.socket\.timeout.*'soon'"):
        settings_of(tmp_path, {"hive.metastore.uris": "thrift://a:1", "hive.metastore.client.socket.timeout": "soon"})
    with pytest.raises(InvalidOptionError, match=r"hive\.metastore\.connect\.retries"):
        settings_of(tmp_path, {"hive.metastore.uris": "thrift://a:1", "hive.metastore.connect.retries": "-1"})
    store = tmp_path / "trust.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    tls = {
        "hive.metastore.uris": "thrift://a:1",
        "hive.metastore.use.SSL": "true",
        "hive.metastore.truststore.path": str(store),
    }
    with pytest.raises(InvalidOptionError, match="PEM"):
        settings_of(tmp_path, tls)


# -- what goes over the wire -------------------------------------------------------------------------------------------


class _DatabaseHandler:
    """Metastore of two databases, for tests of transports."""

    def set_ugi(self, user: str, groups: list[str]) -> list[str]:
        return [user]

    def get_all_databases(self) -> list[str]:
        return ["b", "a"]


@contextmanager
def serving(transport: object, protocol: object, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve one connection on a transport of this kind."""
    listener = TServerSocket("127.0.0.1", 0)
    listener.listen()
    port = listener.handle.getsockname()[1]

    def serve() -> None:
        client = listener.accept()
        try:
            if tls is not None:
                client.handle = tls.wrap_socket(client.handle, server_side=True)
            wrapped = transport.getTransport(client)  # type: ignore[attr-defined]
            spoken = protocol.getProtocol(wrapped)  # type: ignore[attr-defined]
            processor = ThriftHiveMetastore.Processor(_DatabaseHandler())
            while True:
                processor.process(spoken, spoken)
        except (TTransportException, OSError, EOFError):
            # The client has closed the connection.
            pass
        finally:
            client.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"thrift://localhost:{port}"
    finally:
        thread.join(timeout=at_most(60))
        listener.close()


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("compact", [False, True])
def test_framed_transport_and_compact_protocol_are_used_if_configured(framed: bool, compact: bool) -> None:
    transport = TFramedTransportFactory() if framed else TBufferedTransportFactory()
    protocol = TCompactProtocolAcceleratedFactory() if compact else TBinaryProtocolAcceleratedFactory()
    with (
        serving(transport, protocol) as uri,
        HiveMetastoreClient(uri, transport=TransportSettings(framed=framed, compact=compact)) as client,
    ):
        assert client.get_all_databases() == ["a", "b"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Create a self-signed certificate for localhost, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    openssl = shutil.which("openssl")
    assert openssl is not None
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
        timeout=at_most(60),
    )
    return certificate, key


def test_tls_is_used_if_configured_and_the_server_is_verified(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    factories = (TBufferedTransportFactory(), TBinaryProtocolAcceleratedFactory(), context)
    tls = {
        "hive.metastore.uris": "thrift://a:1",
        "hive.metastore.use.SSL": "true",
        "hive.metastore.truststore.path": f"file:{certificate[0]}",
    }
    settings = hive_settings(CatalogOptions({"hive-conf-dir": site(tmp_path, tls)}), {})
    with serving(*factories) as uri, HiveMetastoreClient(uri, transport=settings.transport) as client:
        assert client.get_all_databases() == ["a", "b"]
    with (
        serving(*factories) as uri,
        HiveMetastoreClient(uri, transport=TransportSettings(tls=True)) as stranger,
        pytest.raises(CatalogUnavailableError),
    ):
        stranger.get_all_databases()
    assert urlsplit(uri).hostname == "localhost"
