"""A server with Kerberos, and clients of it that speak SASL GSSAPI and SPNEGO by hand."""

import json
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interbed.catalog.client.credentials import GssapiLogin, KerberosLogin
from interbed.catalog.server.auth.authentication import SaslStatus
from interbed.catalog.server.thrift.edge.transport import packed
from tests.catalog.server.auth.test_sasl_plain import answered, received
from tests.support.servers.kdc import REALM, KeyDistributionCenter
from tests.support.servers.metastore import MetastoreUnderTest, metastore_under_test
from tests.support.waits import at_most

HIVE = f"hive/localhost@{REALM}"
HTTP = f"HTTP/localhost@{REALM}"
START = packed(SaslStatus.START, b"GSSAPI")


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosServer:
    """A running server, its audit log, and the KDC of its clients."""

    server: MetastoreUnderTest
    audit: Path
    kdc: KeyDistributionCenter

    @property
    def uri(self) -> str:
        """Thrift address, by the name that is in the server's principal."""
        return self.server.uri.replace("127.0.0.1", "localhost")

    @property
    def http(self) -> str:
        """Address of the HTTP interfaces, by the same name."""
        return self.server.http.replace("127.0.0.1", "localhost")

    def login(self, user: str) -> KerberosLogin:
        """Return the login of a user with a keytab."""
        return KerberosLogin(principal=f"{user}@{REALM}", keytab=str(self.kdc.keytab(user)))

    def options(self, user: str, **further: str) -> dict[str, Any]:
        """Return the options of a Hive catalog that logs in with the keytab of a user."""
        return {
            "metastore": "hive",
            "uri": self.uri,
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": f"hive/_HOST@{REALM}",
            "security.kerberos.login.principal": f"{user}@{REALM}",
            "security.kerberos.login.keytab": str(self.kdc.keytab(user)),
            **further,
        }

    def audited(self) -> list[dict[str, Any]]:
        """Return the lines of the audit log."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


@contextmanager
def kerberos_server(
    kdc: KeyDistributionCenter, directory: Path, *arguments: str, authentication: str = "kerberos"
) -> Iterator[KerberosServer]:
    """Run a server with the keys of HIVE and HTTP."""
    settings = (
        *("--authentication", authentication, "--kerberos-principal", HIVE),
        *("--kerberos-keytab", str(kdc.keytab("hive/localhost", "HTTP/localhost"))),
        *("--audit-log", str(directory / "audit.log")),
    )
    with metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, *settings, *arguments) as server:
        yield KerberosServer(server=server, audit=directory / "audit.log", kdc=kdc)


@dataclass(slots=True, kw_only=True)
class RawClient:
    """A connection to Thrift's port whose client sends what a test says."""

    connection: socket.socket
    exchange: GssapiLogin
    sent: list[bytes] = field(default_factory=list)

    def send(self, message: bytes) -> tuple[int, bytes]:
        """Send a message, and return status and payload of the answer."""
        self.sent.append(message)
        self.connection.sendall(message)
        status, length = struct.unpack("!BI", received(self.connection, 5))
        return status, received(self.connection, length)

    def negotiate(self) -> tuple[int, bytes]:
        """Negotiate to the end, and return status and payload of the last answer."""
        status, payload = self.send(START + packed(SaslStatus.OK, self.exchange.respond(b"")))
        while status == SaslStatus.OK:
            status, payload = self.send(packed(SaslStatus.OK, self.exchange.respond(payload)))
        return status, payload

    def call(self, message: bytes) -> bytes:
        """Send a message in a protected frame, and return the message of the reply."""
        self.send_frame(self.exchange.wrap(message))
        (length,) = struct.unpack("!I", received(self.connection, 4))
        return self.exchange.unwrap(received(self.connection, length))

    def send_frame(self, frame: bytes) -> None:
        """Send a frame with this content."""
        self.connection.sendall(struct.pack("!I", len(frame)) + frame)


@contextmanager
def raw_client(
    server: KerberosServer,
    user: str = "ann",
    *,
    principal: str = HIVE,
    layers: Sequence[str] = ("privacy",),
    acts_for: str = "",
) -> Iterator[RawClient]:
    """Open a connection for a user."""
    exchange = GssapiLogin(server.login(user), principal, layers=layers, acts_for=acts_for)
    with socket.create_connection(("127.0.0.1", server.server.port), timeout=at_most(30)) as connection:
        yield RawClient(connection=connection, exchange=exchange)


__all__ = ["HIVE", "HTTP", "START", "KerberosServer", "RawClient", "answered", "kerberos_server", "raw_client"]
