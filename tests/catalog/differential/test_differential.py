"""Random sequences of calls to interbed and to Hive's metastores: the same answers, exceptions and directories.

Version 2.3.10, with its notification log, is asked about locks in each run, and about all else in the long ones, which
ask 4.0.1 about locks, too.

The examples are the same in every run; `HYPOTHESIS_PROFILE=explore` draws many new ones. README.md lists what differs
on purpose.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.catalog.differential import hive_4
from tests.catalog.differential.machine import Machine
from tests.catalog.differential.machine_locks import LocksMachine
from tests.catalog.differential.machine_tables import TablesMachine
from tests.catalog.differential.sides import Side, Sides
from tests.support.examples import EXPLORING, examples
from tests.support.servers.java_metastore import QUICK_START, running_java_metastore
from tests.support.servers.metastore import metastore_under_test
from tests.support.shares import each_run

STEPS = 25

JAVA_SETTINGS = {
    # Java tries again after each error of its database, some of which are bad input.
    "hive.hmshandler.retry.attempts": "1",
    "hive.hmshandler.retry.interval": "1ms",
    # Interbed lets columns change their types, and says so when it is asked for the value.
    "hive.metastore.disallow.incompatible.col.type.changes": "false",
}


@pytest.fixture(scope="module")
def sides(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Both servers, running; Java's of the version that is asked for."""
    version: str = request.param
    has_events = version == "2.3.10"
    directory = tmp_path_factory.mktemp("differential")
    # Nothing here has to outlive a crash of Derby.
    options = (*QUICK_START, "-Dderby.system.durability=test")
    settings = JAVA_SETTINGS if version == "2.3.10" else JAVA_SETTINGS | hive_4.SETTINGS
    with (
        running_java_metastore(version, settings=settings, events=has_events, java_options=options) as java,
        metastore_under_test(f"sqlite:///{directory / 'metastore.db'}", directory) as ours,
    ):
        both = Sides(
            java=Side("Java", java.uri, java.warehouse),
            ours=Side("interbed", ours.uri, ours.warehouse),
            kept=hive_4.KEPT if version == "4.0.1" else (),
            has_events=has_events,
        )
        both.reset()
        yield both
        both.java.close()
        both.ours.close()


def run(machine: type[Machine], sides: Sides, number: int) -> None:
    """Run a machine: so many examples, or twenty times as many when exploring."""
    machine.sides = sides
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=number * 20 if EXPLORING else examples(number),
            stateful_step_count=STEPS,
            # Each step is a call to two servers; no time says anything here.
            deadline=None,
            report_multiple_bugs=False,
            # A machine that starts with the same state every time needs no database of examples, and explaining takes
            # longer than it helps.
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


@pytest.mark.long
@pytest.mark.parametrize("sides", ["2.3.10"], indirect=True)
def test_databases_tables_and_functions_are_answered_for_alike(sides: Sides) -> None:
    run(TablesMachine, sides, 120)


@pytest.mark.long
@pytest.mark.parametrize("sides", each_run(["2.3.10", "4.0.1"], lambda version: version == "2.3.10"), indirect=True)
def test_locks_are_answered_for_alike(sides: Sides) -> None:
    run(LocksMachine, sides, 60)
