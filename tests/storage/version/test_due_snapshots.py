"""The number of snapshots that are due equals the number that expiry deletes, without reading all of them."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import interbed
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.table.table import Table
from interbed.storage.version.expire import SnapshotExpiry

COMMITS = 14


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path_factory.mktemp("lake")))
    catalog.create_database("d")
    made = catalog.create_table("d.t", pa.schema([("id", pa.int64())]), options={"snapshot.num-retained.min": "100"})
    for i in range(COMMITS):
        made.append(pa.table({"id": [i]}))
    return made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    least=st.integers(1, COMMITS + 2),
    more=st.integers(0, COMMITS),
    after=st.integers(0, COMMITS - 1),
    shift=st.sampled_from([-1, 0, 1]),
    consumed=st.none() | st.integers(1, COMMITS + 1),
)
def test_due_snapshots_are_those_that_an_expiry_would_delete(
    table: Table, least: int, more: int, after: int, shift: int, consumed: int | None
) -> None:
    options = {
        "snapshot.num-retained.min": str(least),
        "snapshot.num-retained.max": str(least + more),
        "snapshot.time-retained": "1 h",
        "snapshot.expire.limit": "1000",
    }
    store = table.copy(options).store
    at = table.snapshots()[after].time_millis + 3_600_000 + shift
    consumers = ConsumerManager(store.file_io, store.paths)
    consumers.clear()
    if consumed is not None:
        consumers.reset("reader", consumed)
    expiry = SnapshotExpiry(store, dry_run=True, clock=lambda: at / 1000)
    assert expiry.due() == len(expiry.run().snapshots)


def test_a_table_without_snapshots_has_none_that_are_due(tmp_path: Path) -> None:
    catalog = interbed.load_catalog("lake", warehouse=str(tmp_path))
    catalog.create_database("d")
    assert SnapshotExpiry(catalog.create_table("d.t", pa.schema([("id", pa.int64())])).store).due() == 0
