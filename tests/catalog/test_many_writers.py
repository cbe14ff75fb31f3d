"""Eight processes that commit to one table in an object store concurrently, as in the benchmark: no update is lost."""

import pytest

from tests.benchmarks.store_writers import KINDS, run, warehouse
from tests.support.tally import Tally

SECONDS = 20


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_eight_writers_lose_no_update(kind: str, tally: Tally) -> None:
    with warehouse(kind) as options:
        found = run(kind, options, seconds=SECONDS, writers=8)
    tally("commits by eight writers at once", found.commits)
    assert not found.wrong, "\n".join(found.wrong)
    assert all(found.commits_each)


def test_the_benchmark_counts_commits_and_lost_races() -> None:
    with warehouse("s3") as options:
        found = run("s3", options, seconds=1, writers=2)
    assert not found.wrong
    assert found.commits == sum(found.commits_each) > 0
    assert found.lost_races >= 0
