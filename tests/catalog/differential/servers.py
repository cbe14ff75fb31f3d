"""The two servers: they get the same calls, and their outcomes are turned into comparable values."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client
from tests.support.waits import at_most

TIMEOUT_SECONDS = at_most(120)
WAREHOUSE = "WAREHOUSE"
"""Placeholder of the warehouse's directory, in arguments (where it is replaced) and in answers."""

NOW = "NOW"
"""Placeholder of a time that the server took from its clock."""
NOW_TOLERANCE_SECONDS = 24 * 3600

_TIMES = {"createTime", "lastAccessTime", "eventTime", "lastAnalyzed", "timestamp"}
_TIME_PARAMETERS = {"transient_lastDdlTime", "last_modified_time"}

LATER_FIELDS: dict[str, frozenset[str]] = {
    "Database": frozenset(
        {"catalogName", "createTime", "managedLocationUri", "type", "connector_name", "remote_dbname"}
    ),
    "Table": frozenset(
        {
            *("catName", "ownerType", "creationMetadata", "writeId", "isStatsCompliant", "colStats", "accessType"),
            *("requiredReadCapabilities", "requiredWriteCapabilities", "id", "fileMetadata", "dictionary", "txnId"),
        }
    ),
    "Partition": frozenset({"catName", "writeId", "isStatsCompliant", "colStats", "fileMetadata"}),
    "SerDeInfo": frozenset({"description", "serializerClass", "deserializerClass", "serdeType"}),
    "Function": frozenset({"catName"}),
    "TableMeta": frozenset({"catName", "ownerName", "ownerType"}),
    "NotificationEvent": frozenset({"catName"}),
    "ColumnStatisticsDesc": frozenset({"catName"}),
    "ColumnStatistics": frozenset({"isStatsCompliant", "engine", "writeId"}),
    "LockResponse": frozenset({"errorMessage"}),
}
"""Fields that the interface of Hive 2.3 does not have."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """Answer of a call, as a value."""

    value: Any

    def __str__(self) -> str:
        return f"answered {self.value!r}"


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """Refusal of a call by an exception of this class and text."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"refused with {self.kind}: {self.text!r}"


Outcome = CallAnswer | CallRefusal


