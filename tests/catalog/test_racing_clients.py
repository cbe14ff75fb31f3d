"""Clients of every kind of catalog that create, drop, rename, alter and fill the same names at once."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import interbed
from interbed.catalog.client.api import Catalog
from interbed.catalog.client.errors import CatalogError, TableNotFoundError
from interbed.catalog.client.files import table_files
from interbed.storage.base.errors import CommitConflictError
from interbed.storage.io.api import FileIO
from interbed.storage.io.local import LocalDisk
from tests.catalog.racing_clients import (
    COMMITS,
    SCHEMA,
    ClientReport,
    RaceRules,
    check_races,
    prepare_races,
    run_clients,
)
from tests.support.tally import Tally
from tests.support.waits import at_most

CLIENTS = 20
PROCESSES = 4
SECONDS_MAX = at_most(500)


def rules_of(kind: str) -> RaceRules:
    """Return what is expected of a kind of catalog."""
    match kind:
        case "filesystem":
            # A directory that several clients create is that of all of them.
            return RaceRules(counts_databases=False)
        case "java_rest":
            # The reference server keeps its names without locks: of concurrent creations and drops some fail with 500.
            return RaceRules(steps=COMMITS)
        case "java_hive_4":
            # Without locks, changes of one name by several clients at once are not supported.
            return RaceRules(steps=("commit",))
        case "java_hive_2":
            # Hive's metastore refuses some concurrent changes with errors of its database; a refused change withdraws
            # the schema that it has written.
            return RaceRules(refusals=(CatalogError, CommitConflictError))
        case _:
            return RaceRules()


def race(options: dict[str, object], rules: RaceRules, steps: int) -> list[ClientReport]:
    """Run the clients in several processes, and return their reports in the order of their numbers."""
    # A uri of a test server, as text.
    given = {key: str(value) for key, value in options.items()}
    numbers = [list(range(first, CLIENTS, PROCESSES)) for first in range(PROCESSES)]
    with ProcessPoolExecutor(PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(run_clients, given, some, steps, rules) for some in numbers]
        found = [one.result(SECONDS_MAX) for one in running]
    return [found[number % PROCESSES][number // PROCESSES] for number in range(CLIENTS)]


@pytest.fixture
def catalog(options_of_catalog: dict[str, object]) -> Iterator[Catalog]:
    """Open a catalog for clients that race; drop their databases afterwards."""
    with interbed.load_catalog("lake", **options_of_catalog) as opened:
        prepare_races(opened)
        yield opened
        for name in opened.list_databases():
            if name.startswith("race"):
                opened.drop_database(name, cascade=True)


@pytest.mark.long
def test_twenty_clients_in_four_processes_lose_nothing(
    kind_of_catalog: str, options_of_catalog: dict[str, object], catalog: Catalog, tally: Tally
) -> None:
    rules = rules_of(kind_of_catalog)
    reports = race(options_of_catalog, rules, 5 if kind_of_catalog.startswith("java") else 15)
    tally("lost races of catalog clients", sum(one.lost.total() for one in reports))
    wrong = check_races(catalog, reports, rules)
    assert not wrong, "\n".join(wrong)


def test_clients_on_threads_lose_nothing(
    kind_of_catalog: str, options_of_catalog: dict[str, object], catalog: Catalog
) -> None:
    rules = rules_of(kind_of_catalog)
    reports = run_clients(options_of_catalog, range(5), 6, rules)
    wrong = check_races(catalog, reports, rules)
    assert not wrong, "\n".join(wrong)
    assert sum(len(one.committed) for one in reports) > 0


@pytest.fixture
def lake(tmp_path: Path) -> Catalog:
    """Create a file-system catalog with the table `d.t`."""
    catalog = interbed.load_catalog("lake", warehouse=f"file:{tmp_path}")
    catalog.create_database("d")
    catalog.create_table("d.t", SCHEMA)
    return catalog


@pytest.mark.parametrize("other", ["drop", "rename"])
def test_a_table_that_another_client_drops_or_renames_first_is_reported_as_missing(
    lake: Catalog, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop = table_files.drop_directory

    def late(file_io: FileIO, location: str) -> bool | None:
        monkeypatch.undo()
        if other == "drop":
            lake.drop_table("d.t")
        else:
            lake.rename_table("d.t", "d.u")
        return drop(file_io, location)

    monkeypatch.setattr(table_files, "drop_directory", late)
    with pytest.raises(TableNotFoundError, match=r"no table 'd\.t'"):
        lake.drop_table("d.t")
    assert lake.list_tables("d") == ([] if other == "drop" else ["u"])


def test_a_table_is_dropped_although_another_drop_deletes_the_directory_of_dropped_tables(
    lake: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = LocalDisk.rename_directory

    def late(disk: LocalDisk, source: str, target: str) -> None:
        monkeypatch.undo()
        Path(target).parent.rmdir()
        rename(disk, source, target)

    monkeypatch.setattr(LocalDisk, "rename_directory", late)
    lake.drop_table("d.t")
    assert lake.list_tables("d") == []
    assert not (tmp_path / "d.db" / "t").exists()
