"""A campaign: constant writes to tables of many kinds while the processes of the optimizer are killed and stopped.

In the end the rows must be exact, each bucket within its bounds, and nothing left behind: no mark, no file without a
reference, no lease, no lock, no process.

    python -m tests.optimizer.service.campaign --minutes 10 --seed 1 --catalog metastore
"""

import argparse
import json
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.factory import open_catalog
from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.server.process.command import stop_server
from interbed.optimizer.flow.process import CleanupMode, Process, ProcessState
from interbed.optimizer.flow.tables import RequestKind, TableRequest
from interbed.storage.base.clock import now_millis
from interbed.storage.table.table import Table
from interbed.storage.upkeep.health import table_health
from tests.optimizer.service import lake
from tests.optimizer.service.campaign_processes import Fault, OptimizerProcesses
from tests.optimizer.service.campaign_tables import KINDS, Rows, TableKind, Writer, difference
from tests.optimizer.service.processes import DEADLINE_SECONDS, until
from tests.support.servers.metastore import started_server

WRITERS = 2
WRITER_PAUSE_SECONDS = 0.05
"""Mean pause between two commits of a writer; it leaves processor time to the optimizer on a machine of two cores."""

LOCK_LEASE_SECONDS = 10
"""Lock timeout of the metastore for killed processes, in place of its five minutes."""

SHAPE_SECONDS = 300.0
"""Time limit until all tables are in shape after the last write."""

_MOST_PROCESSES = 1_000_000
_LOST = ("sent no heartbeat for", "has ended", "never planned", "The process of this task has ended without it")
"""Reasons of processes that fail because their workers are killed repeatedly."""


