"""An optimization or an expiry that is killed (SIGKILL) at any step loses and duplicates no row."""

import random
import signal
import time

import pytest

from interbed.storage.io.faults import FaultAction
from tests.iceberg.java_tables import assert_alike, ordered
from tests.iceberg.optimize.killed import run_killed
from tests.iceberg.optimize.tables import opened
from tests.iceberg.optimize.test_races import unnamed
from tests.support.peers.iceberg import IcebergPeer

STEPS = 200
"""Upper bound of the number of steps."""


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_a_kill_at_any_step_neither_loses_nor_duplicates_rows(peer: IcebergPeer, version: int) -> None:
    dice = random.Random(version)
    table = peer.new_table("id INT, v STRING", version)
    location = opened(peer, table).location
    expected: dict[int, str] = {}
    ends = []
    step = 0
    for number in range(STEPS):
        first = number * 100
        peer.append(table, [[first + one, f"r{number}"] for one in range(20)])
        expected.update((first + one, f"r{number}") for one in range(20))
        gone = dice.sample(sorted(expected), 3)
        peer.equality_delete(table, ["id"], [[key] for key in gone])
        for key in gone:
            del expected[key]
        action = dice.choice([FaultAction.KILL_BEFORE, FaultAction.KILL_AFTER])
        ends.append(run_killed(location, dice.choice(["minor", "full"]), action, step))
        rows = opened(peer, table).scan().to_arrow()
        assert ordered(rows) == sorted(expected.items(), key=repr), (number, action, step)
        if ends[-1] == 0:
            break
        # The next process finishes the work; without that, the number of steps would grow from kill to kill.
        assert run_killed(location, "minor", action, STEPS * 100) == 0
        assert len(opened(peer, table).scan().to_arrow()) == len(expected)
        step += dice.randint(1, 3)
    # The last run ended because no step was left to be killed at.
    assert set(ends[:-1]) == {-signal.SIGKILL}
    assert ends[-1] == 0
    found = opened(peer, table)
    assert len(assert_alike(peer, table)) == len(expected)
    time_of_now = int(time.time() * 1000)
    found.remove_orphan_files(older_than=time_of_now)
    assert {path for path in unnamed(found) if not path.endswith((".crc", "version-hint.text"))} == set()
    found.compact()
    assert len(assert_alike(peer, table)) == len(expected)
