"""`sys.optimizing_processes` in Python: present in every catalog, filled by the scheduler."""

from pathlib import Path

import interbed
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.lake_at_work import make_orders, work


def test_past_processes_are_rows_of_a_system_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/journal.db"
    with interbed.load_catalog(warehouse=tmp_path / "lake", **{"optimizer.db": url}) as catalog:
        make_orders(catalog)
        assert catalog.get_table("sys.optimizing_processes").scan().to_arrow().num_rows == 0
        assert not (tmp_path / "journal.db").exists()
        journal = SqlJournal.open(url)
        work(catalog, journal)
        journal.close()
        columns = ["database_name", "table_name", "kind", "state", "reason", "read_amplification_after"]
        shown = catalog.get_table("sys.optimizing_processes").scan(columns, filter="seconds >= 0").to_arrow()
        assert [tuple(row.values()) for row in shown.to_pylist()] == [
            ("shop", "orders", "minor", "succeeded", "8 sorted runs > 5", 1.0)
        ]
