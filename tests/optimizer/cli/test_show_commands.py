"""Commands that show the state of the optimizer: their output for people and for programs."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import interbed
from interbed.catalog.client.api import Catalog
from interbed.cli import main
from interbed.optimizer.journal.sql import SqlJournal
from tests.optimizer.lake_at_work import make_orders, rows, work

Run = Callable[..., Result]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """Catalog with a table of eight sorted runs."""
    with interbed.load_catalog(warehouse=tmp_path / "lake") as opened:
        make_orders(opened)
        yield opened


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqlJournal]:
    """Empty journal with its tables created."""
    made = SqlJournal.open(f"sqlite:///{tmp_path}/journal.db")
    yield made
    made.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs `interbed optimizer …` on the lake and the journal."""

    def run(*arguments: str) -> Result:
        place = ["-o", f"warehouse={tmp_path}/lake", "--db", f"sqlite:///{tmp_path}/journal.db"]
        return CliRunner().invoke(main, ["optimizer", *arguments, *place])

    return run


def text_output(run: Run, *arguments: str) -> str:
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


def json_output(run: Run, *arguments: str) -> Any:
    return json.loads(text_output(run, *arguments, "--json"))


def test_status_shows_the_scheduler_and_the_worst_table_first(catalog: Catalog, journal: SqlJournal, run: Run) -> None:
    make_orders(catalog, "shop.good", commits=1)
    work(catalog, journal)
    for number in range(8):
        catalog.get_table("shop.orders").upsert(rows(number))
    work(catalog, journal, tasks=0)
    text = text_output(run, "status")
    assert re.search(r"scheduler +the test schedules; its lease ends in \d+ s", text)
    assert re.search(r"tables +2; score [\d.]+ on average; 1 running, 0 waiting, 0 failing; [\d.]+ KiB pending", text)
    assert text.index("shop.orders") < text.index("shop.good")
    found = json_output(run, "status")
    assert found["scheduler"]["is_running"]
    assert [(t["table"], t["doing"]) for t in found["tables"]] == [
        ("shop.orders", "running minor"),
        ("shop.good", "in shape"),
    ]
    assert found["tables"][0]["running"]["reason"] == "9 sorted runs > 5"
    assert [t["table"] for t in json_output(run, "status", "shop.good")["tables"]] == ["shop.good"]
    limited = json_output(run, "status", "--limit", "1")
    assert (len(limited["tables"]), limited["table_count"]) == (1, 2)
    assert "the worst 1 of 2 tables are shown" in text_output(run, "status", "--limit", "1")


