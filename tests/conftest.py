"""Setup of all tests: the selection and the order of the tests of a run, and the settings of Hypothesis.

README.md in this folder describes the limits of a test's cost and the shares of the long tests. The configuration of
the user has no influence on either.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support import costs, durations, memory_disk, places, quarantine, shares, tally, tiers
from tests.support.examples import EXPLORING, PROFILES, keep_examples_steady
from tests.support.servers.hdfs import HdfsServer, running_hdfs
from tests.support.servers.kafka import KafkaServer, running_kafka

ROOT = Path(__file__).resolve().parents[1]

for _variable in [
    name
    for name in os.environ
    if name.startswith(("INTERBED_CATALOG__", "INTERBED_DEFAULT_CATALOG", "INTERBED_OPTIMIZER_"))
]:
    del os.environ[_variable]
os.environ["INTERBED_CONFIG"] = os.devnull

_MEMORY = None if shares.LONG else memory_disk.use_memory()

for name, profile in PROFILES.items():
    settings.register_profile(name, profile)
settings.load_profile("explore" if EXPLORING else "steady")
if not EXPLORING:
    keep_examples_steady()


def pytest_configure(config: pytest.Config) -> None:
    """Add the marks, and the tables of durations and counts to the process that prints."""
    config.addinivalue_line("markers", "long: runs in `make test-long` alone, a share of it in continuous integration")
    config.addinivalue_line("markers", "longer: tries more in `make test-long` than in `make test`, and runs in both")
    config.addinivalue_line("markers", "sample(n): `make test` runs n of the parameters, `make test-long` the others")
    config.addinivalue_line(
        "markers", "integration: needs a JVM or a server, which tests/support/tiers.py does not see"
    )
    config.addinivalue_line("markers", "attack(kind): an attack on the server, counted by tests/support/attacks.py")
    if tiers.chosen_tier() == "unit":
        tiers.guard()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(durations.DurationsReport())
        config.pluginmanager.register(tally.TallyReport())
    if shares.LONG:
        # Child processes take the same share, independent of commits in between.
        os.environ[shares.SHARE_VARIABLE] = str(shares.chosen_share(os.environ, ROOT))


@pytest.fixture(name="tally")
def _tally(request: pytest.FixtureRequest) -> tally.Tally:
    """Return a function that adds to the numbers printed at the end of the run: `tally("crash points", 12)`."""
    return tally.adding_to(request.node)


@pytest.fixture(name="hdfs", scope="session")
def _hdfs() -> Iterator[HdfsServer]:
    """Real HDFS, shared by the tests of a process: each works below its own directory."""
    with running_hdfs() as server:
        yield server


@pytest.fixture(name="kafka", scope="session")
def _kafka() -> Iterator[KafkaServer]:
    """One broker for all tests of a process; each test uses its own topics, and restarts the broker if it kills it."""
    with running_kafka() as server:
        yield server


def pytest_report_header() -> str:
    """Return the selection of tests, and the command that repeats it."""
    return shares.header(ROOT)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> places.PlacedScheduling | None:
    """Distribute the tests of each run by places where xdist would distribute them by files."""
    if shares.LONG or config.getoption("dist") != "loadfile":
        return None
    return places.PlacedScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collections: almost all that is made then lives until the end of the run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tests of this run, and start with the longest files."""
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


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collections, which would visit some million objects each time."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish(exitstatus: int) -> None:
    """Keep the temporary files of a run that failed, and return the collected tests to the garbage collector: libraries
    that count their objects at the end would report those that frozen tests hold.
    """
    gc.unfreeze()
    if _MEMORY is not None:
        _MEMORY.kept = exitstatus != 0
