"""What a store is asked for the data files of an Iceberg table that lies in it."""

import io
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from interbed.iceberg.commit.home import CatalogHome
from interbed.iceberg.commit.new_file import NewFile
from interbed.iceberg.commit.replace import commit_replacement
from interbed.iceberg.commit.replacement import Replacement
from interbed.iceberg.meta.live_file import Content
from interbed.iceberg.opening import load_iceberg_table, store_properties
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import Request, Seen, StoreProxy

BUCKET = "lake"


def _delete_rows(table: Table, data: str, positions: Sequence[int]) -> None:
    """Commit a file of position deletes of a data file."""
    path = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    columns = [("file_path", pa.string(), 2147483546), ("pos", pa.int64(), 2147483545)]
    fields = [pa.field(name, kind, False, {"PARQUET:field_id": str(number)}) for name, kind, number in columns]
    rows = pa.table([[data] * len(positions), list(positions)], schema=pa.schema(fields))
    content = io.BytesIO()
    pq.write_table(rows, content)
    with table.io.new_output(path).create() as sink:
        sink.write(content.getvalue())
    snapshot = table.current_snapshot()
    assert snapshot is not None
    new = NewFile(
        path=path,
        content=Content.POSITION_DELETES,
        file_format="parquet",
        spec_id=0,
        partition=(),
        records=len(positions),
        size=len(content.getvalue()),
        referenced=data,
    )
    added = Replacement(snapshot_id=snapshot.snapshot_id, rewritten=(), converted=(), added=(new,), known=frozenset())
    assert commit_replacement(CatalogHome(table), added, {}) is not None


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[dict[str, str], StoreProxy]]:
    """The store's own options, and a proxy before it."""
    with running_s3(BUCKET) as options, StoreProxy.before(options) as found:
        yield options, found


def test_each_file_is_opened_by_one_request_and_several_are_at_once(
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
    data = Seen([request for request in seen.requests if "/data/" in request.path])
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


def test_manifests_come_at_once_and_so_do_deletes_with_the_file_that_they_are_of(
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
        _delete_rows(table.refresh(), data, range(start, start + 10))
    found = load_iceberg_table(table.refresh().metadata_location, store_properties(proxy.options))
    proxy.latency_seconds = 0.1
    with proxy.watched() as seen:
        got = found.scan(columns=["id"]).to_arrow()
    assert got["id"].sort().to_pylist() == list(range(120, 100_000))
    metadata = Seen([request for request in seen.requests if "/metadata/" in request.path])
    assert len(metadata.requests) == 14
    assert metadata.rounds == 2
    # Eight of the twelve files with deletes are read at once, each by one request, while the data file comes.
    assert Seen([request for request in seen.requests if "/data/" in request.path]).rounds <= 3
