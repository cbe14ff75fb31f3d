"""The optimizer as processes on real tables: workers and schedulers are killed, stopped, added and removed."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

import interbed.testing
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.factory import open_catalog
from tests.optimizer.service import lake
from tests.optimizer.service.processes import (
    DEADLINE_SECONDS,
    OptimizerProcess,
    is_alive,
    optimizing,
    resume,
    until,
    wait_until_stopped,
    working,
)

QUICK = ("--setting", "pause_first=100", "--setting", "pause_gave_way=50", "--setting", "expire_interval=500")
LEASE = ("--setting", "lease=2000")
HANGING = [sys.executable, str(Path(__file__).with_name("hanging_worker.py"))]


@pytest.fixture(params=["files", "metastore"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Options of a catalog of each kind."""
    warehouse = tmp_path / "lake"
    if request.param == "files":
        yield {"warehouse": str(warehouse)}
        return
    with interbed.testing.metastore(warehouse=f"file:{warehouse}") as uri:
        yield {"metastore": "hive", "uri": uri}


@pytest.fixture
def files(tmp_path: Path) -> Mapping[str, str]:
    """Options of a catalog of directories."""
    return {"warehouse": str(tmp_path / "lake")}


@pytest.fixture
def catalog(request: pytest.FixtureRequest) -> Iterator[Catalog]:
    """The catalog with its tables."""
    chosen = "options" if "options" in request.fixturenames else "files"
    with open_catalog("lake", request.getfixturevalue(chosen)) as opened:
        lake.make_tables(opened)
        yield opened


def settle(optimizer: OptimizerProcess, catalog: Catalog) -> None:
    """Wait until no work is due, and end the optimizer."""
    until(lambda: lake.is_in_shape(catalog) and not optimizer.has_processes(), "the tables are in shape")
    optimizer.stop()


def wait_for_workers(optimizer: OptimizerProcess, count: int) -> None:
    """Wait until this number of workers have registered."""
    until(lambda: len(optimizer.workers()) == count, f"{count} workers are registered")


@pytest.mark.long
def test_rows_stay_exact_and_tables_in_shape_while_workers_are_killed(
    tmp_path: Path, options: Mapping[str, str], catalog: Catalog
) -> None:
    kills, rounds = 20, 12
    written = 0
    killed = []
    with optimizing(tmp_path, options, *QUICK, *LEASE, "--workers", "2") as optimizer:
        for kill in range(kills):
            for _ in range(rounds):
                lake.write_round(catalog, written)
                written += 1
            # Enough tables are due at any time that work continues while a worker is killed.
            for _ in range(3):
                optimizer.next_process()
            local = optimizer.local_workers()
            if local:
                killed.append(local[kill % len(local)])
                killed[-1].send_signal(signal.SIGKILL)
        settle(optimizer, catalog)
    assert killed
    lake.check_rows(catalog, written)
    lake.check_shape(catalog)
    assert not [process for process in killed if is_alive(process)]


def test_the_standby_takes_over_when_the_scheduler_is_killed(
    tmp_path: Path, files: Mapping[str, str], catalog: Catalog
) -> None:
    with (
        optimizing(tmp_path, files, *QUICK, *LEASE) as first,
        optimizing(tmp_path, files, *QUICK, *LEASE, name="second") as second,
    ):
        for number in range(8):
            lake.write_round(catalog, number)
        first.next_process()
        orphans = first.local_workers()
        assert orphans
        assert not second.local_workers()
        first.process.kill()
        second.next_process()
        for number in range(8, 16):
            lake.write_round(catalog, number)
        second.next_process()
        until(lambda: not any(is_alive(each) for each in orphans), "the workers of the first have ended")
        settle(second, catalog)
    lake.check_rows(catalog, 16)
    lake.check_shape(catalog)


@pytest.mark.long
def test_a_scheduler_that_ends_hands_over_at_once(tmp_path: Path, files: Mapping[str, str], catalog: Catalog) -> None:
    """It releases its lease of a minute, and the tasks of its workers."""
    with optimizing(tmp_path, files, *QUICK) as first, optimizing(tmp_path, files, *QUICK, name="second") as second:
        for number in range(8):
            lake.write_round(catalog, number)
        first.next_process()
        first.stop()
        second.next_process(20)
        settle(second, catalog)
    lake.check_rows(catalog, 8)
    lake.check_shape(catalog)


