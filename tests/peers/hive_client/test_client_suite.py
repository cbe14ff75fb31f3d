"""Hive 4.0.1's own tests of its metastore client, class by class, against interbed's server: no class fails more than
on Java's own server.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.peers.hive_client import ClientSuite, reference, run_on_java
from tests.support.servers.metastore import metastore_under_test
from tests.support.shares import each_run

CLASSES = sorted(reference())

EACH_RUN = ("TestFunctions", "TestGetPartitions")

BY_CHANCE = {
    "TestMetastoreScheduledQueries": ("testExclusivePoll",),
    "TestTablesCreateDropAlterTruncate": ("testAlterTable", "testCreateGetDeleteTable"),
    "TestTablesGetExists": ("testGetTableObjectsByName", "testGetTableObjectsByNameCaseInsensitive"),
}
"""By class, the tests that pass and fail on Java's own server."""


REFUSED = {"TestAlterPartitions": {"deprecatedCalls": "is neither an absolute path nor a URI"}}
"""By class, the tests of a feature that interbed's server refuses and Hive's accepts: a relative location."""


@pytest.fixture(scope="module")
def suite() -> Iterator[ClientSuite]:
    """The JVM that runs the tests."""
    with ClientSuite() as started:
        yield started


@pytest.mark.parametrize("name", each_run(CLASSES, lambda name: name in EACH_RUN))
def test_a_class_fails_no_more_than_on_hives_own_server(suite: ClientSuite, tmp_path: Path, name: str) -> None:
    known = reference()[name]
    settings = suite.settings(tmp_path / "warehouse")
    with metastore_under_test(f"sqlite:///{tmp_path / 'metastore.db'}", tmp_path, *settings) as running:
        found = suite.run(running.uri, running.warehouse, name)
    assert found.passed + len(found.failed) == known.passed + len(known.failed)
    more = {test: why for test, why in found.failed.items() if test not in known.failed}
    refused = REFUSED.get(name, {})
    assert more.keys() == refused.keys(), more
    assert all(text in more[test] for test, text in refused.items()), more


@pytest.mark.long
@pytest.mark.parametrize("name", CLASSES)
def test_the_reference_has_the_results_of_hives_own_server(suite: ClientSuite, name: str) -> None:
    found, known = run_on_java(suite, name), reference()[name]
    assert found.passed + len(found.failed) == known.passed + len(known.failed)
    steady = [{*failed} - {*BY_CHANCE.get(name, ())} for failed in (found.failed, known.failed)]
    assert steady[0] == steady[1]
