"""Connections to metastores: over Thrift, or inside this process to interbed's own database.

Only reads go through here, which may be repeated when a connection breaks.
"""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Protocol

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TApplicationException, TException, TMessageType, TType
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from interbed.catalog.client.hive.connection import current_user, parse_uri
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.migration.record import MigrationError, MissingMethodError, RefusedError
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError, UnknownDatabaseError
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.calls.grants import GrantHandler
from interbed.catalog.server.thrift.calls.service import all_handlers
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.storage.base.backoff import NO_JITTER, ExponentialBackoff
from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes

logger = logging.getLogger(__name__)

CONNECT_SECONDS_MAX = 10.0
CALL_SECONDS_MAX = 600.0
"""Time for one answer: as long as Hive's own clients wait. A Java metastore needs long for many partitions."""

_BACKOFF = ExponentialBackoff(first_seconds=0.2, jitter=NO_JITTER, retries=3)
"""Retries of a call when the connection breaks."""

_READ_BUFFER_BYTES = 256 * 1024

_NAMES_AT_ONCE = 10_000


class ObjectGoneError(RefusedError):
    """The requested object does not exist."""


class SourceConnection(Protocol):
    """Connection to one metastore for reading."""

    name: str
    """For messages: the address or the database's url."""

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the answer. MissingMethodError, ObjectGoneError, RefusedError; MigrationError if there is
        no answer.
        """
        ...

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        """Yield the names of a table's partitions, in any order and, where possible, without having all of them in
        memory. No other call is allowed before the last one is read.
        """
        ...

    def close(self) -> None: ...


class RemoteConnection:
    """A connection to a server; `uri` is `thrift://host:port`, of several separated by commas the first that answers.

    MigrationError with a remedy if none answers, or if the server is no metastore.
    """

    def __init__(self, uri: str, *, call_seconds_max: float = CALL_SECONDS_MAX) -> None:
        self.name = uri
        self._addresses = parse_uri(uri)
        self._call_seconds_max = call_seconds_max
        self._transport: Any = None
        self._client: Any = None
        self._connect()

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the server's answer."""
        return self._repeated(method, lambda: getattr(self._client, method)(*arguments))

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        """Yield the names as they arrive. A connection that breaks on the way raises MigrationError."""
        method = "get_partition_names"
        length = self._repeated(method, lambda: self._begin_names(database, table))
        # A loop over the elements: the decoder in C would build all of them before it returns the first.
        protocol = self._client._iprot
        try:
            for _ in range(length):
                yield protocol.readString()
            protocol.readFieldBegin()
            protocol.readMessageEnd()
        except (TTransportException, OSError, EOFError) as error:
            self._disconnect()
            raise MigrationError(
                f"{self.name} hung up while it listed the partitions of {database}.{table}: {_reason(error)}"
            ) from error
        except GeneratorExit:
            # The rest of the reply is still in the connection.
            self._disconnect()
            raise

    def close(self) -> None:
        """Close the connection to the server."""
        self._disconnect()

    def _begin_names(self, database: str, table: str) -> int:
        """Send the call and read the answer up to the names; return how many will follow."""
        self._client.send_get_partition_names(database, table, -1)
        protocol = self._client._iprot
        _, kind, _ = protocol.readMessageBegin()
        if kind == TMessageType.EXCEPTION:
            error = TApplicationException()
            error.read(protocol)
            protocol.readMessageEnd()
            raise error
        protocol.readStructBegin()
        _, field_type, field = protocol.readFieldBegin()
        if field == 0 and field_type == TType.LIST:
            return int(protocol.readListBegin()[1])
        # One of the exceptions that the method declares: they have the same form.
        refusal: Any = ttypes.NoSuchObjectException() if field == 1 else ttypes.MetaException()
        if field_type == TType.STRUCT:
            refusal.read(protocol)
            protocol.readFieldEnd()
            protocol.readFieldBegin()
        protocol.readMessageEnd()
        raise refusal

    def _repeated(self, method: str, question: Any) -> Any:
        retries = _BACKOFF.start(f"{method} of {self.name}", logger, logging.WARNING)
        while True:
            if self._client is None:
                self._connect()
            try:
                return question()
            except (TTransportException, OSError, EOFError) as error:
                self._disconnect()
                if not retries.pause(f"the server closed the connection: {_reason(error)}"):
                    raise MigrationError(f"{self.name} hung up on {method}: {_reason(error)}") from error
            except TException as error:
                raise _refusal(self.name, method, error) from error

    def _connect(self) -> None:
        failures = []
        for host, port in self._addresses:
            # thrift leaves its socket's handle untyped, and its type None until it is open.
            socket: Any = TSocket(host, port)
            socket.setTimeout(CONNECT_SECONDS_MAX * 1000)
            transport = TBufferedTransport(socket, _READ_BUFFER_BYTES)
            try:
                transport.open()
                client: Any = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
                with contextlib.suppress(TApplicationException):
                    client.set_ugi(current_user(), [])
            except TTransportException as error:
                transport.close()
                if error.type == TTransportException.NOT_OPEN:
                    failures.append(f"{host}:{port}: {_reason(error)}")
                else:
                    failures.append(f"{host}:{port} hung up on the first call: {_reason(error)}")
                continue
            except (TException, OSError, EOFError, UnicodeDecodeError) as error:
                transport.close()
                failures.append(f"{host}:{port} does not speak as a metastore does: {_reason(error)}")
                continue
            socket.setTimeout(self._call_seconds_max * 1000)
            self._transport, self._client = transport, client
            return
        raise MigrationError(
            f"no metastore answers at {self.name} ({'; '.join(failures)}). It has to run, be reachable from here, and "
            "take the binary protocol over a plain socket: no Kerberos (hive.metastore.sasl.enabled), no TLS, no "
            "framed transport, not HTTP"
        )

    def _disconnect(self) -> None:
        if self._transport is not None:
            self._transport.close()
        self._transport = self._client = None


