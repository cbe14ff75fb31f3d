"""Immutable files of an object store are read from local disk after the first read, with the content of the store."""

import pickle
import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.io.api import FileIO
from interbed.storage.io.cached.blocks import COUNTER
from interbed.storage.io.cached.file_io import CachedFileIO
from interbed.storage.io.cached.options import CacheOptions, Kind, kind_of
from interbed.storage.io.resolve import file_io_for
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import Fault, Request, StoreProxy

BUCKET = "lake"
MIB = 1 << 20
ID = "0b7b1c6e-3e0f-4a57-9a36-0f6b3a2d9c11"
CONTENT = random.Random(3).randbytes(5 * MIB + 1234)


@pytest.fixture(scope="module")
def proxy() -> Iterator[StoreProxy]:
    with running_s3(BUCKET) as options, StoreProxy.before(options) as found:
        yield found


@pytest.fixture
def options(proxy: StoreProxy, tmp_path: Path) -> dict[str, str]:
    proxy.fault = None
    return {**proxy.options, "local-cache.enabled": "true", "local-cache.dir": str(tmp_path / "cache")}


@pytest.fixture
def place(proxy: StoreProxy) -> tuple[FileIO, str]:
    """The store without a cache, and a data file in it."""
    io, root = file_io_for(f"s3://{BUCKET}/{uuid.uuid4()}", proxy.options)
    path = f"{root}/bucket-0/data-{ID}-0.parquet"
    io.overwrite(path, CONTENT)
    return io, path


def fresh(options: dict[str, str]) -> CachedFileIO:
    """The store with a cache, as another process opens it."""
    io, _ = file_io_for(f"s3://{BUCKET}/x", options)
    assert isinstance(io, CachedFileIO)
    again = pickle.loads(pickle.dumps(io))
    assert isinstance(again, CachedFileIO)
    return again


def test_a_file_is_transferred_once_and_later_only_validated(
    proxy: StoreProxy, options: dict[str, str], place: tuple[FileIO, str]
) -> None:
    path = place[1]
    before = COUNTER.counts
    with proxy.watched() as seen:
        assert fresh(options).read_bytes(path) == CONTENT
    assert seen.received_bytes <= len(CONTENT) + MIB
    second = fresh(options)
    with proxy.watched() as seen:
        assert second.read_bytes(path) == CONTENT
    assert [(request.method, request.status) for request in seen.requests] == [("GET", 304)]
    assert seen.received_bytes == 0
    with proxy.watched() as seen:
        with second.open_input(path) as source:
            source.seek(3 * MIB - 5)
            assert source.read(10) == CONTENT[3 * MIB - 5 : 3 * MIB + 5]
            assert source.size() == len(CONTENT)
        assert second.read_bytes(path) == CONTENT
    assert seen.requests == []
    counts = COUNTER.counts
    assert counts.hits - before.hits >= 6 + 2 + 6
    assert counts.hit_bytes - before.hit_bytes >= 2 * len(CONTENT)
    assert counts.missed_bytes - before.missed_bytes <= len(CONTENT)


def test_blocks_that_are_missing_are_fetched_together(
    proxy: StoreProxy, options: dict[str, str], place: tuple[FileIO, str]
) -> None:
    path = place[1]
    with fresh(options).open_input(path) as source:
        source.seek(2 * MIB + 10)
        assert source.read(10) == CONTENT[2 * MIB + 10 : 2 * MIB + 20]
    with proxy.watched() as seen, fresh(options).open_input(path) as source:
        assert source.read() == CONTENT
    # Cached are block 2, block 3 of the window, and the last block.
    assert [request.status for request in seen.requests] == [304, 206, 206]
    assert seen.received_bytes <= 3 * MIB


def test_threads_that_need_the_same_block_fetch_it_once(
    proxy: StoreProxy, options: dict[str, str], place: tuple[FileIO, str]
) -> None:
    io, path = fresh(options), place[1]

    def read(number: int) -> bytes:
        with io.open_input(path) as source:
            source.seek(number * 1000)
            return bytes(source.read(1000))

    io.open_input(path).close()
    with proxy.watched() as seen, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(read, range(100)))
    assert b"".join(found) == CONTENT[:100_000]
    assert len(seen.requests) <= 2


def test_another_version_of_a_file_is_not_mixed_with_cached_blocks(
    options: dict[str, str], place: tuple[FileIO, str]
) -> None:
    io, path = place
    assert fresh(options).read_bytes(path) == CONTENT
    other = CONTENT[::-1]
    io.overwrite(path, other)
    assert fresh(options).read_bytes(path) == other
    cached = fresh(options)
    assert cached.read_bytes(path) == other
    cached.overwrite(path, b"short")
    assert cached.read_bytes(path) == b"short"
    cached.delete(path)
    with pytest.raises(FileNotFoundError):
        cached.read_bytes(path)


def test_a_damaged_block_is_fetched_again(options: dict[str, str], place: tuple[FileIO, str], tmp_path: Path) -> None:
    path = place[1]
    assert fresh(options).read_bytes(path) == CONTENT
    files = [each for each in (tmp_path / "cache").rglob("*") if each.is_file()]
    assert len(files) == 7
    for number, file in enumerate(files):
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2] if number % 2 else whole[:-1] + bytes([whole[-1] ^ 1]))
    assert fresh(options).read_bytes(path) == CONTENT
    assert fresh(options).read_bytes(path) == CONTENT


