"""Writers on a store whose answers go wrong by chance: nothing is lost or there twice, and all is clean afterwards."""

import itertools
import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

import interbed
from tests.catalog.store_stories import KINDS, PATIENCE, Weather, check_afterwards, create, tell_by_options
from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import StoreProxy
from tests.support.shares import each_run
from tests.support.tally import Tally

BUCKET = "lake"
WRITERS = range(3)
WRITERS_ELSEWHERE = range(3, 5)
SECONDS_MAX = 300
PIECES = 20
FAULTS_EACH = 550
"""The long pieces count 10,000 faults together, with some to spare."""


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
    """Another process, which has nothing of this one's in its memory."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def told_story(
    store: dict[str, str], proxy: StoreProxy, elsewhere: ProcessPoolExecutor, seed: int, kind: str, steps: int
) -> tuple[Weather, list[str]]:
    """One story of writers in two processes, its faults, and what is wrong after it."""
    warehouse = {"warehouse": f"s3a://{BUCKET}/{seed}-{kind.replace(' ', '-')}"}
    calm = interbed.CatalogFactory.create({**warehouse, **store})
    calm.create_database("d")
    create(calm, "d.t", kind)
    weather = Weather(chance=random.Random(seed))

    options = {**warehouse, **proxy.options, **PATIENCE}
    proxy.fault = weather
    others = elsewhere.submit(tell_by_options, options, "d.t", seed, WRITERS_ELSEWHERE, steps)
    told = tell_by_options(options, "d.t", seed, WRITERS, steps) + others.result(SECONDS_MAX)
    proxy.fault = None
    proxy.wait_until_idle()
    wrong = check_afterwards(lambda: calm.get_table("d.t"), told)
    steps_taken = sum((one.steps for one in told), Counter[str]())
    errors = sum((one.errors for one in told), Counter[str]())
    there = sum(len(one.there) for one in told)
    print(*wrong, sep="\n", end="")
    print(
        f"{kind} {seed}: {weather.count} faults {dict(weather.counts)}; steps {dict(steps_taken)}; errors "
        f"{dict(errors)}; {there} groups there, {sum(len(one.unknown) for one in told)} unknown"
    )
    return weather, wrong


# test_late_listings.py has all kinds in each run.
@pytest.mark.parametrize("kind", each_run(KINDS, lambda kind: kind in ("keyed", "vectors")))
def test_what_writers_were_told_is_true(
    kind: str, store: dict[str, str], proxy: StoreProxy, elsewhere: ProcessPoolExecutor, tally: Tally
) -> None:
    weather, wrong = told_story(store, proxy, elsewhere, KINDS.index(kind), kind, steps=4)
    tally("faults at requests of a store", weather.count)
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
        weather, wrong = told_story(store, proxy, elsewhere, seed, kind, steps=25)
        count += weather.count
        assert not wrong, "\n".join(wrong)
    tally("faults at requests of a store", count)
