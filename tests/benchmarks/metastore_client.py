"""A metastore client with minimal cost, so that the benchmark measures the server.

    python -m tests.benchmarks.metastore_client HOST PORT NUMBER

It sends requests that were encoded once and in which only a name, a number or a sequence id changes. It checks the head
of each reply (it answers this method, and is no exception) and its length, which is the same for all replies to one
kind of request. The generated code decodes the first reply and every 500th after it, and their content is checked.
Commands are lines on stdin, `OPERATION START SECONDS` with START on the system's monotonic clock. The answer to each is
a line of JSON with the number of calls.
"""

import json
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from interbed.thrift_idl.hive_metastore import ttypes
from interbed.thrift_idl.hive_metastore.ThriftHiveMetastore import Client

DATABASE = "bench"
MADE = "bench_made"
"""Database of the tables that are created and altered; those of the other database do not change."""
TABLES = 50
COLUMNS = 20
DECODED_EVERY = 500
TIMEOUT_SECONDS = 120
REPLY = 2

# The reply to `lock`: 16 bytes of message head, then the result's field 0, a struct, whose field 1 is the id.
_LOCK_HEAD = b"\x0c\x00\x00\x0a\x00\x01"
_LOCK_ID = slice(22, 30)
_LOCK_STATE = slice(33, 37)


