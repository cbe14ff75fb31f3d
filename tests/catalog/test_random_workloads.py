"""Writers on an object store with random faults: no write is lost or duplicated, and the table is sound afterwards."""

import itertools
import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

import interbed
from tests.catalog.random_workloads import (
    KINDS,
    RETRY_OPTIONS,
    RandomFaults,
    check_afterwards,
    create,
    run_writers_by_options,
)
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import StoreProxy
from tests.support.shares import each_run
from tests.support.tally import Tally
from tests.support.waits import at_most

BUCKET = "lake"
WRITERS = range(3)
WRITERS_ELSEWHERE = range(3, 5)
SECONDS_MAX = at_most(300)
PIECES = 20
FAULTS_EACH = 550
"""Faults of each long piece; together they are 10,000, and some to spare."""


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    with running_s3(BUCKET) as options:
        yield options


@pytest.fixture
def proxy(store: dict[str, str]) -> Iterator[StoreProxy]:
    with StoreProxy.before(store) as running:
        yield running


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """Start another process, which shares no caches with this one."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def run_workload(
    store: dict[str, str], proxy: StoreProxy, elsewhere: ProcessPoolExecutor, seed: int, kind: str, steps: int
) -> tuple[RandomFaults, list[str]]:
    """Run a workload of writers in two processes; return its faults, and what is wrong afterwards."""
    warehouse = {"warehouse": f"s3a://{BUCKET}/{seed}-{kind.replace(' ', '-')}"}
    calm = interbed.CatalogFactory.create({**warehouse, **store})
    calm.create_database("d")
    create(calm, "d.t", kind)
    faults = RandomFaults(chance=random.Random(seed))

    options = {**warehouse, **proxy.options, **RETRY_OPTIONS}
    proxy.fault = faults
    others = elsewhere.submit(run_writers_by_options, options, "d.t", seed, WRITERS_ELSEWHERE, steps)
    reports = run_writers_by_options(options, "d.t", seed, WRITERS, steps) + others.result(SECONDS_MAX)
    proxy.fault = None
    proxy.wait_until_idle()
    wrong = check_afterwards(lambda: calm.get_table("d.t"), reports)
    steps_taken = sum((one.steps for one in reports), Counter[str]())
    errors = sum((one.errors for one in reports), Counter[str]())
    there = sum(len(one.there) for one in reports)
    print(*wrong, sep="\n", end="")
    print(
        f"{kind} {seed}: {faults.count} faults {dict(faults.counts)}; steps {dict(steps_taken)}; errors "
        f"{dict(errors)}; {there} groups there, {sum(len(one.unknown) for one in reports)} unknown"
    )
    return faults, wrong


# test_late_listings.py covers all kinds in each run.
@pytest.mark.parametrize("kind", each_run(KINDS, lambda kind: kind in ("keyed", "vectors")))
def test_reported_outcomes_of_writes_are_true(
    kind: str, store: dict[str, str], proxy: StoreProxy, elsewhere: ProcessPoolExecutor, tally: Tally
) -> None:
    faults, wrong = run_workload(store, proxy, elsewhere, KINDS.index(kind), kind, steps=4)
    tally("faults at requests of a store", faults.count)
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
@pytest.mark.parametrize("piece", range(PIECES))
def test_many_faults_lose_nothing(
    piece: int, store: dict[str, str], proxy: StoreProxy, elsewhere: ProcessPoolExecutor, tally: Tally
) -> None:
    count = 0
    for story in itertools.count():
        if count >= FAULTS_EACH:
            break
        kind, seed = KINDS[(piece + story) % len(KINDS)], 1000 * (piece + 1) + story
        faults, wrong = run_workload(store, proxy, elsewhere, seed, kind, steps=25)
        count += faults.count
        assert not wrong, "\n".join(wrong)
    tally("faults at requests of a store", count)
