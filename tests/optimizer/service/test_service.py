"""The service: when it schedules, how it recovers from a failing journal, and the messages of its state."""

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.cli.long_run import served_metrics
from interbed.catalog.client.factory import open_catalog
from interbed.optimizer.flow.process import JournalError, Process
from interbed.optimizer.flow.tables import ResourceGroup, TableState, Worker
from interbed.optimizer.journal.api import Journal, JournalChanges, Lease, MemoryJournal
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.service.local_workers import FixedGroups, GroupsFile
from interbed.optimizer.service.metrics import OptimizerMetrics
from interbed.optimizer.service.port import CatalogForWorkers, SchedulerCalls, WorkerPort
from interbed.optimizer.service.scheduler_client import SchedulerClient
from interbed.optimizer.service.service import Leadership, OptimizerService, RemainingWork, ServiceSettings
from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings
from interbed.optimizer.work.lake_tables import memory_options
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.options.core import CoreOptions
from tests.optimizer.service import lake
from tests.optimizer.service.processes import until
from tests.support.waits import at_most

pytestmark = pytest.mark.integration

GROUPS = {"default": ResourceGroup()}
TIMES = ServiceSettings(interval=20, look=20, scheduler=SchedulerSettings(lease=60_000, pause_first=100))


class FailingJournal(MemoryJournal):
    """A journal that is unreachable for a number of changes."""

    fails = 0

    def store(self, lease: Lease, changes: JournalChanges) -> None:
        if self.fails:
            self.fails -= 1
            raise JournalError("the database is gone")
        super().store(lease, changes)


@dataclass
class RunningService:
    """A service that runs in a thread."""

    service: OptimizerService
    leadership: Leadership
    ended: list[Process]
    left: Mapping[str, str] | None = None


@contextmanager
def serving(
    catalog: Catalog, journal: Journal, name: str, *, until_idle: bool = False, works: bool = True
) -> Iterator[RunningService]:
    """Run a service, with a worker in another thread."""
    leadership, ended = Leadership(), list[Process]()
    metrics = OptimizerMetrics(leadership)

    def on_ended(process: Process) -> None:
        metrics.ended(process)
        ended.append(process)

    times = ServiceSettings(interval=20, look=20, until_idle=until_idle, scheduler=TIMES.scheduler)
    service = OptimizerService(
        catalog, journal, FixedGroups(GROUPS), leadership, times, holder=name, clock=now_millis, on_ended=on_ended
    )
    running = RunningService(service, leadership, ended)

    def run() -> None:
        running.left = service.run()

    calls = SchedulerCalls(leadership, CatalogForWorkers.of("lake", catalog.options.raw), 60_000)
    with closing(WorkerPort("127.0.0.1", 0, calls)) as port, closing(SchedulerClient(port.uri)) as client:
        worker = OptimizerWorker(
            client, lambda n, o: open_catalog(n, o), WorkerSettings(place="here:1", drain_seconds=2)
        )
        threads = [threading.Thread(target=run, name=name)]
        if works:
            threads.append(threading.Thread(target=worker.run, name="worker"))
        for thread in threads:
            thread.start()
        try:
            yield running
        finally:
            worker.stop()
            service.stop()
            for thread in reversed(threads):
                thread.join(at_most(30))
                assert not thread.is_alive()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with open_catalog("lake", {"warehouse": str(tmp_path)}) as opened:
        lake.make_tables(opened)
        for number in range(8):
            lake.write_round(opened, number)
        yield opened


def test_the_standby_takes_over_when_the_scheduler_ends(catalog: Catalog) -> None:
    journal = MemoryJournal()
    with serving(catalog, journal, "second", works=False) as second, serving(catalog, journal, "first") as first:
        until(lambda: first.leadership.is_on or second.leadership.is_on, "one schedules")
        on, off = (first, second) if first.leadership.is_on else (second, first)
        assert not off.leadership.is_on
        on.service.stop()
        until(lambda: off.leadership.is_on, "the other one schedules, long before the lease has ended")
        assert not on.leadership.is_on


def test_the_service_resumes_after_failures_of_its_journal(catalog: Catalog) -> None:
    journal = FailingJournal()
    with serving(catalog, journal, "me") as running:
        until(lambda: running.leadership.is_on, "it schedules")
        journal.fails = 3
        until(lambda: journal.fails == 0, "the journal has failed three times")
        until(lambda: lake.is_in_shape(catalog), "the tables are in shape")
    lake.check_rows(catalog, 8)


def test_a_run_until_idle_ends_when_all_tables_are_in_shape(catalog: Catalog) -> None:
    with serving(catalog, MemoryJournal(), "me", until_idle=True) as running:
        until(lambda: running.left is not None, "the run has ended")
        lake.check_shape(catalog)
        lake.check_rows(catalog, 8)
    assert running.left == {}