class ComparedServer:
    """Server with one connection."""

    def __init__(self, name: str, uri: str, warehouse: Path) -> None:
        self.name = name
        self.warehouse = warehouse
        self._uri = uri
        self._client: Client | None = None
        self._transport: TBufferedTransport | None = None

    def ask(self, method: str, arguments: tuple[Any, ...]) -> Outcome:
        """Return the outcome of a call with plain values."""
        outcome = self.raw(method, arguments)
        return CallAnswer(self.plain(outcome.value)) if isinstance(outcome, CallAnswer) else outcome

    def raw(self, method: str, arguments: tuple[Any, ...]) -> Outcome:
        """Return the outcome of a call with structures of Thrift."""
        client = self._connected()
        try:
            value = getattr(client, method)(*(self._substituted(argument) for argument in arguments))
        except TApplicationException as error:
            # Thrift's Java server sends null as a missing result.
            if error.type == TApplicationException.MISSING_RESULT:
                return CallAnswer(None)
            # Java reads no further after a request that it could not decode.
            self.close()
            return CallRefusal("TApplicationException", str(error.message))
        except TTransportException as error:
            self.close()
            return CallRefusal("TTransportException", str(error))
        except TException as error:
            return CallRefusal(type(error).__name__, self._replaced(str(getattr(error, "message", ""))))
        return CallAnswer(value)

    def plain(self, value: Any, name: str = "") -> Any:
        """Return structures of Thrift as dictionaries.

        Fields that are not set or not of Hive 2.3 are left out, and times and paths are replaced.
        """
        if isinstance(value, str):
            if name in _TIME_PARAMETERS and value.isdigit():
                return _time(int(value))
            return self._replaced(value)
        if isinstance(value, int) and name in _TIMES:
            return _time(value)
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, set):
            return {self.plain(item) for item in value}
        if isinstance(value, dict):
            return {self.plain(key): self.plain(item, key) for key, item in value.items()}
        if hasattr(value, "thrift_spec"):
            kind = type(value).__name__
            later = LATER_FIELDS.get(kind, frozenset())
            found = {f: self.plain(getattr(value, f), f) for f in fields_of(value) if f not in later}
            return {f: item for f, item in found.items() if item is not None}
        return value

    def last_event(self) -> int:
        """Return the id of the latest event in the notification log."""
        outcome = self.raw("get_current_notificationEventId", ())
        assert isinstance(outcome, CallAnswer), outcome
        return int(outcome.value.eventId)

    def paths(self) -> list[str]:
        """Return all paths below the warehouse; directories end with a slash."""
        return sorted(
            str(path.relative_to(self.warehouse)) + ("/" if path.is_dir() else "") for path in self.warehouse.rglob("*")
        )

    def local(self, location: str) -> Path:
        """Return the path of a location of this server."""
        return Path("/" + location.removeprefix("file:").lstrip("/"))

    def empty_warehouse(self) -> None:
        """Delete all files in the warehouse."""
        for path in self.warehouse.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._transport is not None:
            self._transport.close()
        self._client = self._transport = None

    def _connected(self) -> Client:
        if self._client is None:
            host, _, port = self._uri.removeprefix("thrift://").partition(":")
            socket = TSocket(host, int(port))
            socket.setTimeout(TIMEOUT_SECONDS * 1000)
            self._transport = TBufferedTransport(socket)
            self._transport.open()
            self._client = Client(TBinaryProtocol(self._transport))
        return self._client

    def _replaced(self, text: str) -> str:
        return text.replace(str(self.warehouse), f"/{WAREHOUSE}")

    def _substituted(self, value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(f"/{WAREHOUSE}", str(self.warehouse))
        if isinstance(value, list):
            return [self._substituted(item) for item in value]
        if isinstance(value, dict):
            return {key: self._substituted(item) for key, item in value.items()}
        if hasattr(value, "thrift_spec"):
            return type(value)(**{f: self._substituted(getattr(value, f)) for f in fields_of(value)})
        return value


def fields_of(structure: Any) -> list[str]:
    """Return the names of the fields of a structure of Thrift."""
    return [spec[2] for spec in structure.thrift_spec or () if spec]


def _time(seconds: int) -> Any:
    return NOW if abs(time.time() - seconds) < NOW_TOLERANCE_SECONDS else seconds


@dataclass(slots=True)
class ServerPair:
    """Interbed and a server of Hive. `accepted` has rules for differences from this version only.

    `has_events` is whether the server of Hive keeps a notification log.
    """

    java: ComparedServer
    ours: ComparedServer
    accepted: tuple[Any, ...] = ()
    has_events: bool = True

    def each(self, action: Callable[[ComparedServer], Any]) -> tuple[Any, Any]:
        """Apply the action to both servers, and return Java's result first."""
        return action(self.java), action(self.ours)

    def reset(self) -> None:
        """Restore the initial state of both servers: no databases, functions, locks and files."""
        for server in (self.java, self.ours):
            _reset(server)


def _reset(server: ComparedServer) -> None:
    for lock in _answer(server, "show_locks", ttypes.ShowLocksRequest()).locks:
        server.raw("unlock", (ttypes.UnlockRequest(lockid=lock.lockid),))
    for name in _answer(server, "get_all_databases"):
        for function in _answer(server, "get_functions", name, "*"):
            _answer(server, "drop_function", name, function)
        if name != "default":
            # Data is not deleted with the database: locations are random, and a location that contains another one must
            # not fail this.
            _answer(server, "drop_database", name, False, True)
    for table in _answer(server, "get_all_tables", "default"):
        _answer(server, "drop_table", "default", table, False)
    server.empty_warehouse()


def _answer(server: ComparedServer, method: str, *arguments: Any) -> Any:
    outcome = server.raw(method, arguments)
    if isinstance(outcome, CallRefusal):
        raise AssertionError(f"{server.name} could not be reset: {method}{arguments}: {outcome}")
    return outcome.value