def test_scores_are_coloured_on_a_terminal(
    catalog: Catalog, journal: SqlJournal, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(catalog, journal, tasks=0)
    plain = text_output(run, "status")
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    assert re.search(r"\x1b\[3[13]m *\d+", text_output(run, "status"))


def test_status_before_the_first_scheduler_creates_no_journal(tmp_path: Path, catalog: Catalog, run: Run) -> None:
    assert "no scheduler has ever run; start one by `interbed optimizer run`" in text_output(run, "status")
    assert "shop.orders: no scheduler has seen it yet" in text_output(run, "status", "shop.orders")
    assert json_output(run, "history") == json_output(run, "groups") == json_output(run, "workers") == []
    assert not (tmp_path / "journal.db").exists()


def test_an_unknown_table_is_refused_with_a_similar_name(catalog: Catalog, run: Run) -> None:
    for command in ("status", "why", "plan", "history", "pause", "resume", "now"):
        refused = run(command, "shop.order")
        assert refused.exit_code == 1
        assert "Did you mean 'shop.orders'?" in refused.output, command


def test_why_shows_reasons_kinds_and_obstacles(catalog: Catalog, run: Run) -> None:
    text = text_output(run, "why", "shop.orders")
    assert re.search(r"-\d+ read amplification: a read merges [\d.]+ sorted runs on average", text)
    assert "minor: 8 sorted runs > 5" in text
    assert "no scheduler has ever run" in text
    assert "no scheduler has seen the table yet" in text
    found = json_output(run, "why", "shop.orders")
    kinds = {kind["kind"]: kind for kind in found["kinds"]}
    assert list(kinds) == ["minor", "major", "full", "expire", "orphans", "manifests", "analyze", "rescale"]
    assert kinds["minor"]["verdict"] == "due"
    assert kinds["full"]["trigger"] == "self-optimizing.full.trigger.interval is not set"
    assert kinds["orphans"]["next_millis"] > 0
    assert kinds["rescale"]["verdict"] == "not due"
    assert found["wishes"]["minor_file_count"] == 12


def test_why_shows_past_work_and_the_options_of_the_table(catalog: Catalog, journal: SqlJournal, run: Run) -> None:
    catalog.create_table("shop.mine", rows(0).schema, options={"self-optimizing.enabled": "false"}).append(rows(0))
    work(catalog, journal)
    assert [p["state"] for p in json_output(run, "why", "shop.orders")["processes"]] == ["succeeded"]
    assert json_output(run, "why", "shop.orders")["obstacles"] == []
    assert "the table's option self-optimizing.enabled is false" in text_output(run, "why", "shop.mine")
    assert "enabled = false" in text_output(run, "why", "shop.mine")


def test_plan_shows_the_tasks_and_changes_nothing(tmp_path: Path, catalog: Catalog, run: Run) -> None:
    before = sorted(tmp_path.rglob("*"))
    [process] = json_output(run, "plan", "shop.orders")
    assert (process["kind"], process["reason"]) == ("minor", "8 sorted runs > 5")
    assert [(task["bucket"], task["files"]) for task in process["tasks"]] == [(0, 8)]
    assert process["bytes"] == process["tasks"][0]["bytes"] > 0
    [full] = json_output(run, "plan", "shop.orders", "--kind", "full")
    assert (full["kind"], full["reason"], full["has_work"]) == ("full", "asked for", True)
    assert "there is nothing to do" in text_output(run, "plan", "shop.orders", "--kind", "major")
    assert re.search(
        r"minor: 8 sorted runs > 5, .*1 task\(s\) read [\d.]+ KiB", text_output(run, "plan", "shop.orders")
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_history_shows_the_effects_of_processes(catalog: Catalog, journal: SqlJournal, run: Run) -> None:
    work(catalog, journal)
    [process] = json_output(run, "history", "shop.orders")
    assert process["before"]["score"] < process["after"]["score"]
    assert process["before"]["read_amplification"] > process["after"]["read_amplification"] == 1.0
    assert process["bytes_in"] > process["bytes_out"] > 0
    text = text_output(run, "history")
    assert re.search(r"shop\.orders │ minor │ succeeded │ +\d+ → \d+ │ +[\d.]+ → 1\.0 │", text)
    catalog.drop_table("shop.orders")
    assert len(json_output(run, "history", "shop.orders")) == 1, "what was done for a table that is gone"


def test_groups_and_workers_are_those_of_the_scheduler(catalog: Catalog, journal: SqlJournal, run: Run) -> None:
    work(catalog, journal)
    [group] = json_output(run, "groups")
    assert (group["name"], group["policy"], group["workers_alive"], group["tables"]) == ("default", "quota", 1, 1)
    [worker] = json_output(run, "workers")
    assert (worker["place"], worker["threads"]) == ("here", 1)
    assert "quota" in text_output(run, "groups")
    assert "here" in text_output(run, "workers")
    work(catalog, journal, ends=True)
    assert json_output(run, "workers") == []
    assert "no scheduler runs; the last one was the test" in text_output(run, "status")


def test_the_catalog_or_an_environment_variable_names_the_journal(
    tmp_path: Path, catalog: Catalog, journal: SqlJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(catalog, journal)
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/state")
    url = f"sqlite:///{tmp_path}/journal.db"

    def processes(*options: str) -> int:
        done = CliRunner().invoke(
            main, ["optimizer", "history", "-o", f"warehouse={tmp_path}/lake", "--json", *options]
        )
        return len(json.loads(done.output))

    assert processes() == 0
    assert processes("-o", f"optimizer.db={url}") == 1
    monkeypatch.setenv("INTERBED_OPTIMIZER_DB", url)
    assert processes() == 1
    # Without either, the journal is in the user's state directory. Its name follows from the warehouse, however its
    # path is written.
    monkeypatch.delenv("INTERBED_OPTIMIZER_DB")
    asked = ["optimizer", "pause", "shop.orders", "-o", f"warehouse=file:{tmp_path}/lake/"]
    assert CliRunner().invoke(main, asked).exit_code == 0
    [file] = (tmp_path / "state" / "interbed" / "optimizer").iterdir()
    assert len(SqlJournal(f"sqlite:///{file}").requests()) == 1


def test_an_invalid_database_url_is_named(catalog: Catalog, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["optimizer", "status", "-o", f"warehouse={tmp_path}/lake", "--db", "nowhere"])
    assert done.exit_code == 1
    assert "nowhere" in done.output