@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_hung_worker_loses_its_task_and_its_files(
    tmp_path: Path, files: Mapping[str, str], catalog: Catalog, when: str
) -> None:
    """The worker is stopped before or after it writes, and resumes when others have done its task."""
    for number in range(8):
        lake.write_round(catalog, number)
    with (
        optimizing(tmp_path, files, *QUICK, *LEASE, "--workers", "0") as optimizer,
        working(optimizer.uri, tmp_path, when, program=HANGING) as hung,
    ):
        wait_until_stopped(hung)
        with working(optimizer.uri, tmp_path) as other:
            done = [optimizer.next_process() for _ in range(2 * len(lake.TABLES))]
            assert {each["table"] for each in done} == set(lake.TABLES)
            assert {each["state"] for each in done} == {"succeeded"}
            resume(hung)
            wait_for_workers(optimizer, 2)
            until(lambda: "is unknown" in (tmp_path / "worker.log").read_text(), "the hung worker's result is refused")
            lake.check_rows(catalog, 8)
            lake.check_shape(catalog)
            for process in (hung, other):
                process.terminate()
                assert process.wait(DEADLINE_SECONDS) == 0
        wait_for_workers(optimizer, 0)
        optimizer.stop()


@pytest.mark.long
def test_workers_follow_the_group_file(tmp_path: Path, files: Mapping[str, str], catalog: Catalog) -> None:
    groups = tmp_path / "groups.toml"
    groups.write_text("[default]\nworkers = 1\n")
    with optimizing(tmp_path, files, "--groups", str(groups)) as optimizer:
        wait_for_workers(optimizer, 1)
        (kept,) = optimizer.local_workers()
        groups.write_text("[default]\nworkers = 2\n[night]\nworkers = 1\n")
        wait_for_workers(optimizer, 3)
        assert sorted(worker.group for worker in optimizer.workers()) == ["default", "default", "night"]
        groups.write_text("[default]\nworkers = many\n")
        until(lambda: "and stay unchanged" in optimizer.log.read_text(), "the bad file is noted")
        assert str(groups) in optimizer.log.read_text()
        assert kept in optimizer.local_workers()
        groups.write_text("[default]\nworkers = 0\n")
        wait_for_workers(optimizer, 0)
        until(lambda: not optimizer.local_workers(), "the workers have ended")
        optimizer.stop()


@pytest.mark.long
def test_a_remote_worker_joins_and_leaves(tmp_path: Path, files: Mapping[str, str], catalog: Catalog) -> None:
    for number in range(8):
        lake.write_round(catalog, number)
    with optimizing(tmp_path, files, *QUICK, "--workers", "0") as optimizer:
        with working(optimizer.uri, tmp_path, "--threads", "2", "--memory", "64 mb") as worker:
            for _ in range(2 * len(lake.TABLES)):
                assert optimizer.next_process()["state"] == "succeeded"
            (known,) = optimizer.workers()
            assert (known.threads, known.memory, known.place.rpartition(":")[2]) == (2, 64 << 20, str(worker.pid))
            worker.terminate()
            assert worker.wait(DEADLINE_SECONDS) == 0
        wait_for_workers(optimizer, 0)
        optimizer.stop()
    lake.check_rows(catalog, 8)
    lake.check_shape(catalog)


@pytest.mark.long
def test_work_left_for_lack_of_workers_is_named(tmp_path: Path, files: Mapping[str, str], catalog: Catalog) -> None:
    for number in range(8):
        lake.write_round(catalog, number)
    with optimizing(tmp_path, files, "--workers", "0", "--until-idle") as optimizer:
        assert optimizer.process.wait(DEADLINE_SECONDS) == 1
        assert "shop.orders is of group 'default', which has no workers" in optimizer.log.read_text()


def test_the_optimizer_ends_when_its_standard_input_closes(
    tmp_path: Path, files: Mapping[str, str], catalog: Catalog
) -> None:
    command = [sys.executable, "-m", "interbed.cli", "optimizer", "run", "--until-stdin-ends", "--workers", "1"]
    command += ["-o", f"warehouse={files['warehouse']}", "--db", f"sqlite:///{tmp_path / 'journal.db'}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"optimizer listening on thrift://127.0.0.1:")
        local = psutil.Process(process.pid).children()
        process.stdin.close()
        assert process.wait(DEADLINE_SECONDS) == 0
    assert not [child for child in local if is_alive(child)]
