"""Requests to an object store for the data files of an Iceberg table."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from interbed.iceberg.table import load_iceberg_table, store_properties
from tests.iceberg.python_tables import delete_by_position
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import Request, SeenRequests, StoreProxy

BUCKET = "lake"


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[dict[str, str], StoreProxy]]:
    """Options of the object store, and a proxy in front of it."""
    with running_s3(BUCKET) as options, StoreProxy.before(options) as found:
        yield options, found


def test_each_file_is_opened_by_one_request_and_several_files_concurrently(
    opened: tuple[dict[str, str], StoreProxy], tmp_path: Path
) -> None:
    options, proxy = opened
    properties = store_properties({**proxy.options, "store.read-threads": "8"})
    assert properties["store.read-threads"] == "8"
    catalog = SqlCatalog(
        "c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"s3://{BUCKET}/ice", **store_properties(options)
    )
    catalog.create_namespace("d")
    rows = pa.table({"id": np.arange(300_000), **{f"c{i}": np.random.default_rng(i).random(300_000) for i in range(4)}})
    table = catalog.create_table("d.t", rows.schema)
    table.append(rows)
    for start in range(0, 500, 100):
        table.append(rows.slice(start, 100))
    found = load_iceberg_table(table.metadata_location, properties)
    proxy.latency_seconds = 0.1
    with proxy.watched() as seen:
        got = found.scan(columns=["id", "c2"]).to_arrow()
    assert got.num_rows == 300_500
    data = SeenRequests([request for request in seen.requests if "/data/" in request.path])
    files: dict[str, list[Request]] = {}
    for request in data.requests:
        files.setdefault(request.path, []).append(request)
    assert len(files) == 6
    large = max(files.values(), key=len)
    first = min(large, key=lambda request: request.started)
    assert first.received_bytes == 128 << 10
    assert len(data.requests) - len(large) == 5
    assert data.rounds <= 5
    assert data.received_bytes < rows.nbytes / 2


@pytest.mark.long
def test_manifests_are_read_concurrently_and_deletes_together_with_their_data_file(
    opened: tuple[dict[str, str], StoreProxy], tmp_path: Path
) -> None:
    options, proxy = opened
    place = f"s3://{BUCKET}/changed"
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=place, **store_properties(options))
    catalog.create_namespace("d")
    rows = pa.table({"id": np.arange(100_000), "amount": np.random.default_rng(1).random(100_000)})
    table = catalog.create_table("d.t", rows.schema, properties={"format-version": "2"})
    table.append(rows)
    (data,) = [task.file.file_path for task in table.scan().plan_files()]
    for start in range(0, 120, 10):
        delete_by_position(table.refresh(), data, range(start, start + 10))
    found = load_iceberg_table(table.refresh().metadata_location, store_properties(proxy.options))
    proxy.latency_seconds = 0.1
    with proxy.watched() as seen:
        got = found.scan(columns=["id"]).to_arrow()
    assert got["id"].sort().to_pylist() == list(range(120, 100_000))
    metadata = SeenRequests([request for request in seen.requests if "/metadata/" in request.path])
    assert len(metadata.requests) == 14
    assert metadata.rounds == 2
    # Eight of the twelve files with deletes are read concurrently, each by one request, together with the data file.
    assert SeenRequests([request for request in seen.requests if "/data/" in request.path]).rounds <= 3
