"""A small lake of tables that need compaction, and an optimizer in the process of the test."""

import itertools
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.optimizer.flow.process import TaskOutcome
from interbed.optimizer.flow.tables import ResourceGroup, TableWatch
from interbed.optimizer.journal.api import Journal
from interbed.optimizer.scheduling.engine import Engine
from interbed.optimizer.scheduling.needs import SchedulerSettings
from interbed.optimizer.scheduling.scheduler import Scheduler
from interbed.optimizer.watch import FilesWatch, SnapshotSweep
from interbed.optimizer.work.lake_tables import LakeTables, carry_out
from interbed.storage.base.clock import now_millis
from interbed.storage.base.errors import InterbedError

_FIELDS: "list[pa.Field[Any]]" = [pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())]
SCHEMA = pa.schema(_FIELDS)
HOLDER = "the test"
LEASE_MILLIS = 600_000


def rows(begin: int) -> pa.Table:
    """Return a hundred rows with keys from `begin`."""
    return pa.table({"id": range(begin, begin + 100), "v": ["x"] * 100}, schema=SCHEMA)


def make_orders(catalog: Catalog, name: str = "shop.orders", commits: int = 8) -> None:
    """Create a table with a primary key and one sorted run for each commit, none of them compacted."""
    if not catalog.database_exists("shop"):
        catalog.create_database("shop")
    options = {"bucket": "1", "write-only": "true"}
    table = catalog.create_table(name, SCHEMA, primary_keys=["id"], options=options)
    for number in range(commits):
        table.upsert(rows(number * 10))


def work(
    catalog: Catalog,
    journal: Journal,
    *,
    tasks: int = 1_000,
    clock: Callable[[], int] = now_millis,
    ends: bool = False,
    watch: Callable[[SnapshotSweep], TableWatch] | None = None,
) -> None:
    """Schedule and carry out tasks until no work is left, at most the given number. With `ends`, release the lease
    afterwards. `watch` makes the table watch, by default the catalog's own.
    """
    lease = journal.acquire(HOLDER, clock(), clock() + LEASE_MILLIS)
    assert lease is not None
    sweep = SnapshotSweep(clock)
    scheduler = Scheduler(
        journal,
        lease,
        {"default": ResourceGroup()},
        SchedulerSettings(lease=LEASE_MILLIS),
        clock=clock,
        new_id=lambda: str(uuid.uuid4()),
    )
    watched = FilesWatch(catalog, sweep, clock) if watch is None else watch(sweep)
    engine = Engine(scheduler, LakeTables(catalog, sweep.remember), watched, clock=clock)
    worker = scheduler.register("default", 1, 1 << 20, "here")
    left = itertools.repeat(None, tasks)
    while engine.step() or scheduler.processes():
        for assignment in scheduler.poll(worker.id, 1):
            if next(left, left) is left:
                return
            try:
                outcome = carry_out(catalog, assignment)
            except InterbedError as error:
                outcome = TaskOutcome(failure=str(error))
            scheduler.complete(assignment.ref, outcome)
    if ends:
        journal.release(scheduler.lease)
