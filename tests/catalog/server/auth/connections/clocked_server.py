"""A server on a thread of this process, whose clock a test moves."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import Queue
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket

from interbed.catalog.client.hive.transports import SaslPlainTransport
from interbed.catalog.server.auth import json_web_tokens, ldap_directory
from interbed.catalog.server.auth.authentication import Authentication, CertificateEnds
from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.auth.impersonation import DirectoryGroups, GroupedBearers
from interbed.catalog.server.auth.issued_tokens import TokenService
from interbed.catalog.server.process import authenticating, opening
from interbed.catalog.server.process.main import Server, run
from interbed.catalog.server.rest.rows import streams
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.thrift.edge.authenticating import PortAuthentication
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore
from tests.support.waits import at_most


class Clock:
    """The clock of all servers. Each look at it moves it by `step` seconds."""

    def __init__(self) -> None:
        self.now = time.time()
        self.step = 0.0
        self._guard = threading.Lock()

    def __call__(self) -> float:
        with self._guard:
            self.now += self.step
            return self.now


@contextmanager
def clocked() -> Iterator[Clock]:
    """Give the servers of this process a clock that the test moves, within the block."""
    found = Clock()

    class ClockedAuthorizer(BuiltinAuthorizer):
        """The built-in authorizer with the test's clock."""

        def __init__(self, store: Any, **named: Any) -> None:
            super().__init__(store, clock=found, **named)

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        of_directory = ldap_directory.LdapVerifier

        def made(rules: ldap_directory.LdapRules) -> ldap_directory.LdapVerifier:
            verifier = of_directory(rules, clock=found)
            stack.callback(verifier.close)
            return verifier

        patch.setattr(opening, "BuiltinAuthorizer", ClockedAuthorizer)
        patch.setattr(ldap_directory, "LdapVerifier", made)
        for module, kind in (
            (authenticating, TokenService),
            (authenticating, Authentication),
            (authenticating, DirectoryGroups),
            (authenticating, GroupedBearers),
            (authenticating, PortAuthentication),
            (authenticating, CertificateEnds),
            (authenticating, DelegationTokenService),
            (json_web_tokens, json_web_tokens.JwtVerifier),
            (streams, streams.RowStreams),
        ):
            patch.setattr(module, kind.__name__, partial(kind, clock=found))
        yield found


@contextmanager
def running(settings: ServerSettings) -> Iterator[Server]:
    """Run a server on a thread of this process."""
    started: Queue[Server] = Queue()
    thread = threading.Thread(target=run, args=(settings,), kwargs={"on_ready": started.put})
    thread.start()
    server = started.get(timeout=at_most(60))
    try:
        yield server
    finally:
        server.stop()
        thread.join(timeout=at_most(60))


def connected(stack: ExitStack, server: Server, user: str, token: str) -> ThriftHiveMetastore.Client:
    """Return a client on a connection of its own by SASL."""
    host, port = server.address
    transport = SaslPlainTransport(TSocket(host, port), f"{host}:{port}", user, token=token, token_file=None)
    transport.open()
    stack.callback(transport.close)
    return ThriftHiveMetastore.Client(TBinaryProtocol(transport))
