"""A campaign: tables of many kinds are written all the time, while those who keep them in shape are killed and hung.

In the end the rows have to be exact, each bucket within its bound, and nothing left behind: no mark, no file that
nothing names, no lease, no lock, no process.

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
from interbed.catalog.server.process.embedded import start_server, stop_server
from interbed.optimizer.flow.process import CleanupMode, Process, ProcessState
from interbed.optimizer.flow.tables import RequestKind, TableRequest
from interbed.storage.base.clock import now_millis
from interbed.storage.table.table import Table
from interbed.storage.upkeep.health import table_health
from tests.optimizer.service import lake
from tests.optimizer.service.campaign_tables import KINDS, Rows, TableKind, Writer, difference
from tests.optimizer.service.crew import Crew, Fault
from tests.optimizer.service.processes import DEADLINE_SECONDS, until

WRITERS = 2
WRITER_PAUSE_SECONDS = 0.05
"""Between two commits of a writer, on average: so that the two cores of a machine are left to the optimizer, too."""

LOCK_LEASE_SECONDS = 10
"""How long the metastore keeps the lock of a process that was killed, in place of its five minutes."""

SHAPE_SECONDS = 300.0
"""How long it may take until all tables are in shape once nobody writes any more."""

_MOST_PROCESSES = 1_000_000
_LOST = ("sent no heartbeat for", "has ended", "never planned", "The process of this task has ended without it")
"""Why a process fails when those who work on it are killed, again and again."""


_CUT_OFF = re.compile(r"manifest/|statistics/|(snapshot|changelog)/\.[^/]*\.tmp$")
"""What is left when a commit or an expiry is killed, for the removal of orphan files: manifests of snapshots that were
never made, and files that had not got their names yet.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """It goes on until there were so many `faults`, or for so many `seconds` where that is None."""

    seed: int = 1
    catalog: str = "files"
    tables: int = len(KINDS)
    seconds: float = 60.0
    faults: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What happened. `commits` are those of the writers, who had so many `reads` of what they had written; `rows` are
    those of all tables in the end. Processes are those of the optimizer, by state, by kind, and by why they did not
    succeed; of those `in_doubt` it is not known whether they were committed. `settling` are the seconds from the last
    commit of a writer until all tables were in shape. `orphans` are files that were left when commits and
    expiries were killed, and that the removal of orphan files has taken.
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
        """How many processes of the system were killed."""
        return sum(count for fault, count in self.faults.items() if Fault(fault).is_kill)


