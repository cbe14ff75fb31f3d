"""An optimization or an expiry that is killed with -9 at any of its steps loses no row and has none twice."""

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
"""More than there are."""


@pytest.mark.long
@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_there_once_whatever_step_it_was_killed_at(peer: IcebergPeer, version: int) -> None:
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
        # Whoever comes next makes an end of it, lest there are more steps each time.
        assert run_killed(location, "minor", action, STEPS * 100) == 0
        assert len(opened(peer, table).scan().to_arrow()) == len(expected)
        step += dice.randint(1, 3)
    # At last no step was left to be killed at.
    assert set(ends[:-1]) == {-signal.SIGKILL}
    assert ends[-1] == 0
    found = opened(peer, table)
    assert len(assert_alike(peer, table)) == len(expected)
    time_of_now = int(time.time() * 1000)
    found.remove_orphan_files(older_than=time_of_now)
    assert {path for path in unnamed(found) if not path.endswith((".crc", "version-hint.text"))} == set()
    found.compact()
    assert len(assert_alike(peer, table)) == len(expected)
