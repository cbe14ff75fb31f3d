"""Requests to an object store while tables in it are read: few requests, and many at the same time."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.prefetch.content import end_bytes
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import Fault, Request, SeenRequests, StoreProxy

BUCKET = "lake"
LATENCY_SECONDS = 0.15
"""Long compared to the start of a thread on a busy machine."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[StoreProxy]:
    with running_s3(BUCKET) as options, StoreProxy.before(options) as found:
        yield found


@pytest.fixture(autouse=True)
def calm(proxy: StoreProxy) -> Iterator[None]:
    yield
    proxy.fault = None


@pytest.fixture
def lake(proxy: StoreProxy) -> interbed.Catalog:
    lake = interbed.load_catalog("lake", warehouse=f"s3://{BUCKET}/{uuid.uuid4()}", **proxy.options)
    lake.create_database("d")
    return lake


def of_data(request: Request) -> bool:
    return "/bucket-" in request.path


@contextmanager
def watched(proxy: StoreProxy) -> Iterator[SeenRequests]:
    """Record the requests for data files, each of which takes a while."""
    found = SeenRequests()
    stall = Fault(kind="stall", seconds=LATENCY_SECONDS)
    if proxy.fault is None:
        proxy.fault = lambda request: stall if of_data(request) else None
    with proxy.watched() as seen:
        yield found
    found.requests.extend(request for request in seen.requests if of_data(request))


def size_of(table: interbed.Table) -> int:
    """The size of its only file in bytes."""
    ((file,),) = [split.files for split in table.scan().plan.splits]
    return file.file_size


def rounds_by_file(seen: SeenRequests) -> dict[str, int]:
    files: dict[str, list[Request]] = {}
    for request in seen.requests:
        files.setdefault(request.path, []).append(request)
    return {path: SeenRequests(requests).rounds for path, requests in files.items()}


def rows(count: int, *, columns: int = 8, start: int = 0) -> pa.Table:
    values = np.random.default_rng(start).integers(0, 1 << 60, (columns, count))
    return pa.table({"id": np.arange(start, start + count), **{f"c{i}": values[i] for i in range(columns)}})


@pytest.fixture(scope="module")
def wide(proxy: StoreProxy) -> tuple[interbed.Table, pa.Table]:
    """A table of one file with three full row groups, in which a column takes 1 MiB, and a short one."""
    lake = interbed.load_catalog("lake", warehouse=f"s3://{BUCKET}/wide", **proxy.options)
    lake.create_database("d")
    content = rows(400_000)
    table = lake.create_table("d.wide", content.schema, options={"bucket": "-1"})
    table.append(content)
    return table, content


def test_some_columns_of_a_large_file_take_its_end_and_one_round_of_chunks(
    wide: tuple[interbed.Table, pa.Table], proxy: StoreProxy
) -> None:
    table, content = wide
    with watched(proxy) as seen:
        found = table.scan(columns=["c1", "c6"]).to_arrow()
    assert found.sort_by("c1").equals(content.select(["c1", "c6"]).sort_by("c1"))
    # The last group is short, and its second column was read with the footer.
    assert 1 + 2 * 3 <= len(seen.requests) <= 1 + 2 * 4
    first = min(seen.requests, key=lambda request: request.started)
    assert first.received_bytes == end_bytes(size_of(table)) < 256 << 10
    assert seen.received_bytes <= first.received_bytes + 1.02 * found.nbytes
    assert seen.rounds <= 3


def test_all_columns_of_a_large_file_are_read_by_requests_of_several_mib(
    wide: tuple[interbed.Table, pa.Table], proxy: StoreProxy
) -> None:
    table, content = wide
    with watched(proxy) as seen:
        assert table.scan().to_arrow().num_rows == content.num_rows
    assert seen.received_bytes <= 1.02 * content.nbytes
    assert len(seen.requests) <= 1 + content.nbytes / (2 << 20)