def run(settings: Settings, directory: Path) -> Result:
    """Carry a campaign out; AssertionError when something is not as it has to be. The directory is empty, and gets the
    tables, the journal and the logs.
    """
    kinds = KINDS[: settings.tables]
    began = time.monotonic()
    with _catalog_options(settings.catalog, directory) as options:
        writing = _Writing(options, kinds, settings.seed)
        _make_tables(options, kinds, writing.writers[0])
        with Crew(directory, options) as crew:
            with writing:
                faults = _strike(settings, crew, writing)
            wrote = time.monotonic()
            _wait_until_done(crew, options, kinds)
            settled = time.monotonic()
            _pause(crew, kinds)
            crew.stop()
            processes = _check_ended(crew)
        with open_catalog("lake", options) as catalog:
            rows = _check_rows(catalog, kinds, writing.writers)
            todo = _to_do(catalog, kinds)
            assert not todo, todo
            orphans = _check_files(catalog, kinds, processes)
            assert _check_rows(catalog, kinds, writing.writers) == rows
            _check_locks(catalog)
            newest = [catalog.get_table(kind.name).latest_snapshot() for kind in kinds]
    return Result(
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
    """The tables, with their first rows."""
    with open_catalog("lake", options) as catalog:
        catalog.create_database("shop", True)
        for kind in kinds:
            kind.make(catalog)
            writer.write(catalog, kind)
            if kind.is_counted:
                catalog.get_table(kind.name).maintenance.analyze()


class _Writing:
    """Writers that go on until the end of a `with` block, each in a thread with a catalog of its own."""

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
        """Whether none of them has failed; raises what it met."""
        for error in self._errors:
            raise AssertionError(f"a writer failed: {type(error).__name__}: {error}") from error

    def _write(self, writer: Writer) -> None:
        try:
            with open_catalog("lake", self._options) as catalog:
                while not self._end.wait(writer.random.uniform(0, 2 * WRITER_PAUSE_SECONDS)):
                    writer.write(catalog, writer.random.choice(self._kinds))
        except Exception as error:  # noqa: BLE001 - it is raised where the campaign looks
            self._errors.append(error)


def _strike(settings: Settings, crew: Crew, writing: _Writing) -> Counter[Fault]:
    """Have one fault after the other befall somebody, each at a moment that comes by chance; how often each came."""
    chance = random.Random(settings.seed)
    faults: Counter[Fault] = Counter()
    end = time.monotonic() + settings.seconds
    pause = threading.Event()
    while faults.total() < settings.faults if settings.faults is not None else time.monotonic() < end:
        if chance.random() < 0.5:
            crew.wait_for_processes(chance.randint(1, 12), seconds=5)
        else:
            pause.wait(chance.uniform(0.0, 2.5))
        fault = crew.strike(chance)
        if fault is not None:
            faults[fault] += 1
        writing.check()
    return faults


def _wait_until_done(crew: Crew, options: Mapping[str, str], kinds: Sequence[TableKind]) -> None:
    """Wait until no table needs anything, and nothing runs."""
    with open_catalog("lake", options) as catalog, closing(crew.journal()) as journal:
        until(lambda: not _to_do(catalog, kinds) and not journal.running(), "no table needs anything", SHAPE_SECONDS)


def _pause(crew: Crew, kinds: Sequence[TableKind]) -> None:
    """Have nothing begun any more, and wait for what runs: what is due at intervals may be begun when no table needs
    anything, and a scheduler that is stopped leaves what no worker has taken yet to the next one.
    """
    with closing(crew.journal()) as journal:
        for kind in kinds:
            journal.ask(TableRequest(table=kind.name, kind=RequestKind.PAUSE))
        until(lambda: not journal.requests() and not journal.running(), "nothing runs", SHAPE_SECONDS)


def _to_do(catalog: Catalog, kinds: Sequence[TableKind]) -> dict[str, list[str]]:
    """What the tables still need, by their names."""
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
    """Whether the tables hold exactly what was written; how many rows that are."""
    count = 0
    for kind in kinds:
        found = kind.rows(catalog.get_table(kind.name))
        difference(kind.name, found, sum((writer.expected(kind.name) for writer in writers), Rows()))
        count += found.total()
    return count


def _check_ended(crew: Crew) -> Sequence[Process]:
    """Whether all have ended in good order, and nothing failed but for the faults; the processes of the optimizer."""
    assert not crew.alive(), crew.alive()
    left = crew.left_on_disk()
    assert not left, f"on local disk there is still {left}"
    with closing(crew.journal()) as journal:
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
    assert "Traceback" not in crew.said(), "there is a traceback in the logs"
    return processes


def _check_files(catalog: Catalog, kinds: Sequence[TableKind], processes: Sequence[Process]) -> int:
    """Whether no files are left but those of commits and expiries that were killed, and of processes of which it is not
    known whether they were committed; and whether the removal of orphan files takes these. How many they are.
    """
    doubtful = [process.id for process in processes if process.cleanup is CleanupMode.LEAVE]
    count = 0
    for kind in kinds:
        table = catalog.get_table(kind.name)
        orphans = lake.nameless(table.store)
        left = [path for path in orphans if not _CUT_OFF.match(path) and not any(each in path for each in doubtful)]
        assert not left, f"{kind.name}: {len(left)} files are left, as {sorted(left)[:5]}"
        _remove_orphans(table)
        left = sorted(lake.nameless(table.store))
        assert not left, f"{kind.name}: the removal of orphan files leaves {left[:5]}"
        count += len(orphans)
        checked = table.maintenance.fsck()
        assert not checked.findings, f"{kind.name}: {checked.findings}"
    return count


def _remove_orphans(table: Table) -> None:
    """Until there are none: files of this very millisecond stay."""
    until(
        lambda: not table.maintenance.remove_orphan_files(older_than=now_millis() - 1).files, "orphan files are removed"
    )


def _check_locks(catalog: Catalog) -> None:
    """Whether no lock is left in a metastore, once the leases of those who were killed have ended."""
    if isinstance(catalog, HiveCatalog):
        client = catalog.client
        until(lambda: not client.show_locks(), "no locks are left in the metastore", 3 * LOCK_LEASE_SECONDS)


def _reason(process: Process) -> str:
    """Why a process did not succeed, without the names of files, so that equal ones are counted together."""
    text = re.sub(r"\b(data|index|worker)[ -][0-9a-f-]{8}\S*", r"\1 …", process.failure or "")
    return f"{process.kind} {process.state}: {text[:120]}"


@contextmanager
def _catalog_options(catalog: str, directory: Path) -> Iterator[Mapping[str, str]]:
    """The options of a catalog of that kind."""
    warehouse = directory / "lake"
    if catalog == "files":
        yield {"warehouse": str(warehouse)}
        return
    server = start_server(
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
    """The command line; the exit code."""
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
    settings = Settings(seed=given.seed, catalog=given.catalog, tables=given.tables, seconds=60 * given.minutes)
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
