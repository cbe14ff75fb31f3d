"""What all tests share: which of them a run takes, in which order, and how Hypothesis looks for examples.

README.md beside this file says what a test may cost and how the long ones are shared out. Nothing that the user has
configured has a say in them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import costs, durations, quarantine, shares, tally, tiers
from tests.support.examples import EXPLORING, PROFILES
from tests.support.servers.hdfs import HdfsServer, running_hdfs

ROOT = Path(__file__).resolve().parents[1]

for _variable in [
    name
    for name in os.environ
    if name.startswith(("INTERBED_CATALOG__", "INTERBED_DEFAULT_CATALOG", "INTERBED_OPTIMIZER_"))
]:
    del os.environ[_variable]
os.environ["INTERBED_CONFIG"] = os.devnull

for name, profile in PROFILES.items():
    settings.register_profile(name, profile)
settings.load_profile("explore" if EXPLORING else "steady")


def pytest_configure(config: pytest.Config) -> None:
    """Add the marks, and the tables of durations and counts to the process that prints."""
    config.addinivalue_line("markers", "long: runs in `make test-long` alone, a share of it in continuous integration")
    config.addinivalue_line("markers", "longer: tries more in `make test-long` than in `make test`, and runs in both")
    config.addinivalue_line("markers", "sample(n): `make test` runs n of the parameters, `make test-long` the others")
    config.addinivalue_line(
        "markers", "integration: needs a JVM or a server, which tests/support/tiers.py does not see"
    )
    if tiers.chosen_tier() == "unit":
        tiers.guard()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(durations.Stopwatch())
        config.pluginmanager.register(tally.Tallies())
    if shares.LONG:
        # The processes that start from here take the same share, whatever is committed in between.
        os.environ[shares.SHARE_VARIABLE] = str(shares.chosen_share(os.environ, ROOT))


@pytest.fixture(name="tally")
def _tally(request: pytest.FixtureRequest) -> tally.Tally:
    """Adds to the numbers that the run prints at its end: `tally("crash points", 12)`."""
    return tally.adding_to(request.node)


@pytest.fixture(name="hdfs", scope="session")
def _hdfs() -> Iterator[HdfsServer]:
    """A real HDFS, which the tests of a process share: each works below a directory of its own."""
    with running_hdfs() as server:
        yield server


def pytest_report_header() -> str:
    """Say which tests the run takes, and how to repeat it."""
    return shares.header(ROOT)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take the tests of this run, and start with the longest files."""
    shares.mark_samples(items)
    costs.mark_unaffordable(items, costs.recorded())
    quarantine.mark_quarantined(items, quarantine.quarantined())
    taken = shares.taken(items, ROOT)
    if tiers.chosen_tier() == "unit":
        taken = tiers.unit_tests(taken)
    if len(taken) < len(items):
        kept = set(taken)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = taken
    durations.longest_first(items, durations.recorded())
