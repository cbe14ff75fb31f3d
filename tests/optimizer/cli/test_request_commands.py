"""Commands that send requests to the scheduler: their records in the journal and their effects."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import interbed
from interbed.cli import main
from interbed.optimizer.flow.process import WorkKind
from interbed.optimizer.flow.tables import RequestKind
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.lake_at_work import make_orders, work


def ask(lake: Path, *arguments: str) -> str:
    place = ["-o", f"warehouse={lake}", "--db", f"sqlite:///{lake}.db"]
    done = CliRunner().invoke(main, ["optimizer", *arguments, *place])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Warehouse with a table of eight sorted runs."""
    with interbed.load_catalog(warehouse=tmp_path / "lake") as catalog:
        make_orders(catalog)
    return tmp_path / "lake"


def test_requests_without_a_scheduler_are_queued_and_reported_so(lake: Path) -> None:
    assert ask(lake, "pause", "shop.orders") == (
        "shop.orders is paused: nothing is begun for it. No scheduler runs; start one by "
        "`interbed optimizer run` for this to have an effect.\n"
    )
    assert json.loads(ask(lake, "now", "shop.orders", "--kind", "rescale", "--json")) == {
        "table": "shop.orders",
        "request": "now",
        "work": "rescale",
        "scheduler": {"holder": None, "until_millis": None, "is_running": False},
    }
    journal = SqlJournal(f"sqlite:///{lake}.db")
    assert [(r.table, r.kind, r.work) for r in journal.requests()] == [
        ("shop.orders", RequestKind.PAUSE, None),
        ("shop.orders", RequestKind.NOW, WorkKind.RESCALE),
    ]
    journal.close()


def test_a_paused_table_gets_only_requested_work_until_it_is_resumed(lake: Path) -> None:
    journal = SqlJournal.open(f"sqlite:///{lake}.db")
    with interbed.load_catalog(warehouse=lake) as catalog:
        ask(lake, "pause", "shop.orders")
        work(catalog, journal)
        assert journal.processes() == []
        assert "paused" in ask(lake, "status")
        assert "The scheduler the test takes this within seconds." in ask(
            lake, "now", "shop.orders", "--kind", "analyze"
        )
        work(catalog, journal)
        assert [p.kind for p in journal.processes()] == [WorkKind.ANALYZE]
        ask(lake, "resume", "shop.orders")
        work(catalog, journal)
        assert {p.kind for p in journal.processes()} >= {WorkKind.ANALYZE, WorkKind.MINOR}
    journal.close()
