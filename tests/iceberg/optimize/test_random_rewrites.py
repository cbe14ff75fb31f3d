"""Tables that Java writes at random have the same rows after each rewrite by interbed, for interbed and for Spark."""

import random

import pytest

from interbed.iceberg.table import IcebergTable, load_iceberg_table
from tests.iceberg.java_tables import assert_alike
from tests.iceberg.random_table import RandomTable
from tests.support import shares
from tests.support.peers.iceberg import IcebergPeer

MODES = ("minor", "major", "full")


def opened(peer: IcebergPeer, table: str) -> IcebergTable:
    """Open the table by its directory, for changes."""
    return load_iceberg_table(peer.metadata(table).partition("/metadata/")[0], name=table)


@pytest.mark.longer
def test_each_rewrite_keeps_the_rows_of_a_random_table(peer: IcebergPeer) -> None:
    for seed in range(100, 120 if shares.LONG else 101):
        random_table = RandomTable(peer, seed)
        dice = random.Random(seed)
        peer.run(f"ALTER TABLE {random_table.table} SET TBLPROPERTIES ('self-optimizing.minor.trigger.file-count'='2')")
        for _ in range(12):
            random_table.step()
            if dice.random() < 0.5:
                continue
            before = assert_alike(peer, random_table.table)
            mode = dice.choice(MODES)
            result = opened(peer, random_table.table).compact(mode=mode)
            assert assert_alike(peer, random_table.table) == before, (seed, mode, result)
            kinds = {file.content for file in peer.files(random_table.table)}
            assert "equality_deletes" not in kinds, (seed, mode, result)
            if mode == "full":
                assert kinds <= {"data"}, (seed, result)
