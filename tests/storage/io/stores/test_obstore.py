"""Object stores opened by obstore: conditional puts, lost responses, uploads, markers, processes, errors."""

import multiprocessing
import os
import pickle
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from pyarrow import fs as pafs

import interbed
from interbed.storage.base.errors import NotSupportedError, StorageAccessError
from interbed.storage.io import resolve
from interbed.storage.io.api import FileIO, abort_output
from interbed.storage.io.pyarrow_files import PyarrowFileIO
from interbed.storage.io.resolve import file_io_for
from interbed.storage.io.stores import file_io, objects
from interbed.storage.io.stores.file_io import ObjectStoreFileIO
from interbed.storage.io.stores.objects import StoreObjects
from interbed.storage.io.stores.options import RequestLimits
from tests.support.servers.http_servers import running_s3, running_s3proxy
from tests.support.servers.store_proxy import Fault, Request, StoreProxy
from tests.support.waits import at_most

BUCKET = "lake"
SCHEMA = pa.schema((("id", pa.int64()), ("v", pa.string())))


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, str]]:
    with running_s3(BUCKET) as found:
        yield found


@pytest.fixture
def io(options: dict[str, str]) -> tuple[ObjectStoreFileIO, str]:
    io, root = file_io_for(f"s3://{BUCKET}/{uuid.uuid4()}", {**options, "s3.retry.interval": "1ms"})
    assert isinstance(io, ObjectStoreFileIO)
    return io, root


class FailingFunction:
    """A function of obstore that does its work or not, and then fails for a given number of calls."""

    def __init__(self, name: str, failures: int, *, carried_out: bool) -> None:
        self._inner = getattr(obstore, name)
        self._left = failures
        self._carried_out = carried_out
        self.calls = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self._left == 0:
            return self._inner(*arguments, **named)
        self._left -= 1
        if self._carried_out:
            self._inner(*arguments, **named)
        raise obstore.exceptions.GenericError("HTTP error: connection closed before message completed")


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_put_whose_response_was_lost_is_retried(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch, carried_out: bool
) -> None:
    files, root = io
    assert files.exclusive_create
    put = FailingFunction("put", 1, carried_out=carried_out)
    monkeypatch.setattr(obstore, "put", put)
    assert files.create_exclusive(f"{root}/snapshot-1", b"mine")
    assert put.calls == 2
    assert files.read_bytes(f"{root}/snapshot-1") == b"mine"


