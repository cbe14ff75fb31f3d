"""Random sequences of calls to interbed and to Hive's metastores give the same answers, exceptions and directories.

Each run compares locks with version 2.3.10 and its notification log. Long runs compare everything else with it, and
locks with 4.0.1.

The examples are the same in every run; `HYPOTHESIS_PROFILE=explore` generates many new ones. README.md lists the
accepted differences.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.catalog.differential import hive_4
from tests.catalog.differential.machine import ComparingMachine
from tests.catalog.differential.machine_locks import LocksMachine
from tests.catalog.differential.machine_tables import TablesMachine
from tests.catalog.differential.servers import ComparedServer, ServerPair
from tests.support.examples import EXPLORING, examples
from tests.support.servers.java_metastore import QUICK_START, running_java_metastore
from tests.support.servers.metastore import metastore_under_test
from tests.support.shares import each_run

STEPS = 25

JAVA_SETTINGS = {
    # Java repeats a call after each error of its database, some of which are bad input.
    "hive.hmshandler.retry.attempts": "1",
    "hive.hmshandler.retry.interval": "1ms",
    # Interbed lets columns change their types, and reports it in the value of this setting.
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
}


@pytest.fixture(scope="module")
def servers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerPair]:
    """Run both servers; Java's has the requested version."""
    version: str = request.param
    has_events = version == "2.3.10"
    directory = tmp_path_factory.mktemp("differential")
    # Derby need not survive a crash.
    options = (*QUICK_START, "-Dderby.system.durability=test")
    settings = JAVA_SETTINGS if version == "2.3.10" else JAVA_SETTINGS | hive_4.SETTINGS
    with (
        running_java_metastore(version, settings=settings, events=has_events, java_options=options) as java,
        metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory, "--undrop-seconds", "0") as ours,
    ):
        both = ServerPair(
            java=ComparedServer("Java", java.uri, java.warehouse),
            ours=ComparedServer("interbed", ours.uri, ours.warehouse),
            accepted=hive_4.ACCEPTED if version == "4.0.1" else (),
            has_events=has_events,
        )
        both.reset()
        yield both
        both.java.close()
        both.ours.close()


def run(machine: type[ComparingMachine], servers: ServerPair, number: int) -> None:
    """Run a machine with this number of examples, or twenty times as many when exploring."""
    machine.servers = servers
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=number * 20 if EXPLORING else examples(number),
            stateful_step_count=STEPS,
            # Each step is a call to two servers, so that its duration says nothing.
            deadline=None,
            report_multiple_bugs=False,
            # A machine that always starts in the same state needs no database of examples, and explaining failures
            # takes longer than it helps.
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


@pytest.mark.long
@pytest.mark.parametrize("servers", ["2.3.10"], indirect=True)
def test_calls_about_databases_tables_and_functions_have_the_same_outcome(servers: ServerPair) -> None:
    run(TablesMachine, servers, 120)


@pytest.mark.long
@pytest.mark.parametrize("servers", each_run(["2.3.10", "4.0.1"], lambda version: version == "2.3.10"), indirect=True)
def test_calls_about_locks_have_the_same_outcome(servers: ServerPair) -> None:
    run(LocksMachine, servers, 60)
