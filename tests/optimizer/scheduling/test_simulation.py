"""Hours of a simulated catalog with writers: waiting times, shares of groups, and the health of tables."""

import random
from collections.abc import Iterator

import pytest

from interbed.optimizer.flow.process import ProcessState
from interbed.optimizer.flow.tables import GroupPolicy, ResourceGroup
from tests.optimizer.scheduling.simulation import FIRST, Simulation, WriteLoad
from tests.support.tally import Tally

MINUTE, HOUR = 60, 3_600


def loads(number: int, seed: int, *, minutes: tuple[int, ...] = (1, 5, 10, 30, 60)) -> dict[str, WriteLoad]:
    """Return loads of tables that are written to at different mean intervals."""
    dice = random.Random(seed)
    return {
        f"db.t{n}": WriteLoad(
            rows=dice.choice([4, 8, 16, 32]),
            interval_millis=dice.choice(minutes) * 60_000,
            options={"self-optimizing.max-read-amplification": "3"} if n % 4 == 0 else {},
            buckets=dice.choice([1, 1, 1, 2]),
        )
        for n in range(number)
    }


def neglected(simulation: Simulation, commits: int = 9) -> None:
    """Write to all tables for a long time before any optimizing."""
    dice = random.Random(9)
    for table in simulation.tables.values():
        for _ in range(dice.randrange(1, commits)):
            table.write(FIRST)