def test_an_object_put_by_another_process_meanwhile_is_not_mistaken_for_our_own(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io
    assert files.exclusive_create
    # The content is the same; only the token in the metadata distinguishes the objects.
    assert files.create_exclusive(f"{root}/snapshot-1", b"same")
    monkeypatch.setattr(obstore, "put", FailingFunction("put", 1, carried_out=False))
    assert not files.create_exclusive(f"{root}/snapshot-1", b"same")


def test_retries_end_with_an_error_that_names_the_path(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io
    assert files.exclusive_create
    put = FailingFunction("put", 100, carried_out=False)
    monkeypatch.setattr(obstore, "put", put)
    with pytest.raises(StorageAccessError, match=f"{root}/snapshot-1"):
        files.create_exclusive(f"{root}/snapshot-1", b"mine")
    assert put.calls == RequestLimits().retries + 1


def put_half(out: Any, content: bytes) -> None:
    """Write a part of a file, and fail before the end."""
    out.write(content)
    raise ZeroDivisionError


def test_an_upload_is_visible_after_close_and_not_after_an_error(io: tuple[ObjectStoreFileIO, str]) -> None:
    files, root = io
    part = b"x" * (3 << 20)
    with files.open_output(f"{root}/large") as out:
        for _ in range(8):
            out.write(part)
        assert not files.exists(f"{root}/large")
    assert files.size(f"{root}/large") == 8 * len(part)
    for size in (1, 8):
        with pytest.raises(ZeroDivisionError), files.open_output(f"{root}/given-up") as out:
            put_half(out, part * size)
        given_up = files.open_output(f"{root}/given-up")
        given_up.write(part * size)
        abort_output(given_up)
        left = files.open_output(f"{root}/left-open")
        left.write(part)
        del left
    assert [s.name for s in files.list(root)] == ["large"]


def test_small_files_are_opened_by_one_request_and_large_ones_read_in_windows(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io
    files.overwrite(f"{root}/small", b"1" * 1000)
    files.overwrite(f"{root}/large", b"2" * (8 << 20))
    got, ranged = FailingFunction("get", 0, carried_out=True), FailingFunction("get_range", 0, carried_out=True)
    monkeypatch.setattr(obstore, "get", got)
    monkeypatch.setattr(obstore, "get_range", ranged)
    with files.open_input(f"{root}/small") as source:
        assert len(source.read()) == 1000
    assert (got.calls, ranged.calls) == (1, 0)
    with files.open_input(f"{root}/large") as source:
        # The end is in memory, like a footer; so are the bytes next to those that were read.
        source.seek((8 << 20) - 1000)
        source.read(1000)
        assert (got.calls, ranged.calls) == (2, 0)
        for place in range(0, 1 << 20, 1 << 16):
            source.seek(place)
            source.read(1 << 16)
        assert ranged.calls == 1
        source.seek(2 << 20)
        source.read(4 << 20)
        assert ranged.calls == 2


@pytest.mark.parametrize("reported", [None, 3 << 20, (3 << 20) + 1, 2 << 20, 9 << 20, 10])
def test_a_file_opened_with_a_given_size_can_be_read_even_if_the_size_is_wrong(
    io: tuple[ObjectStoreFileIO, str], reported: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io
    content = os.urandom(3 << 20)
    files.overwrite(f"{root}/file", content)
    got = FailingFunction("get", 0, carried_out=True)
    monkeypatch.setattr(obstore, "get", got)
    with files.open_sized(f"{root}/file", reported) as source:
        assert source.read() == content
    assert got.calls == (2 if reported in (2 << 20, 9 << 20) else 1)
    with pytest.raises(FileNotFoundError):
        files.open_sized(f"{root}/none", reported)


def test_a_small_file_can_be_opened_where_a_suffix_range_beyond_its_start_is_refused(options: dict[str, str]) -> None:
    """`rclone serve s3` is a store of that kind."""
    with StoreProxy.before(options) as proxy:
        files, root = file_io_for(f"s3://{BUCKET}/{uuid.uuid4()}", proxy.options)
        files.overwrite(f"{root}/small", b"small")
        files.overwrite(f"{root}/empty", b"")
        refused = Fault(kind="answer", status=416, body=b"<Error><Code>InvalidRange</Code></Error>")
        proxy.fault = lambda request: refused if request.headers.get("range", "").startswith("bytes=-") else None
        for name, content in (("small", b"small"), ("empty", b"")):
            with files.open_input(f"{root}/{name}") as source:
                assert source.read() == content
        with pytest.raises(FileNotFoundError):
            files.open_input(f"{root}/none")


def test_a_file_deleted_while_it_is_read_is_reported_as_missing(
    options: dict[str, str], io: tuple[ObjectStoreFileIO, str]
) -> None:
    files, root = io
    path = f"{root}/going"
    files.overwrite(path, b"1" * 1000)
    with StoreProxy.before(options) as proxy:
        behind, _ = file_io_for(root, {**proxy.options, "s3.retry.interval": "1ms"})
        faults = iter([Fault(kind="cut", after_bytes=3)])

        def next_fault(_: Request) -> Fault | None:
            fault = next(faults, None)
            if fault is None:
                files.delete(path)
            return fault

        proxy.fault = next_fault
        with pytest.raises(FileNotFoundError):
            behind.read_bytes(path)


def test_directory_markers_of_arrow_are_listed_and_deleted(options: dict[str, str]) -> None:
    hadoops = {
        "fs.s3a.endpoint": options["s3.endpoint"],
        "fs.s3a.access.key": "a",
        "fs.s3a.secret.key": "b",
        "fs.s3a.endpoint.region": "us-east-1",
    }
    files, root = file_io_for(f"s3a://{BUCKET}/{uuid.uuid4()}", hadoops)
    theirs = pafs.S3FileSystem(
        access_key="a", secret_key="b", region="us-east-1", endpoint_override=options["s3.endpoint"]
    )
    theirs.create_dir(f"{root.removeprefix('s3://')}/shop.db/t", recursive=True)
    assert files.exists(f"{root}/shop.db")
    assert [(s.name, s.is_directory) for s in files.list(f"{root}/shop.db")] == [("t", True)]
    assert files.list(f"{root}/shop.db/t") == []
    assert files.delete(f"{root}/shop.db", recursive=True)
    assert not files.exists(f"{root}/shop.db")
    # Arrow sees the directories of interbed, too.
    files.make_directories(f"{root}/a.db")
    found = theirs.get_file_info(f"{root.removeprefix('s3://')}/a.db")
    assert found.type is pafs.FileType.Directory


@pytest.mark.parametrize("made_by", ["us", "arrow"])
def test_a_file_added_to_an_empty_directory_during_its_deletion_stays(
    options: dict[str, str], io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch, made_by: str
) -> None:
    files, root = io
    directory = f"{root}/shop and more.db"
    if made_by == "us":
        files.make_directories(directory)
    else:
        theirs = pafs.S3FileSystem(
            access_key="a", secret_key="b", region="us-east-1", endpoint_override=options["s3.endpoint"]
        )
        theirs.create_dir(directory.removeprefix("s3://"), recursive=True)
    remove = StoreObjects.remove

    def remove_late(self: StoreObjects, keys: list[str]) -> None:
        files.overwrite(f"{directory}/t/x", b"1")
        remove(self, keys)

    with monkeypatch.context() as late:
        late.setattr(StoreObjects, "remove", remove_late)
        with pytest.raises(StorageAccessError, match="not empty"):
            files.delete(directory)
    assert files.read_bytes(f"{directory}/t/x") == b"1"
    assert files.delete(f"{directory}/t/x")
    assert files.exists(directory)
    assert files.delete(directory)
    assert not files.exists(directory)
    assert not files.delete(directory)


def test_a_directory_of_many_files_is_deleted_and_renamed_in_batches(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io
    monkeypatch.setattr(objects, "BATCH", 3)
    monkeypatch.setattr(file_io, "BATCH", 3)
    for n in range(8):
        files.overwrite(f"{root}/t/{n % 2}/{n}", str(n).encode())
    assert files.rename(f"{root}/t", f"{root}/u")
    assert not files.exists(f"{root}/t")
    assert files.read_bytes(f"{root}/u/1/7") == b"7"
    files.delete_quietly([f"{root}/u/1/{n}" for n in range(8)])
    assert [s.name for s in files.list(f"{root}/u")] == ["0"]
    assert files.delete(f"{root}/u", recursive=True)
    assert files.list(root) == []


def _read_in_child(files: FileIO, path: str, answers: Any) -> None:
    try:
        answers.put(files.read_bytes(path).decode())
    except StorageAccessError as error:
        answers.put(str(error))


def test_a_forked_process_gets_an_error_instead_of_a_deadlock(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = io
    files.overwrite(f"{root}/x", b"1")
    # As in a forked process: the memory was copied from another process.
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(StorageAccessError, match="forked"):
        files.read_bytes(f"{root}/x")


def test_a_spawned_process_can_receive_the_store(io: tuple[ObjectStoreFileIO, str]) -> None:
    files, root = io
    files.overwrite(f"{root}/x", b"1")
    assert pickle.loads(pickle.dumps(files)).read_bytes(f"{root}/x") == b"1"
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    child = context.Process(target=_read_in_child, args=(files, f"{root}/x", answers))
    child.start()
    assert answers.get(timeout=at_most(60)) == "1"
    child.join(timeout=at_most(60))
    answers.close()


@pytest.mark.parametrize("operation", ["read_bytes", "list", "exists", "size", "open_input", "delete"])
def test_the_error_names_a_missing_bucket(options: dict[str, str], operation: str) -> None:
    files, root = file_io_for("s3://no-such-bucket/lake", options)
    with pytest.raises(StorageAccessError, match="s3://no-such-bucket does not exist"):
        getattr(files, operation)(f"{root}/x")
    with pytest.raises(StorageAccessError, match="s3://no-such-bucket does not exist"):
        files.create_exclusive(f"{root}/x", b"")
    with pytest.raises(StorageAccessError, match="s3://no-such-bucket does not exist"), files.open_output(f"{root}/x"):
        pass


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ("status code: 403 Forbidden: <Error><Code>AccessDenied</Code>", "do not allow it"),
        ("status code: 403: <Code>InvalidAccessKeyId</Code><AWSAccessKeyId>AKIA77</AWSAccessKeyId>", "no credentials"),
        ("status code: 400 Bad Request: <Code>ExpiredToken</Code><Token-0>s3cr3t</Token-0>", "has expired"),
        ("Error performing PUT http://169.254.169.254/latest/api/token: timed out", "no credentials"),
        ("status code: 301 Moved: <Code>PermanentRedirect</Code>", "set s3.region"),
        ("Received redirect without LOCATION, this normally indicates an incorrect region", "set s3.region"),
        ("status code: 403 Forbidden: <Code>RequestTimeTooSkewed</Code>", "the clock of this machine"),
        ("GET https://a.blob.core.windows.net/c/x?sv=1&sig=s3cr3t%3D failed", r"sig=\*\*\*\*\*\*"),
    ],
)
def test_errors_say_what_to_do_without_secrets(
    io: tuple[ObjectStoreFileIO, str], monkeypatch: pytest.MonkeyPatch, said: str, way: str
) -> None:
    files, root = io

    def refuse(*_: Any, **__: Any) -> Any:
        raise obstore.exceptions.GenericError(f"Generic error: {said}\n\nDebug source: AKIA77 s3cr3t")

    monkeypatch.setattr(obstore, "get", refuse)
    with pytest.raises(StorageAccessError, match=way) as caught:
        files.read_bytes(f"{root}/x")
    assert f"{root}/x" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)
    assert "AKIA77" not in str(caught.value)


def test_where_conditional_puts_are_ignored_changes_need_a_lock() -> None:
    with running_s3proxy(BUCKET) as options:
        lake = {"warehouse": f"s3://{BUCKET}/lake", **options}
        catalog = interbed.load_catalog("lake", **lake)
        catalog.create_database("shop")
        with pytest.raises(NotSupportedError, match="needs a catalog lock"):
            catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        assert catalog.list_tables("shop") == []
        # A store that was opened as if it honoured conditions.
        believing = interbed.load_catalog("lake", **lake, **{"s3.conditional-put": "etag"})
        believing.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
        believing.get_table("shop.t").upsert([{"id": 1, "v": "a"}])
        table = catalog.get_table("shop.t")
        before = [s.name for s in file_io_for(table.location, options)[0].list(f"{table.location}/schema")]
        for change in (
            lambda: table.upsert([{"id": 1, "v": "b"}]),
            lambda: catalog.alter_table("shop.t", interbed.SchemaChange.add_column("more", "INT")),
            lambda: table.versions.create_tag("one"),
            lambda: table.versions.create_branch("aside"),
            lambda: table.branch_manager().create_branch("aside"),
            lambda: table.versions.rollback_to(1),
            lambda: table.versions.fast_forward("aside"),
            lambda: table.maintenance.expire_snapshots(retain_max=1),
        ):
            with pytest.raises(NotSupportedError, match="needs a catalog lock"):
                change()
        # Neither the refused changes nor the probe of the store left anything.
        assert [s.id for s in table.snapshots()] == [1]
        io, root = file_io_for(table.location, options)
        assert [s.name for s in io.list(f"{root}/schema")] == before
        assert not [s.name for s in io.list(root) if s.name in ("tag", "branch")]
        for said, honoured in (("etag", True), ("disabled", False)):
            reported, _ = file_io_for(root, {**options, "s3.conditional-put": said})
            assert reported.exclusive_create is honoured


def test_without_obstore_arrow_opens_the_store_and_the_error_mentions_it(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(resolve, "is_installed", lambda library: False)
    resolve._remote.cache_clear()
    try:
        catalog = interbed.load_catalog("lake", warehouse=f"s3://{BUCKET}/arrows", **options)
        assert isinstance(catalog.file_io, PyarrowFileIO)
        catalog.create_database("shop")
        with pytest.raises(NotSupportedError, match=r"pip install 'interbed\[stores\]'"):
            catalog.create_table("shop.t", SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    finally:
        resolve._remote.cache_clear()


class _PageHandler(BaseHTTPRequestHandler):
    """Responds to every request with success and the page of the server."""

    protocol_version = "HTTP/1.1"
    page = b""
    headers_too: Mapping[str, str] = {}

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(200)
        for name, value in {"content-type": "text/html", **self.headers_too}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(self.page)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.page)

    def log_message(self, *_: object) -> None:
        """Suppress the log of requests."""


PAGES = {
    "read as no listing": b"<!doctype html><html lang=en><meta charset=utf-8><br>console",
    "read as a listing of nothing": b"<!doctype html><html>console</html>",
    "empty": b"",
    "JSON": b'{"a": 1}',
}
OF_A_FILE = {"etag": '"1-2"', "last-modified": "Thu, 26 Nov 2026 10:00:00 GMT"}


@pytest.mark.parametrize("more", [{}, OF_A_FILE], ids=["bare", "of a file"])
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_the_error_names_an_address_that_speaks_another_protocol(page: bytes, more: dict[str, str]) -> None:
    verbs = {f"do_{verb}": _PageHandler.answer for verb in ("GET", "PUT", "HEAD", "POST", "DELETE")}
    handler = type("Page", (_PageHandler,), {"page": page, "headers_too": more, **verbs})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        keys = {"s3.access-key": "a", "s3.secret-key": "b", "s3.retry.limit": "1", "s3.retry.interval": "1ms"}
        endpoint = f"http://127.0.0.1:{server.server_port}"
        named = r"the option 's3.endpoint' names an address that does not speak"

        def lake() -> interbed.Catalog:
            return interbed.load_catalog("lake", warehouse="s3://lake/w", **{"s3.endpoint": endpoint, **keys})

        steps: list[Callable[[], object]] = [lambda: lake().list_databases(), lambda: lake().get_table("q.t")]
        if not more:
            # An object that looks like a file is taken for a file, and not for a database.
            steps += [lambda: lake().create_database("q"), lambda: lake().database_exists("q")]
        for step in steps:
            with pytest.raises(StorageAccessError, match=named):
                step()
        server.shutdown()
        thread.join(at_most(10))


def test_an_empty_listing_is_trusted_once_the_store_has_proved_to_speak_s3(options: dict[str, str]) -> None:
    with StoreProxy.before(options) as proxy:
        io, root = file_io_for(f"s3://{BUCKET}/{uuid.uuid4()}", proxy.options)
        with proxy.watched() as seen:
            assert io.list(root) == []
            assert io.list(root) == []
        assert len(seen.requests) == 3
        other, root = file_io_for(f"s3://{BUCKET}/{uuid.uuid4()}", {**proxy.options, "s3.retry.limit": "3"})
        other.overwrite(f"{root}/a", b"1")
        with proxy.watched() as seen:
            assert other.list(f"{root}/b") == []
        assert len(seen.requests) == 1
