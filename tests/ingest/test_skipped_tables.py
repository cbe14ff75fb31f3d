"""Tables that one run skips and a later run reads again: no change in between is lost silently.

How a replication slot of PostgreSQL takes it is in sources/postgres/test_source_changes.py.
"""

from pathlib import Path

import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.tables.source_tables import TableNames
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.memory_source import MemorySource
from tests.ingest.shop import event, job, lake, rows_of


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return lake(tmp_path)


BOTH = [event("c", None, {"id": 1}), event("c", None, {"id": 1}, table="items")]


def test_a_table_that_a_run_skipped_misses_no_change(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource({"t": [list(BOTH)]})
    job(catalog, source).run()
    source.topics["t"][0] += [event("c", None, {"id": 2}, table=table) for table in ("orders", "items")]
    job(catalog, source, names=TableNames(database="shop", excluding="items")).run()
    assert "shop.items gets no changes: this run skips its source table public.items" in caplog.text
    assert [rows_of(catalog, f"shop.{name}") for name in ("orders", "items")] == [[{"id": 1}, {"id": 2}], [{"id": 1}]]
    source.topics["t"][0] += [event("c", None, {"id": 3}, table=table) for table in ("orders", "items")]
    job(catalog, source).run()
    for name in ("orders", "items"):
        assert rows_of(catalog, f"shop.{name}") == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_run_that_skips_one_source_of_a_table_is_refused_unless_accepted(catalog: Catalog) -> None:
    source = MemorySource({"t": [[event("c", None, {"id": 1}), event("c", None, {"id": 2}, table="items")]]})
    job(catalog, source, names=TableNames(table="shop.all")).run()
    source.topics["t"][0] += [event("c", None, {"id": 3}), event("c", None, {"id": 4}, table="items")]
    names = TableNames(table="shop.all", excluding="items")
    with pytest.raises(
        InvalidInputError, match=r"shop\.all has rows of .*public\.items.*--accept-changed-source shop\.all"
    ):
        job(catalog, source, names=names).run()
    assert rows_of(catalog, "shop.all") == [{"id": 1}, {"id": 2}]
    job(catalog, source, names=names, accept_changed_source=frozenset({"shop.all"})).run()
    source.topics["t"][0] += [event("c", None, {"id": 5})]
    job(catalog, source, names=names).run()
    assert rows_of(catalog, "shop.all") == [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 5}]