def test_dropped_tables_that_have_expired_are_purged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_catalog("lake", {"warehouse": str(tmp_path), "undrop-seconds": "1"}) as catalog:
        lake.make_tables(catalog)
        catalog.drop_table("shop.visits")
        [entry] = catalog.list_dropped()
        note = Path(entry.present_location).parent / "note"
        assert note.exists()
        note.write_text(json.dumps({**json.loads(note.read_text()), "expires_at": entry.dropped_at}))
    # No client has the option any more.
    with (
        caplog.at_level(logging.INFO, "interbed.optimizer"),
        open_catalog("lake", {"warehouse": str(tmp_path)}) as catalog,
        serving(catalog, MemoryJournal(), "me"),
    ):
        until(lambda: not Path(entry.present_location).exists(), "the files are deleted")
        until(lambda: "Purged 1 dropped tables" in caplog.text, "it is logged")
        assert catalog.list_dropped() == []


def test_metrics_report_tables_and_processes(catalog: Catalog) -> None:
    leadership = Leadership()
    metrics = OptimizerMetrics(leadership)
    with served_metrics(metrics, "127.0.0.1", 0) as port:
        page = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=at_most(20)).read().decode()
        assert "interbed_optimizer_schedules 0.0" in page
        with serving(catalog, MemoryJournal(), "me") as running:
            # A table may be compacted twice before another one is compacted at all.
            until(
                lambda: {p.table for p in running.ended if p.figures.bytes_in} >= set(lake.TABLES), "all were compacted"
            )
            for process in running.ended:
                metrics.ended(process)
            with served_metrics(OptimizerMetrics(running.leadership), "127.0.0.1", 0) as other:
                here = urlopen(f"http://127.0.0.1:{other}/metrics", timeout=at_most(20)).read().decode()
        page = urlopen(f"http://127.0.0.1:{port}/metrics", timeout=at_most(20)).read().decode()
    assert "interbed_optimizer_schedules 1.0" in here
    assert 'interbed_optimizer_workers{group="default"} 1.0' in here
    assert 'interbed_optimizer_tables{group="default",score="' in here
    assert 'interbed_optimizer_tasks{group="default",state="waiting"} ' in here
    assert 'interbed_optimizer_pending_bytes{group="default"} ' in here
    assert 'interbed_optimizer_processes_total{group="default",kind="minor",state="succeeded"} ' in page
    assert 'interbed_optimizer_work_seconds_total{group="default",table="shop.orders"} ' in page
    assert 'interbed_optimizer_read_bytes_total{group="default"} ' in page
    assert 'interbed_optimizer_failures_total{group="default"}' not in page


def test_a_bad_group_file_leaves_the_groups_unchanged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "groups.toml"
    path.write_text("[default]\nworkers = 3\n")
    groups = GroupsFile(path)
    assert groups.current()["default"].workers == 3
    path.write_text("[default]\nworkers = 3000000000 apples\n")
    assert groups.current()["default"].workers == 3
    assert str(path) in caplog.text
    path.unlink()
    assert groups.current()["default"].workers == 3
    path.write_text("[default]\nworkers = 4\n")
    assert groups.current()["default"].workers == 4
    path.unlink()
    with pytest.raises(InvalidInputError, match=r"groups\.toml"):
        GroupsFile(path)


@pytest.mark.long
def test_work_that_is_not_waited_for_is_named() -> None:
    now = 1_000_000
    need = TableState.from_json(
        {
            **TableState(name="a").to_json(),
            "needs": [{"kind": "minor", "reason": "", "due_millis": 0, "options": {}}],
        }
    )

    def state(name: str, **more: object) -> TableState:
        return replace(need, name=name, **more)  # type: ignore[arg-type]

    worker = Worker(id="w", group="far", threads=1, memory=1, place="", since_millis=0, lease_until_millis=now)
    groups = {"default": ResourceGroup(), "far": ResourceGroup(name="far", workers=0), "none": ResourceGroup(workers=0)}
    found = RemainingWork.of(
        [
            state("waits"),
            state("far", group="far"),
            state("gave_way", not_before_millis=now + 2_000, failures=1),
            state("failed", not_before_millis=now + 60_000, failures=3),
            state("unserved", group="none"),
            state("stray", group="nowhere"),
            state("bad", unreadable="the schema is no JSON"),
            state("paused", paused=True),
            state("fine", needs=()),
        ],
        groups,
        [worker],
        now,
    )
    assert found.waiting == ("waits", "far", "gave_way")
    assert found.left == {
        "failed": "waits after 3 failure(s) in a row",
        "unserved": "is of group 'none', which has no workers",
        "stray": "is of group 'nowhere', which does not exist",
        "bad": "can't be read: the schema is no JSON",
    }


def test_memory_is_bounded_by_the_share_and_by_the_option_of_the_table() -> None:
    assert memory_options(64 << 20, CoreOptions({})) == {
        "write-buffer-size": f"{32 << 20} b",
        "lookup.cache-max-memory-size": f"{16 << 20} b",
    }
    assert memory_options(4 << 30, CoreOptions({"write-buffer-size": "8 mb"})) == {
        "write-buffer-size": f"{8 << 20} b",
        "lookup.cache-max-memory-size": f"{256 << 20} b",
    }
    assert memory_options(1, CoreOptions({}))["write-buffer-size"] == f"{1 << 20} b"