def hours(simulation: Simulation, seconds: int) -> Iterator[int]:
    """Yield the minutes of a period, one after another."""
    for minute in range(seconds // MINUTE):
        simulation.run(MINUTE)
        yield minute


@pytest.mark.parametrize("policy", GroupPolicy)
def test_with_enough_workers_no_table_waits_and_scores_recover(policy: GroupPolicy) -> None:
    simulation = Simulation(loads(60, 1), {"default": ResourceGroup(policy=policy)})
    neglected(simulation)
    worst, mean = min(simulation.scores()), simulation.mean_score()
    simulation.worker(4)
    simulation.run(30 * MINUTE)
    assert simulation.ended.keys() == {ProcessState.SUCCEEDED}
    assert max(waited for waited, _ in simulation.waits) <= 60_000
    assert min(simulation.scores()) > worst + 10
    assert simulation.mean_score() > mean + 5
    for state in simulation.scheduler.tables():
        assert state.summary is not None
        bound = 3 if "self-optimizing.max-read-amplification" in simulation.tables[state.name].options else 5
        # A due compaction may just be running, or its table was written to in this second.
        assert state.summary.read_amplification <= bound + 2


@pytest.mark.parametrize("policy", GroupPolicy)
def test_with_too_few_workers_every_table_is_served(policy: GroupPolicy) -> None:
    """All tables become due repeatedly, and need several times the available workers."""
    many = {f"db.t{n}": WriteLoad(rows=32, interval_millis=10_000, keys=128) for n in range(12)}
    group = ResourceGroup(policy=policy, window_millis=600_000)
    simulation = Simulation(many, {"default": group}, megabytes_per_second=10)
    simulation.worker(1)
    simulation.run(40 * MINUTE)
    served = {table for _, table in simulation.waits}
    assert served == set(many)
    used = [simulation.used(name, 40 * MINUTE) for name in many]
    assert sum(used) > 0.9 * 40 * MINUTE
    longest = max(end - start for name in many for start, end in simulation.busy[name]) / 1_000
    if policy is GroupPolicy.QUOTA:
        # Some tables have been served once more than others.
        assert max(used) - min(used) < 1.5 * longest
    # When all are served in turn, each waits for all others.
    assert max(waited for waited, _ in simulation.waits) / 1_000 < 3 * len(many) * longest


@pytest.mark.long
def test_a_table_is_limited_to_its_share_only_while_another_waits() -> None:
    window = 10 * MINUTE
    group = ResourceGroup(window_millis=window * 1_000)
    greedy = {"self-optimizing.quota": "0.2", "self-optimizing.minor.trigger.file-count": "2"}
    many = {"db.greedy": WriteLoad(rows=16, interval_millis=1_000, keys=128, options=greedy, buckets=4)}
    many |= {f"db.t{n}": WriteLoad(rows=32, interval_millis=10_000, keys=128) for n in range(8)}
    simulation = Simulation(many, {"default": group}, megabytes_per_second=10)
    simulation.worker(2)
    for minute in hours(simulation, 40 * MINUTE):
        if minute * MINUTE >= window:
            assert simulation.used("db.greedy", window) <= 0.2 * 2 * window * 1.1
    assert simulation.used("db.greedy", 40 * MINUTE) > 0
    for name in many:
        if name != "db.greedy":
            simulation.tables[name].load.interval_millis = 10 * HOUR * 1_000
    simulation.run(60 * MINUTE)
    assert simulation.used("db.greedy", window) > 0.5 * window


@pytest.mark.parametrize("policy", GroupPolicy)
def test_decisions_are_determined_by_the_seed(policy: GroupPolicy) -> None:
    digests = []
    for seed in (1, 1, 2):
        simulation = Simulation(loads(30, seed), {"default": ResourceGroup(policy=policy)}, seed=seed)
        simulation.worker(2)
        simulation.worker(1)
        simulation.run(15 * MINUTE)
        digests.append(simulation.digest.hexdigest())
    assert digests[0] == digests[1] != digests[2]


def test_groups_change_while_their_workers_work() -> None:
    groups = {name: ResourceGroup(name=name) for name in ("default", "night")}
    simulation = Simulation(loads(40, 3, minutes=(1, 5)), groups)
    simulation.worker(1)
    simulation.worker(1, "night")
    simulation.run(5 * MINUTE)
    for number, table in enumerate(simulation.tables.values()):
        if number % 2:
            table.options["self-optimizing.group"] = "night"
    simulation.run(10 * MINUTE)
    before = {name for name, table in simulation.tables.items() if "self-optimizing.group" in table.options}
    simulation.waits.clear()
    simulation.scheduler.set_groups({"default": ResourceGroup(policy=GroupPolicy.BALANCED, window_millis=60_000)})
    simulation.run(10 * MINUTE)
    assert {table for _, table in simulation.waits}.isdisjoint(before)
    assert all(process.table not in before for process in simulation.scheduler.processes())
    simulation.scheduler.set_groups(groups)
    simulation.run(20 * MINUTE)
    assert {table for _, table in simulation.waits} & before
    assert set(simulation.ended) <= {ProcessState.SUCCEEDED, ProcessState.CANCELLED}


@pytest.mark.long
@pytest.mark.parametrize("policy", GroupPolicy)
def test_ten_thousand_tables_over_some_hours(policy: GroupPolicy, tally: Tally) -> None:
    groups = {"default": ResourceGroup(policy=policy), "other": ResourceGroup(name="other", policy=policy)}
    simulation = Simulation(loads(10_000, 5, minutes=(20, 60, 240)), groups, tick_millis=5_000)
    for number, table in enumerate(simulation.tables.values()):
        if number % 10 == 0:
            table.options["self-optimizing.group"] = "other"
    neglected(simulation)
    worst, mean = min(simulation.scores()), simulation.mean_score()
    for _ in range(8):
        simulation.worker(4)
    simulation.worker(4, "other")
    # After an hour the interval of minor compactions expires for all tables at once.
    simulation.run(90 * MINUTE)
    assert max(waited for waited, _ in simulation.waits) < 30 * 60_000
    simulation.waits.clear()
    simulation.run(30 * MINUTE)
    assert max(waited for waited, _ in simulation.waits) < 60_000
    assert simulation.ended.keys() == {ProcessState.SUCCEEDED}
    assert min(simulation.scores()) > worst
    assert simulation.mean_score() > mean + 5
    tally("simulated processes", simulation.ended.total())