class LocalConnection:
    """Interbed's own handlers, called without a server in between; closes the database at its end."""

    def __init__(self, store: SqlRepository, name: str) -> None:
        self.name = name
        self._store = store
        # No call needs the warehouse.
        administration = AccessAdministration(store, BuiltinAuthorizer(store))
        grants = GrantHandler(administration, lambda: None)
        handlers = all_handlers(Metastore(store, "file:/nonexistent"), grants=grants)
        self._methods = {
            name: getattr(handler, name)
            for handler in handlers
            for name in dir(handler)
            if hasattr(ThriftHiveMetastore.Iface, name)
        }

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the handler's answer."""
        handler = self._methods.get(method)
        if handler is None:
            raise MissingMethodError(f"{self.name} does not know {method}")
        try:
            return handler(*arguments)
        except (NoSuchObjectError, UnknownDatabaseError) as error:
            raise ObjectGoneError(f"{self.name} refused {method}: {error}") from error
        except MetastoreError as error:
            raise RefusedError(f"{self.name} refused {method}: {error}") from error

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        """Yield the names, in batches from the database."""
        catalog, name = split_catalog(database)
        key = (catalog, normalized(name), normalized(table))
        found = self._store.read(lambda transaction: transaction.tables.find(*key))
        if found is None:
            raise ObjectGoneError(f"{self.name} has no table {database}.{table}")
        last = ""
        while page := self._names_after(found.id, last):
            yield from page
            last = page[-1]

    def close(self) -> None:
        """Close the database of the connection."""
        self._store.close()

    def _names_after(self, table_id: int, last: str) -> list[str]:
        return self._store.read(lambda transaction: transaction.partitions.names_after(table_id, last, _NAMES_AT_ONCE))


def _refusal(name: str, method: str, error: TException) -> MigrationError:
    if isinstance(error, TApplicationException) and error.type == TApplicationException.UNKNOWN_METHOD:
        return MissingMethodError(f"{name} does not know {method}")
    message = f"{name} refused {method}: {_reason(error)}"
    if isinstance(error, ttypes.NoSuchObjectException | ttypes.UnknownDBException | ttypes.UnknownTableException):
        return ObjectGoneError(message)
    return RefusedError(message)


def _reason(error: BaseException) -> str:
    # thrift's own text for a socket that cannot be opened hides the reason.
    inner = getattr(error, "inner", None)
    if isinstance(inner, OSError):
        return inner.strerror or str(inner)
    return getattr(error, "message", None) or str(error) or type(error).__name__