def test_small_files_are_read_by_one_request_each_and_concurrently(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    table = lake.create_table("d.many", rows(1).schema, options={"bucket": "-1"})
    for number in range(12):
        table.append(rows(100, start=100 * number))
    with watched(proxy) as seen:
        found = table.scan().to_arrow()
    assert found.sort_by("id")["id"].to_pylist() == list(range(1200))
    assert len(seen.requests) == 12
    assert seen.rounds <= 4


def test_the_runs_of_a_merge_are_opened_concurrently_and_prefetch(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    content = rows(300_000)
    options = {"bucket": "1", "write-only": "true"}
    table = lake.create_table("d.merged", content.schema, primary_keys=["id"], options=options)
    for start in (0, 100, 200, 300):
        table.upsert(content.slice(start, 250_000))
    with watched(proxy) as seen:
        found = table.scan(columns=["id", "c3"]).to_arrow()
    assert found.sort_by("id").to_pydict() == content.slice(0, 250_300).select(["id", "c3"]).to_pydict()
    opened: dict[str, Request] = {}
    for request in sorted(seen.requests, key=lambda request: request.started):
        opened.setdefault(request.path, request)
    assert len(opened) == 4
    assert SeenRequests(list(opened.values())).rounds == 1
    assert seen.rounds <= 4


def test_the_next_splits_are_opened_ahead(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    content = rows(8000)
    options = {"bucket": "8", "write-only": "true"}
    table = lake.create_table("d.split", content.schema, primary_keys=["id"], options=options)
    table.upsert(content)
    assert len(table.scan().plan.splits) == 8
    with watched(proxy) as seen:
        assert table.scan(threads=2).to_arrow().num_rows == content.num_rows
    assert len(seen.requests) == 8
    assert seen.rounds <= 4


def test_a_cold_lookup_requests_ends_then_keys_then_rows(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    content = rows(200_000)
    options = {"bucket": "1", "write-only": "true"}
    table = lake.create_table("d.keyed", content.schema, primary_keys=["id"], options=options)
    table.upsert(content)
    table.upsert(content.slice(50_000, 150_000))
    with watched(proxy) as seen:
        found = table.get(123_456)
    assert found == content.slice(123_456, 1).to_pylist()[0]
    assert max(rounds_by_file(seen).values()) == 3
    # Of each file its end, and a page of each column.
    assert len(seen.requests) <= 2 * (1 + 1 + 9)
    with watched(proxy) as seen:
        assert table.get(123_456) == found
    assert seen.requests == []


def test_a_cold_lookup_in_small_files_takes_one_request_for_each(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    content = rows(3000)
    options = {"bucket": "1", "write-only": "true"}
    table = lake.create_table("d.small", content.schema, primary_keys=["id"], options=options)
    for _ in range(3):
        table.upsert(content)
    with watched(proxy) as seen:
        assert table.get(1234) == content.slice(1234, 1).to_pylist()[0]
    assert (len(seen.requests), seen.rounds) == (3, 1)


def test_pages_that_a_filter_needs_are_requested_together(
    wide: tuple[interbed.Table, pa.Table], proxy: StoreProxy
) -> None:
    table, content = wide
    with watched(proxy) as seen:
        found = table.scan(filter="id between 300000 and 300100").to_arrow()
    assert found.sort_by("id").equals(content.slice(300_000, 101))
    assert seen.rounds <= 3
    assert seen.received_bytes < 3 << 20


def test_reading_a_few_rows_does_not_fetch_the_whole_file(lake: interbed.Catalog, proxy: StoreProxy) -> None:
    content = pa.concat_tables([rows(400_000), rows(400_000, start=400_000)])
    table = lake.create_table("d.head", content.schema, options={"bucket": "-1"})
    table.append(content)
    with watched(proxy) as seen:
        assert table.scan(limit=5).to_arrow().num_rows == 5
    assert seen.received_bytes <= 20 << 20 < content.nbytes / 2


@pytest.mark.parametrize("ahead", ["0", "1 mb", "64 mb"])
def test_rows_are_the_same_for_any_amount_of_prefetching(
    wide: tuple[interbed.Table, pa.Table], proxy: StoreProxy, ahead: str
) -> None:
    table, content = wide
    other = interbed.load_catalog(
        "lake",
        **{**proxy.options, "warehouse": f"s3://{BUCKET}/wide", "store.read-ahead": ahead, "store.read-threads": "2"},
    )
    assert other.get_table("d.wide").scan(threads=1).to_arrow().sort_by("id").equals(content)
    assert table.count() == content.num_rows


def test_the_error_of_a_refused_prefetch_names_the_file(
    wide: tuple[interbed.Table, pa.Table], proxy: StoreProxy
) -> None:
    table, _ = wide

    size = size_of(table)

    def refused(request: Request) -> Fault | None:
        is_end = request.headers.get("range", "").endswith(f"-{size - 1}")
        return Fault(kind="answer", status=403) if of_data(request) and not is_end else None

    proxy.fault = refused
    with pytest.raises(StorageAccessError, match=r"d\.db/wide/bucket-0/data-.*do not allow it"):
        table.scan(columns=["c2"]).to_arrow()
    proxy.fault = None
    assert table.scan(columns=["c2"]).to_arrow().num_rows == 400_000


def test_an_abandoned_read_leaves_no_pending_request(wide: tuple[interbed.Table, pa.Table], proxy: StoreProxy) -> None:
    table, _ = wide
    begun = ended = 0

    def counted(request: Request) -> Fault | None:
        nonlocal begun
        begun += of_data(request)
        return None

    proxy.fault = counted
    with watched(proxy) as seen:
        reader = table.scan(columns=["c1", "c2", "c5"]).to_arrow_batch_reader()
        reader.read_next_batch()
        del reader
        ended = begun
    # The proxy records a request when it has ended.
    assert len(seen.requests) == ended
