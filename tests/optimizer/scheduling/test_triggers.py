"""Reported triggers of each kind of work agree with the decisions of the rules."""

from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.process import WorkKind
from interbed.optimizer.flow.tables import TableState
from interbed.optimizer.scheduling.needs import SchedulerSettings, answers_of, needs_of, trigger_text
from interbed.optimizer.work.lake_tables import LakeTables
from tests.optimizer.lake_at_work import SCHEMA, make_orders, rows

NOW = 2_000_000_000_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Catalog with a keyed table of eight sorted runs, and an append table of two files."""
    opened = interbed.load_catalog(warehouse=tmp_path / "lake")
    make_orders(opened)
    log = opened.create_table("shop.log", SCHEMA, options={"self-optimizing.full.trigger.interval": "1 d"})
    for number in range(2):
        log.append(rows(number))
    return opened


def test_figures_of_triggers_are_those_of_the_table(catalog: Catalog) -> None:
    settings = SchedulerSettings(orphans_interval=None)
    found = LakeTables(catalog).measure("shop.orders")
    assert {kind.value: trigger_text(kind, found, settings) for kind in WorkKind} == {
        "minor": "8 sorted runs, due above 5; 8 files of level 0, due from 12, for fewer every 3600 s",
        "major": "0% deleted in the worst bucket, due from 10%",
        "full": "self-optimizing.full.trigger.interval is not set",
        "expire": "0 of 8 snapshots have expired; at most every 600 s",
        "orphans": "never looked for",
        "manifests": f"{found.health.manifests} manifests, 0 more than commits should leave",
        "analyze": "ANALYZE never ran",
        "rescale": "when it is asked for",
    }
    log = LakeTables(catalog).measure("shop.log")
    assert trigger_text(WorkKind.MINOR, log, settings) == "2 small files, due from 12, for fewer every 3600 s"
    assert trigger_text(WorkKind.FULL, log, settings) == "due every 86400 s"


@pytest.mark.parametrize("name", ["shop.orders", "shop.log"])
def test_a_decision_combines_the_answers_for_each_kind(catalog: Catalog, name: str) -> None:
    found, settings = LakeTables(catalog).measure(name), SchedulerSettings()
    answers = answers_of(TableState(name=name), found, settings, NOW)
    decision = needs_of(TableState(name=name), found, settings, NOW)
    assert {need.kind for need in decision.needs} <= {answer.kind for answer in answers if answer.need is not None}
    assert decision.next_check_millis == min(a.next_check_millis for a in answers if a.next_check_millis is not None)


def test_completed_work_is_not_due_until_the_next_write(catalog: Catalog) -> None:
    found = LakeTables(catalog).measure("shop.orders")
    newest = found.health.snapshot_id
    assert newest is not None
    state = TableState(name="shop.orders", settled={WorkKind.MINOR: newest})
    answers = {a.kind: a for a in answers_of(state, found, SchedulerSettings(), NOW)}
    assert answers[WorkKind.MINOR].need is None
    assert answers[WorkKind.MINOR].is_settled
    assert not answers[WorkKind.MAJOR].is_settled
