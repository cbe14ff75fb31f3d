"""Tables that Java writes at random are read as by Spark."""

import pytest

from interbed.iceberg.read import task_read
from tests.iceberg.java_tables import assert_alike
from tests.iceberg.random_table import RandomTable
from tests.support import shares
from tests.support.peers.iceberg import IcebergPeer
from tests.support.shares import each_run


@pytest.mark.longer
@pytest.mark.parametrize("keys_max", each_run([4_000_000, 2], lambda keys_max: keys_max == 2))
def test_random_tables_have_the_rows_that_spark_reads(
    peer: IcebergPeer, monkeypatch: pytest.MonkeyPatch, keys_max: int
) -> None:
    """Also where there are more keys than fit in memory at once."""
    monkeypatch.setattr(task_read, "KEYS_MAX", keys_max)
    for seed in range(keys_max % 100, keys_max % 100 + (20 if shares.LONG else 1)):
        random_table = RandomTable(peer, seed)
        for _ in range(12):
            random_table.step()
            assert_alike(peer, random_table.table)