_CUT_OFF = re.compile(r"manifest/|statistics/|(snapshot|changelog)/\.[^/]*\.tmp$")
"""Files that a killed commit or expiry leaves to the removal of orphan files: manifests of snapshots that were never
committed, and temporary files.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSettings:
    """Length of a campaign: `faults` injected faults, or `seconds` when that is None."""

    seed: int = 1
    catalog: str = "files"
    tables: int = len(KINDS)
    seconds: float = 60.0
    faults: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignResult:
    """Outcome of a campaign. `commits` and `reads` are those of the writers, `rows` those of all tables in the end.
    Processes are those of the optimizer, by state, by kind, and by reason of failure; `in_doubt` counts those whose
    commit has an unknown outcome. `settling` are the seconds from the last commit of a writer until all tables were in
    shape. `orphans` are files left by killed commits and expiries and deleted by the removal of orphan files.
    """

    seconds: float
    settling: float
    tables: int
    commits: int
    reads: int
    rows: int
    faults: Mapping[str, int]
    states: Mapping[str, int]
    kinds: Mapping[str, int]
    reasons: Mapping[str, int]
    in_doubt: int
    snapshots: int
    orphans: int

    @property
    def kills(self) -> int:
        """The number of operating system processes that were killed."""
        return sum(count for fault, count in self.faults.items() if Fault(fault).is_kill)


def run(settings: CampaignSettings, directory: Path) -> CampaignResult:
    """Run a campaign; raise an AssertionError when a check fails. The directory is empty, and receives the tables, the
    journal and the logs.
    """
    kinds = KINDS[: settings.tables]
    began = time.monotonic()
    with _catalog_options(settings.catalog, directory) as options:
        writing = _CampaignWriters(options, kinds, settings.seed)
        _make_tables(options, kinds, writing.writers[0])
        with OptimizerProcesses(directory, options) as optimizers:
            with writing:
                faults = _inject_faults(settings, optimizers, writing)
            wrote = time.monotonic()
            _wait_until_done(optimizers, options, kinds)
            settled = time.monotonic()
            _pause(optimizers, kinds)
            optimizers.stop()
            processes = _check_ended(optimizers)
        with open_catalog("lake", options) as catalog:
            rows = _check_rows(catalog, kinds, writing.writers)
            todo = _due_work(catalog, kinds)
            assert not todo, todo
            orphans = _check_files(catalog, kinds, processes)
            assert _check_rows(catalog, kinds, writing.writers) == rows
            _check_locks(catalog)
            newest = [catalog.get_table(kind.name).latest_snapshot() for kind in kinds]
    return CampaignResult(
        seconds=round(time.monotonic() - began, 1),
        settling=round(settled - wrote, 1),
        tables=len(kinds),
        commits=sum(writer.commits.total() for writer in writing.writers),
        reads=sum(writer.reads for writer in writing.writers),
        rows=rows,
        faults={str(fault): count for fault, count in sorted(faults.items())},
        states=dict(sorted(Counter(str(process.state) for process in processes).items())),
        kinds=dict(sorted(Counter(str(process.kind) for process in processes).items())),
        reasons=dict(sorted(Counter(_reason(process) for process in processes if process.failure).items())),
        in_doubt=sum(process.cleanup is CleanupMode.LEAVE for process in processes),
        snapshots=sum(snapshot.id for snapshot in newest if snapshot is not None),
        orphans=orphans,
    )


def _make_tables(options: Mapping[str, str], kinds: Sequence[TableKind], writer: Writer) -> None:
    """Create the tables with their first rows."""
    with open_catalog("lake", options) as catalog:
        catalog.create_database("shop", True)
        for kind in kinds:
            kind.make(catalog)
            writer.write(catalog, kind)
            if kind.is_counted:
                catalog.get_table(kind.name).maintenance.analyze()


class _CampaignWriters:
    """Writers that run until the end of a `with` block, each in a thread with a catalog of its own."""

    def __init__(self, options: Mapping[str, str], kinds: Sequence[TableKind], seed: int) -> None:
        self.writers = [Writer(n, WRITERS, random.Random(f"{seed} {n}")) for n in range(WRITERS)]
        self._options = options
        self._kinds = kinds
        self._end = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._write, args=(writer,)) for writer in self.writers]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *error: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)
            assert not thread.is_alive(), "a writer does not end"
        if error[1] is None:
            self.check()

    def check(self) -> None:
        """Raise the error of a writer that has failed."""
        for error in self._errors:
            raise AssertionError(f"a writer failed: {type(error).__name__}: {error}") from error

    def _write(self, writer: Writer) -> None:
        try:
            with open_catalog("lake", self._options) as catalog:
                while not self._end.wait(writer.random.uniform(0, 2 * WRITER_PAUSE_SECONDS)):
                    writer.write(catalog, writer.random.choice(self._kinds))
        except Exception as error:  # noqa: BLE001 - the campaign raises it
            self._errors.append(error)


def _inject_faults(
    settings: CampaignSettings, optimizers: OptimizerProcesses, writing: _CampaignWriters
) -> Counter[Fault]:
    """Inject faults at random moments; return the number of each fault."""
    chance = random.Random(settings.seed)
    faults: Counter[Fault] = Counter()
    end = time.monotonic() + settings.seconds
    pause = threading.Event()
    while faults.total() < settings.faults if settings.faults is not None else time.monotonic() < end:
        if chance.random() < 0.5:
            optimizers.wait_for_processes(chance.randint(1, 12), seconds=5)
        else:
            pause.wait(chance.uniform(0.0, 2.5))
        fault = optimizers.inject_fault(chance)
        if fault is not None:
            faults[fault] += 1
        writing.check()
    return faults


def _wait_until_done(optimizers: OptimizerProcesses, options: Mapping[str, str], kinds: Sequence[TableKind]) -> None:
    """Wait until no table needs work, and no process runs."""
    with open_catalog("lake", options) as catalog, closing(optimizers.journal()) as journal:
        until(lambda: not _due_work(catalog, kinds) and not journal.running(), "no table needs anything", SHAPE_SECONDS)


def _pause(optimizers: OptimizerProcesses, kinds: Sequence[TableKind]) -> None:
    """Pause all tables and wait for the running processes. Otherwise work due at intervals may start although no table
    needs any, and a stopped scheduler leaves unassigned tasks to the next one.
    """
    with closing(optimizers.journal()) as journal:
        for kind in kinds:
            journal.ask(TableRequest(table=kind.name, kind=RequestKind.PAUSE))
        until(lambda: not journal.requests() and not journal.running(), "nothing runs", SHAPE_SECONDS)


def _due_work(catalog: Catalog, kinds: Sequence[TableKind]) -> dict[str, list[str]]:
    """Return the work that is still due, by table."""
    found = {}
    for kind in kinds:
        store = catalog.get_table(kind.name).store
        wanted = lake.out_of_shape(store)
        health = table_health(store)
        if health.snapshots_due:
            wanted.append(f"{health.snapshots_due} snapshots have expired")
        if health.manifests_due:
            wanted.append(f"{health.manifests_due} manifests too many")
        if wanted:
            found[kind.name] = wanted
    return found


def _check_rows(catalog: Catalog, kinds: Sequence[TableKind], writers: list[Writer]) -> int:
    """Check that the tables hold exactly the written rows; return the number of rows."""
    count = 0
    for kind in kinds:
        found = kind.rows(catalog.get_table(kind.name))
        difference(kind.name, found, sum((writer.expected(kind.name) for writer in writers), Rows()))
        count += found.total()
    return count


def _check_ended(optimizers: OptimizerProcesses) -> Sequence[Process]:
    """Check that all processes ended in order and failed only by injected faults; return the processes of the
    optimizer.
    """
    assert not optimizers.alive(), optimizers.alive()
    left = optimizers.left_on_disk()
    assert not left, f"on local disk there is still {left}"
    with closing(optimizers.journal()) as journal:
        holder = journal.holder()
        assert holder is not None
        assert holder.until_millis == 0, f"the lease was not given back: {holder}"
        assert not journal.running(), journal.running()
        assert not journal.workers(), journal.workers()
        processes = journal.processes(limit=_MOST_PROCESSES)
    for process in processes:
        why = process.failure or ""
        expected = process.state in (ProcessState.SUCCEEDED, ProcessState.GAVE_WAY)
        expected |= process.state is ProcessState.FAILED and any(lost in why for lost in _LOST)
        assert expected, f"{process.kind} of {process.table} {process.state}: {why}"
    logs = optimizers.logs()
    assert "Traceback" not in logs, logs[logs.index("Traceback") - 500 :][:4000]
    return processes


def _check_files(catalog: Catalog, kinds: Sequence[TableKind], processes: Sequence[Process]) -> int:
    """Check that the only files left are those of killed commits and expiries, and of processes with an unknown
    outcome, and that the removal of orphan files deletes these. Return their number.
    """
    doubtful = [process.id for process in processes if process.cleanup is CleanupMode.LEAVE]
    count = 0
    for kind in kinds:
        table = catalog.get_table(kind.name)
        orphans = lake.unreferenced_files(table.store)
        left = [path for path in orphans if not _CUT_OFF.match(path) and not any(each in path for each in doubtful)]
        assert not left, f"{kind.name}: {len(left)} files are left, as {sorted(left)[:5]}"
        _remove_orphans(table)
        left = sorted(lake.unreferenced_files(table.store))
        assert not left, f"{kind.name}: the removal of orphan files leaves {left[:5]}"
        count += len(orphans)
        checked = table.maintenance.fsck()
        assert not checked.findings, f"{kind.name}: {checked.findings}"
    return count


def _remove_orphans(table: Table) -> None:
    """Remove orphan files until there are none: files of the current millisecond are kept."""
    until(
        lambda: not table.maintenance.remove_orphan_files(older_than=now_millis() - 1).files, "orphan files are removed"
    )


def _check_locks(catalog: Catalog) -> None:
    """Check that a metastore has no lock left after the leases of killed processes have expired."""
    if isinstance(catalog, HiveCatalog):
        client = catalog.client
        until(lambda: not client.show_locks(), "no locks are left in the metastore", 3 * LOCK_LEASE_SECONDS)


def _reason(process: Process) -> str:
    """Return the reason of a failure without file names, so that equal reasons are counted together."""
    text = re.sub(r"\b(data|index|worker)[ -][0-9a-f-]{8}\S*", r"\1 …", process.failure or "")
    return f"{process.kind} {process.state}: {text[:120]}"


@contextmanager
def _catalog_options(catalog: str, directory: Path) -> Iterator[Mapping[str, str]]:
    """Yield the options of a catalog of that kind."""
    warehouse = directory / "lake"
    if catalog == "files":
        yield {"warehouse": str(warehouse)}
        return
    server = started_server(
        f"sqlite:///{directory / 'metastore.db'}",
        f"file:{warehouse}",
        "--lock-lease-seconds",
        str(LOCK_LEASE_SECONDS),
        log=directory / "metastore.txt",
    )
    try:
        yield {"metastore": "hive", "uri": server.uri}
    finally:
        stop_server(server)


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description="Write, kill, and see whether the tables are what they should be.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--catalog", choices=("files", "metastore"), default="files")
    parser.add_argument("--tables", type=int, default=len(KINDS))
    parser.add_argument(
        "--directory", type=Path, help="Where tables and logs stay; by default they are gone at the end."
    )
    parser.add_argument("--json", action="store_true", help="Print the result as a JSON object.")
    given = parser.parse_args()
    settings = CampaignSettings(seed=given.seed, catalog=given.catalog, tables=given.tables, seconds=60 * given.minutes)
    with tempfile.TemporaryDirectory(prefix="interbed-campaign-") as temporary:
        directory: Path = given.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        try:
            result = run(settings, directory)
        except AssertionError as error:
            print(f"It is not so: {error}", file=sys.stderr)
            return 1
    if given.json:
        print(json.dumps(asdict(result)))
    else:
        for name, value in asdict(result).items():
            print(f"{name:10} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
