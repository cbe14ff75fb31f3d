"""Streams of rows under attack: readers that do not read, that go away, or that lose their rights; many at once."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from interbed.catalog.server.rest.rows.streams import CHECK_SECONDS
from tests.catalog.server.rest.rows.served_rows import END_OF_STREAM, RowsServer, rows_server
from tests.support.waits import at_most, wait_until

COUNT = 200_000
WIDTH = 400


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowsServer]:
    """Run a server with a table that is larger than what sockets buffer, with a limit of streams."""
    with rows_server(tmp_path_factory.mktemp("attacked"), "--rows-streams-max", "8") as made:
        with made.catalog("root") as catalog:
            numbers = np.arange(COUNT)
            text = np.random.default_rng(1).integers(97, 122, COUNT * WIDTH, dtype=np.uint8).tobytes().decode()
            rows = pa.table(
                {
                    "id": pa.array(numbers, pa.int64()),
                    "text": [text[start : start + WIDTH] for start in range(0, COUNT * WIDTH, WIDTH)],
                }
            )
            catalog.create_table("sales.wide", rows.schema).append(rows)
            for user in ("ann", "bea"):
                catalog.grant("SELECT", on="table sales.wide", to=f"user {user}")
            catalog.set_row_filter("sales.wide", "id >= 1000", to=["user ann"])
        wait_until(lambda: made.rows("bea", {"columns": [], "limit": 1}, "wide").status == 200)
        yield made


def _is_idle(server: RowsServer) -> bool:
    return server.figure("interbed_row_streams ") == 0 and server.figure("interbed_row_bytes ") == 0


def _rest(response: http.client.HTTPResponse) -> tuple[bytes, bool]:
    """Return the bytes of a body, and whether it has its end."""
    found = bytearray()
    try:
        while part := response.read1(1 << 16):
            found += part
    except (http.client.IncompleteRead, ConnectionError) as error:
        return bytes(found) + (error.partial if isinstance(error, http.client.IncompleteRead) else b""), False
    return bytes(found), True


def _reason(body: bytes) -> str:
    """Return the reason in the last batch of a stream that has failed."""
    reader = pa.ipc.open_stream(body)
    while True:
        batch, metadata = reader.read_next_batch_with_custom_metadata()
        if metadata is not None and b"interbed.error" in metadata:
            assert batch.num_rows == 0
            return str(metadata[b"interbed.error"].decode())


def test_a_whole_stream_of_many_parts(server: RowsServer) -> None:
    answer = server.rows("ann", {}, "wide")
    table = answer.table
    assert table.sort_by("id")["id"].equals(pa.chunked_array([pa.array(range(1000, COUNT), pa.int64())]))
    assert len(answer.body) > COUNT * WIDTH * 0.9
    wait_until(lambda: _is_idle(server))


def _revoked(server: RowsServer) -> None:
    server.command("revoke", "SELECT", "on", "table", "sales.wide", "from", "user", "ann")


def _granted(server: RowsServer) -> None:
    server.command("grant", "SELECT", "on", "table", "sales.wide", "to", "user", "ann")


def _filtered(server: RowsServer) -> None:
    server.command("policy", "set-filter", "sales.wide", "id > 5000", "--name", "more", "--to", "user ann")


def _unfiltered(server: RowsServer) -> None:
    server.command("policy", "drop", "sales.wide", "more")


@pytest.mark.parametrize(
    ("change", "undo", "reason"),
    [
        (_revoked, _granted, "ann lacks the privilege SELECT"),
        (_filtered, _unfiltered, "The row filters or column masks of the table hive.sales.wide have changed"),
    ],
    ids=["grant", "policy"],
)
def test_a_stream_ends_without_its_mark_when_the_reader_may_not_see_the_rows_any_more(
    server: RowsServer, change: Any, undo: Any, reason: str
) -> None:
    connection, response = server.begin("ann", {}, "wide")
    try:
        assert response.status == 200
        begun = response.read(1 << 16)
        read_at = time.monotonic()
        change(server)
        # In force on this server when a new request has it. A stream is checked again after CHECK_SECONDS.
        wait_until(lambda: _count(server) != COUNT - 1000)
        wait_until(lambda: time.monotonic() - read_at > 2 * CHECK_SECONDS)
        rest, is_whole = _rest(response)
    finally:
        connection.close()
        undo(server)
    assert not is_whole
    body = begun + rest
    assert not body.endswith(END_OF_STREAM)
    assert reason in _reason(body)
    # What the sockets hold was sent before.
    assert len(body) < COUNT * WIDTH / 2
    wait_until(lambda: _count(server) == COUNT - 1000)
    wait_until(lambda: any(reason in line.get("error", "") for line in server.audit))


def _count(server: RowsServer) -> int:
    answer = server.rows("ann", {"columns": []}, "wide")
    return answer.table.num_rows if answer.status == 200 else -1


def test_a_stream_ends_when_the_token_is_revoked(server: RowsServer) -> None:
    created = json.loads(server.command("token", "create", "bea", "--json"))
    server.tokens = {**server.tokens, "late": created["token"]}
    connection, response = server.begin("late", {}, "wide")
    try:
        begun = response.read(1 << 16)
        read_at = time.monotonic()
        server.command("token", "revoke", created["id"])
        wait_until(lambda: server.rows("late", {"limit": 0}, "wide").status == 401)
        wait_until(lambda: time.monotonic() - read_at > 2 * CHECK_SECONDS)
        rest, is_whole = _rest(response)
    finally:
        connection.close()
    assert not is_whole
    assert "token" in _reason(begun + rest).lower()


def test_readers_that_do_not_read_hold_no_thread_and_little_memory(server: RowsServer) -> None:
    before = server.figure("process_resident_memory_bytes")
    opened = [server.begin(user, {}, "wide") for user in ("bea", "ann") for _ in range(4)]
    try:
        wait_until(lambda: server.figure("interbed_row_streams ") == 8)
        # All places are taken, and metadata is answered.
        with server.catalog("bea") as catalog:
            for _ in range(50):
                assert catalog.list_tables("sales") == ["lake", "wide"]
        refused = server.rows("root", {"limit": 1}, "wide")
        assert (refused.status, refused.error["type"]) == (503, "TooManyStreams")
        # Eight whole results would be 640 MB.
        assert server.figure("process_resident_memory_bytes") - before < 400e6
    finally:
        for connection, response in opened:
            response.close()
            connection.close()
    wait_until(lambda: _is_idle(server))
    assert server.rows("root", {"limit": 1}, "wide").table.num_rows == 1


def test_a_client_that_goes_away_ends_its_stream(server: RowsServer) -> None:
    for _ in range(12):
        connection, response = server.begin("bea", {}, "wide")
        assert response.read(1000)
        response.close()
        connection.close()
        wait_until(lambda: server.figure("interbed_row_streams ") < 4)
    wait_until(lambda: _is_idle(server))
    wait_until(lambda: "the client has gone" in server.audit[-1].get("error", ""))


def test_200_streams_at_once_are_served_or_refused_and_metadata_is_answered(server: RowsServer) -> None:
    statuses: list[int] = []
    guard = threading.Lock()

    def read(user: str) -> None:
        answer = server.rows(user, {"limit": 2000, "filter": "id >= 1000"}, "wide")
        if answer.status == 200:
            assert answer.table.num_rows == 2000
        with guard:
            statuses.append(answer.status)

    threads = [threading.Thread(target=read, args=(("ann", "bea", "root")[number % 3],)) for number in range(200)]
    for thread in threads:
        thread.start()
    answered = 0
    with server.catalog("bea") as catalog:
        while any(thread.is_alive() for thread in threads):
            assert catalog.list_tables("sales") == ["lake", "wide"]
            answered += 1
    for thread in threads:
        thread.join(at_most(60))
    assert len(statuses) == 200
    assert set(statuses) <= {200, 503}
    assert statuses.count(200) >= 8
    assert answered
    wait_until(lambda: _is_idle(server))


def test_a_pipelined_request_is_answered_after_the_stream(server: RowsServer) -> None:
    connection = server.connect()
    connection.connect()
    sock: socket.socket = connection.sock
    path = "/interbed/v1/hive/databases/sales/tables/wide/rows"
    head = f"Host: x\r\nAuthorization: Bearer {server.tokens['bea']}\r\n"
    body = json.dumps({"columns": ["id"], "limit": 10}).encode()
    posted = f"POST {path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    sock.sendall(posted + f"GET /interbed/v1/hive/dropped HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode())
    found = b""
    while part := sock.recv(1 << 16):
        found += part
    connection.close()
    assert found.count(b"HTTP/1.1 200 OK") == 2
    assert found.index(END_OF_STREAM) < found.index(b'{"dropped":[')


def test_a_file_that_is_missing_cuts_the_stream_with_its_reason(server: RowsServer, tmp_path: Path) -> None:
    with server.catalog("root") as catalog:
        table = catalog.create_table(
            "sales.torn", pa.schema((pa.field("id", pa.int64()), pa.field("note", pa.string())))
        )
        for start in (0, 10):
            table.append(pa.table({"id": pa.array(range(start, start + 10), pa.int64()), "note": ["secret-66"] * 10}))
        catalog.set_column_mask("sales.torn", "note", "NULL", to=["user root"])
        files = sorted(Path(table.location.removeprefix("file:")).glob("bucket-*/*.parquet"))
    content = files[-1].read_bytes()
    files[-1].write_bytes(content[:4] + bytes(len(content) - 12) + content[-8:])
    connection, response = server.begin("root", {}, "torn")
    try:
        if response.status == 200:
            body, is_whole = _rest(response)
            assert not is_whole
            reason = _reason(body)
        else:
            body = response.read()
            reason = json.loads(body)["error"]["message"]
    finally:
        connection.close()
    assert b"secret-66" not in body
    assert "cannot be read" in reason


def test_a_reader_that_never_reads_is_dropped(tmp_path: Path) -> None:
    with rows_server(tmp_path, "--message-seconds", "1") as server:
        with server.catalog("root") as catalog:
            text = np.random.default_rng(1).integers(97, 122, COUNT * WIDTH, dtype=np.uint8).tobytes().decode()
            rows = pa.table({"text": [text[start : start + WIDTH] for start in range(0, COUNT * WIDTH, WIDTH)]})
            catalog.create_table("sales.wide", rows.schema).append(rows)
        connection, response = server.begin("root", {}, "wide")
        try:
            assert response.status == 200
            wait_until(lambda: _is_idle(server) and bool(server.audit))
            assert server.audit[-1]["outcome"] == "refused"
        finally:
            response.close()
            connection.close()