def table(database: str, name: str) -> ttypes.Table:
    """Return a table with 20 columns, as Spark would register one."""
    columns = [
        ttypes.FieldSchema(name=f"column_{i:02}", type=("bigint", "string")[i % 2], comment=f"Column {i}")
        for i in range(COLUMNS)
    ]
    return ttypes.Table(
        dbName=database,
        tableName=name,
        owner="bench",
        createTime=1_750_000_000,
        lastAccessTime=0,
        retention=0,
        sd=ttypes.StorageDescriptor(
            cols=columns,
            inputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
            compressed=False,
            numBuckets=-1,
            serdeInfo=ttypes.SerDeInfo(
                serializationLib="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
                parameters={"serialization.format": "1"},
            ),
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=[],
        parameters={"spark.sql.sources.provider": "parquet", "spark.sql.create.version": "4.1.4", "version": "0" * 8},
        tableType="MANAGED_TABLE",
    )


def table_name(number: int) -> str:
    """Return the name of one of the tables that are read; all names have the same length."""
    return f"t_{number:08}"


def own_name(number: int) -> str:
    """Return the name of the table that this client alters and locks."""
    return f"own_{number:08}"


def encoded(send: Callable[[Client], None]) -> bytes:
    """Return the bytes that a client sends."""
    buffer = TMemoryBuffer()
    send(Client(TBinaryProtocol(buffer)))
    value: bytes = buffer.getvalue()
    return value


def decoded(reply: bytes, receive: Callable[[Client], Any]) -> Any:
    """Return the result that a client decodes from these bytes. Raises the exception if they hold one."""
    return receive(Client(TBinaryProtocol(TMemoryBuffer(reply))))


class Connection:
    """Connection to the server; `call` sends bytes and returns those of the reply."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lengths: dict[str, int] = {}

    def call(self, kind: str, request: bytes, receive: Callable[[Client], Any], *, look: bool) -> bytes:
        """Return the reply to a request of this kind, decoded if `look`. Raises SystemExit if it is not as expected."""
        self._socket.sendall(request)
        expected = self._lengths.get(kind)
        reply = self._socket.recv(1 << 16)
        if expected is None:
            # Only decoding shows the end of a reply.
            while not _is_whole(reply, receive):
                reply += self._more()
            self._lengths[kind] = len(reply)
        else:
            while len(reply) < expected:
                reply += self._more()
            if len(reply) != expected or reply[3] != REPLY:
                raise SystemExit(f"an unexpected reply to {kind}: {reply[:400]!r}")
            if look:
                decoded(reply, receive)
        return reply

    def _more(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise SystemExit("the server hung up")
        return data


def _is_whole(reply: bytes, receive: Callable[[Client], Any]) -> bool:
    try:
        decoded(reply, receive)
    except EOFError:
        return False
    return True


class ClientLoad:
    """Operations of one client, which has its own tables and its own range of new names."""

    def __init__(self, connection: Connection, number: int) -> None:
        self._connection = connection
        self._number = number
        own = own_name(number)
        self._read = 0
        self._made = 0
        self._version = 0

        def get(number: int) -> bytes:
            return encoded(lambda client: client.send_get_table(DATABASE, table_name(number)))

        def get_by_request(number: int) -> bytes:
            request = ttypes.GetTableRequest(dbName=DATABASE, tblName=table_name(number))
            return encoded(lambda client: client.send_get_table_req(request))

        self._get = [get(number) for number in range(TABLES)]
        self._get_by_request = [get_by_request(number) for number in range(TABLES)]
        self._list = encoded(lambda client: client.send_get_all_tables(DATABASE))
        self._create = _around(
            encoded(
                lambda client: client.send_create_table_with_environment_context(
                    table(MADE, "n_@@@@@@@@@"), ttypes.EnvironmentContext(properties={})
                )
            ),
            b"@@@@@@@@@",
        )
        changed: Any = table(MADE, own)
        changed.parameters["version"] = "@@@@@@@@"
        context = ttypes.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
        self._alter = _around(
            encoded(lambda client: client.send_alter_table_with_environment_context(MADE, own, changed, context)),
            b"@@@@@@@@",
        )
        component = ttypes.LockComponent(
            type=ttypes.LockType.EXCLUSIVE, level=ttypes.LockLevel.TABLE, dbname=MADE, tablename=own
        )
        request = ttypes.LockRequest(component=[component], user="bench", hostname="localhost")
        self._lock = encoded(lambda client: client.send_lock(request))
        unlock = encoded(lambda client: client.send_unlock(ttypes.UnlockRequest(lockid=0x4040404040404040)))
        self._unlock = _around(unlock, b"@@@@@@@@")
        self.operations: dict[str, Callable[[bool], None]] = {
            "get_table": self.get_table,
            "get_table_req": self.get_table_by_request,
            "get_all_tables": self.get_all_tables,
            "create_table": self.create_table,
            "alter_table": self.alter_table,
            "lock + unlock": self.lock_and_unlock,
        }

    def get_table(self, look: bool) -> None:
        self._read = (self._read + 1) % TABLES
        name = table_name(self._read)

        def receive(client: Client) -> None:
            found: Any = client.recv_get_table()
            assert found.tableName == name
            assert len(found.sd.cols) == COLUMNS

        self._connection.call("get_table", self._get[self._read], receive, look=look)

    def get_table_by_request(self, look: bool) -> None:
        """Call `get_table_req`, as Hive 4 does, which lacks `get_table`."""
        self._read = (self._read + 1) % TABLES
        name = table_name(self._read)

        def receive(client: Client) -> None:
            found: Any = client.recv_get_table_req()
            assert found.table.tableName == name
            assert len(found.table.sd.cols) == COLUMNS

        self._connection.call("get_table_req", self._get_by_request[self._read], receive, look=look)

    def get_all_tables(self, look: bool) -> None:
        def receive(client: Client) -> None:
            names: Any = client.recv_get_all_tables()
            assert len(names) == TABLES

        self._connection.call("get_all_tables", self._list, receive, look=look)

    def create_table(self, look: bool) -> None:
        self._made += 1
        before, after = self._create
        request = b"%s%d%08d%s" % (before, self._number, self._made, after)
        self._connection.call("create", request, Client.recv_create_table_with_environment_context, look=look)

    def alter_table(self, look: bool) -> None:
        self._version += 1
        before, after = self._alter
        request = b"%s%08d%s" % (before, self._version, after)
        self._connection.call("alter", request, Client.recv_alter_table_with_environment_context, look=look)

    def lock_and_unlock(self, look: bool) -> None:
        reply = self._connection.call("lock", self._lock, Client.recv_lock, look=look)
        # The fields have fixed offsets: the bytes before the id verify its offset; the state follows it.
        assert reply[: _LOCK_ID.start].endswith(_LOCK_HEAD)
        assert reply[_LOCK_STATE] == struct.pack(">i", ttypes.LockState.ACQUIRED)
        before, after = self._unlock
        request = before + reply[_LOCK_ID] + after
        self._connection.call("unlock", request, Client.recv_unlock, look=look)


def _around(request: bytes, placeholder: bytes) -> tuple[bytes, bytes]:
    before, found, after = request.partition(placeholder)
    assert found
    assert placeholder not in after
    return before, after


def main() -> None:
    """Answer commands until stdin is closed."""
    host, port, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    load = ClientLoad(Connection(host, port), number)
    print("ready", flush=True)
    for line in sys.stdin:
        operation, start, seconds = line.rsplit(maxsplit=2)
        call = load.operations[operation]
        time.sleep(max(0.0, float(start) - time.monotonic()))
        began, cpu, calls = time.monotonic(), time.process_time(), 0
        ends = float(start) + float(seconds)
        now = began
        while now < ends:
            call(calls % DECODED_EVERY == 0)
            calls += 1
            now = time.monotonic()
        figures = {"calls": calls, "seconds": now - began, "cpu_s": time.process_time() - cpu}
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