def test_small_and_empty_files_can_be_cached(
    proxy: StoreProxy, options: dict[str, str], place: tuple[FileIO, str]
) -> None:
    io, path = place
    directory = path.rpartition("/")[0]
    for name, content in (("small", b"abc"), ("empty", b"")):
        small = f"{directory}/{name}-{ID}-0.orc"
        io.overwrite(small, content)
        assert fresh(options).read_bytes(small) == content
        again = fresh(options)
        assert again.read_bytes(small) == content
        with proxy.watched() as seen:
            assert again.read_bytes(small) == content
        assert seen.requests == []


def test_mutable_files_are_never_cached(options: dict[str, str], place: tuple[FileIO, str], tmp_path: Path) -> None:
    io, path = place
    hint = f"{path.rpartition('/')[0]}/snapshot/LATEST"
    cached = fresh(options)
    for content in (b"1", b"2"):
        io.overwrite(hint, content)
        assert cached.read_bytes(hint) == content
        with cached.open_input(hint) as source:
            assert source.read() == content
    assert not (tmp_path / "cache").exists()


def test_an_error_of_the_store_reaches_all_waiting_readers(
    proxy: StoreProxy, options: dict[str, str], place: tuple[FileIO, str]
) -> None:
    io, path = fresh(options), place[1]
    with io.open_input(path) as source:
        proxy.fault = lambda _: Fault(kind="answer", status=403)
        with pytest.raises(StorageAccessError, match="do not allow it"):
            source.read(10)
        proxy.fault = None
        assert source.read(10) == CONTENT[:10]


def test_a_table_is_read_from_the_cache(proxy: StoreProxy, options: dict[str, str]) -> None:
    def of_files(request: Request) -> bool:
        return "/bucket-" in request.path or "/manifest" in request.path

    lake = interbed.load_catalog("lake", warehouse=f"s3://{BUCKET}/{uuid.uuid4()}", **options)
    lake.create_database("d")
    rows = pa.table({"id": range(1000), "v": range(1000)})
    table = lake.create_table("d.t", rows.schema, primary_keys=["id"], options={"bucket": "1"})
    for _ in range(2):
        table.upsert(rows)
    assert table.scan().to_arrow().num_rows == 1000
    with proxy.watched() as seen:
        assert table.scan().to_arrow().num_rows == 1000
    assert [request.name for request in seen.requests if of_files(request)] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"data-{ID}-0.parquet", Kind.DATA),
        (f"changelog-{ID}-0.zst.avro", Kind.DATA),
        (f"00000-0-{ID}.parquet", Kind.DATA),
        (f"manifest-{ID}-0", Kind.META),
        (f"manifest-list-{ID}-1", Kind.META),
        (f"index-manifest-{ID}-0", Kind.META),
        (f"stat-{ID}-0", Kind.META),
        (f"index-{ID}-0", Kind.BUCKET_INDEX),
        (f"data-{ID}-0.parquet.index", Kind.FILE_INDEX),
        (f"btree-global-index-{ID}.index", Kind.GLOBAL_INDEX),
        ("snapshot-1", None),
        ("LATEST", None),
        ("schema-0", None),
        ("tag-x", None),
        (f"tag-{ID}", None),
        (f"consumer-{ID}", None),
        (f"epoch-{ID}", None),
        (f"position-{ID}", None),
        (f".data-{ID}-0.parquet.{ID}.tmp", None),
        ("part-0.parquet", None),
        ("v1.metadata.json", None),
        (f"00001-{ID}.metadata.json", None),
    ],
)
def test_immutable_files_are_recognized_by_their_names(name: str, kind: Kind | None) -> None:
    assert kind_of(f"s3://lake/{ID}/t/{name}") == kind


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"local-cache.enabled": "yes"}, "is true or false, not 'yes'"),
        ({"local-cache.enabled": "true"}, "needs 'local-cache.dir' beside it"),
        ({"local-cache.enabled": "true", "local-cache.dir": "some/where"}, "needs 'local-cache.dir' beside it"),
        ({"local-cache.whitelist": "meta,blobs"}, "it has 'blobs'"),
        ({"local-cache.max-size": "big"}, "takes a size"),
        ({"local-cache.block-size": "1 kb"}, "is at least 4096 bytes"),
        ({"local-cache.block-size": "2 mb", "local-cache.max-size": "1 mb"}, "at most 'local-cache.max-size'"),
        ({"local-cache.place": "/x"}, "Nothing is known of the option 'local-cache.place'"),
    ],
)
def test_invalid_options_are_refused_by_name(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidOptionError, match=words):
        file_io_for("/tmp/x", given)


def test_options_have_paimons_names(tmp_path: Path) -> None:
    given = {
        "local-cache.enabled": "true",
        "local-cache.dir": str(tmp_path),
        "local-cache.max-size": "1 gb",
        "local-cache.block-size": "64 kb",
        "local-cache.whitelist": "meta, data",
    }
    assert CacheOptions.of(given) == CacheOptions(
        directory=str(tmp_path), most_bytes=1 << 30, block_bytes=64 << 10, kinds=frozenset({Kind.META, Kind.DATA})
    )
    assert CacheOptions.of({**given, "local-cache.enabled": "false"}) is None
    assert CacheOptions.of({}) is None
