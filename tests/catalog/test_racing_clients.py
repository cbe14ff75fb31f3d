"""Clients of every kind of catalog that create, drop, rename, alter and fill the same names at once."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

import interbed
from interbed.catalog.client.errors import CatalogError
from interbed.storage.base.errors import CommitConflictError
from tests.catalog.racing_clients import (
    COMMITS,
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


@pytest.mark.long
def test_twenty_clients_in_four_processes_lose_nothing(
    kind_of_catalog: str, options_of_catalog: dict[str, object], tally: Tally
) -> None:
    rules = rules_of(kind_of_catalog)
    with interbed.load_catalog("lake", **options_of_catalog) as catalog:
        prepare_races(catalog)
        reports = race(options_of_catalog, rules, 5 if kind_of_catalog.startswith("java") else 15)
        wrong = check_races(catalog, reports, rules)
    tally("lost races of catalog clients", sum(one.lost.total() for one in reports))
    assert not wrong, "\n".join(wrong)


def test_clients_on_threads_lose_nothing(kind_of_catalog: str, options_of_catalog: dict[str, object]) -> None:
    rules = rules_of(kind_of_catalog)
    with interbed.load_catalog("lake", **options_of_catalog) as catalog:
        prepare_races(catalog)
        reports = run_clients(options_of_catalog, range(5), 6, rules)
        wrong = check_races(catalog, reports, rules)
        assert not wrong, "\n".join(wrong)
        assert sum(len(one.committed) for one in reports) > 0
        for name in catalog.list_databases():
            if name.startswith("race"):
                catalog.drop_database(name, cascade=True)
