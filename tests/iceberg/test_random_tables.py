"""Tables that Java writes at random are read as by Spark."""

import pytest

from interbed.iceberg.read import task_read
from tests.iceberg.java_tables import assert_alike
from tests.iceberg.stories import Story
from tests.support import shares
from tests.support.peers.iceberg import IcebergPeer
from tests.support.shares import each_run


@pytest.mark.longer
@pytest.mark.parametrize("keys_max", each_run([4_000_000, 2], lambda keys_max: keys_max == 2))
def test_rows_are_those_of_spark_whatever_was_done(
    peer: IcebergPeer, monkeypatch: pytest.MonkeyPatch, keys_max: int
) -> None:
    """Also where there are more keys than are in memory at once."""
    monkeypatch.setattr(task_read, "KEYS_MAX", keys_max)
    for seed in range(keys_max % 100, keys_max % 100 + (20 if shares.LONG else 1)):
        story = Story(peer, seed)
        for _ in range(12):
            story.step()
            assert_alike(peer, story.table)
