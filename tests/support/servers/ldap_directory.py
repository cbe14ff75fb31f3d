"""An LDAP server with a few users and groups, in a process of its own: that of ldaptor, on Twisted.

    python -m tests.support.servers.ldap_directory [CERTIFICATE KEY]

It prints its ports for ldap:// and, with a certificate, for ldaps://. StartTLS needs the certificate, too. It ends when
its standard input does.
"""

import io
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import ldap3

from tests.support.waits import at_most

BASE = "dc=example,dc=org"
PASSWORDS = {"ann": "ann's password", "bob": "b*b)(uid=*", "search": "may search"}
"""Passwords by the names of users; `search` is the entry of the server under test."""

_PEOPLE = "".join(
    f"""
dn: uid={name},ou=people,{BASE}
objectClass: inetOrgPerson
cn: {name}
sn: {name}
uid: {name}
userPassword: {password}
"""
    for name, password in PASSWORDS.items()
)

LDIF = f"""\
dn: dc=org
objectClass: dcObject
dc: org

dn: {BASE}
objectClass: dcObject
dc: example

dn: ou=people,{BASE}
objectClass: organizationalUnit
ou: people
{_PEOPLE}
dn: ou=groups,{BASE}
objectClass: organizationalUnit
ou: groups

dn: cn=etl,ou=groups,{BASE}
objectClass: groupOfNames
cn: etl
member: uid=ann,ou=people,{BASE}
member: uid=bob,ou=people,{BASE}

dn: cn=admins,ou=groups,{BASE}
objectClass: groupOfNames
cn: admins
member: uid=ann,ou=people,{BASE}

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LdapDirectory:
    """A running LDAP server."""

    port: int
    tls_port: int | None

    @property
    def url(self) -> str:
        """The url of the port without TLS."""
        return f"ldap://127.0.0.1:{self.port}"

    def join(self, group: str, user: str) -> None:
        """Add a user to a group."""
        self._change(group, user, "MODIFY_ADD")

    def leave(self, group: str, user: str) -> None:
        """Remove a user from a group."""
        self._change(group, user, "MODIFY_DELETE")

    def add_user(self, user: str) -> None:
        """Add a user without groups."""
        fields = {"cn": user, "sn": user, "uid": user, "userPassword": PASSWORDS.get(user, user)}
        with self._connection() as connection:
            assert connection.add(_entry_of(user), ["inetOrgPerson"], fields), connection

    def remove_user(self, user: str) -> None:
        """Remove a user, and not its name from groups."""
        with self._connection() as connection:
            assert connection.delete(_entry_of(user)), connection

    def _change(self, group: str, user: str, operation: str) -> None:
        with self._connection() as connection:
            changes = {"member": [(operation, [_entry_of(user)])]}
            assert connection.modify(f"cn={group},ou=groups,{BASE}", changes), connection

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        server = ldap3.Server("127.0.0.1", self.port, get_info=ldap3.NONE)
        connection = ldap3.Connection(server, _entry_of("search"), PASSWORDS["search"], auto_bind=True)
        try:
            yield connection
        finally:
            connection.unbind()


def _entry_of(user: str) -> str:
    return f"uid={user},ou=people,{BASE}"


@contextmanager
def ldap_directory(certificates: Path | None = None) -> Iterator[LdapDirectory]:
    """Run an LDAP server, with the server's certificate in a directory if one is given."""
    tls = [] if certificates is None else [str(certificates / "server.pem"), str(certificates / "server.key")]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.servers.ldap_directory", *tls],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    timer = threading.Timer(at_most(60), process.kill)
    try:
        timer.start()
        ports = process.stdout.readline().split()
        timer.cancel()
        yield LdapDirectory(port=int(ports[0]), tls_port=int(ports[1]) if len(ports) > 1 else None)
    finally:
        timer.cancel()
        process.stdin.close()
        process.wait(timeout=at_most(30))
        process.stdout.close()


def main(certificate: str | None = None, key: str | None = None) -> None:
    """Serve until standard input ends."""
    from ldaptor.inmemory import fromLDIFFile
    from ldaptor.interfaces import IConnectedLDAPEntry
    from ldaptor.protocols.ldap.ldapserver import LDAPServer
    from twisted.internet.protocol import ServerFactory

    # Their annotations do not fit their use.
    reactor: Any = import_module("twisted.internet.reactor")
    ssl: Any = import_module("twisted.internet.ssl")
    components: Any = import_module("twisted.python.components")

    class Directory(ServerFactory):
        """The connections of the server; `options` are those of StartTLS."""

        protocol = LDAPServer
        root: Any = None
        options: Any = None

    factory = Directory()
    fromLDIFFile(io.BytesIO(LDIF.encode())).addCallback(lambda root: setattr(factory, "root", root))
    components.registerAdapter(lambda directory: directory.root, Directory, IConnectedLDAPEntry)
    ports = []
    if certificate is not None and key is not None:
        pair = ssl.PrivateCertificate.loadPEM(Path(key).read_text() + Path(certificate).read_text())
        factory.options = pair.options()
        ports.append(reactor.listenSSL(0, factory, factory.options, interface="127.0.0.1").getHost().port)
    ports.insert(0, reactor.listenTCP(0, factory, interface="127.0.0.1").getHost().port)
    print(*ports, flush=True)

    def end_with_input() -> None:
        sys.stdin.read()
        reactor.callFromThread(reactor.stop)

    threading.Thread(target=end_with_input, daemon=True).start()
    reactor.run(installSignalHandlers=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
