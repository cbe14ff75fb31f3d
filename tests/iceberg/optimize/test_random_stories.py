"""Tables that Java writes at random have the same rows after each of our rewrites, for us and for Spark."""

import random

import pytest

from interbed.iceberg.opening import load_iceberg_table
from interbed.iceberg.table import IcebergTable
from tests.iceberg.java_tables import assert_alike
from tests.iceberg.stories import Story
from tests.support import shares
from tests.support.peers.iceberg import IcebergPeer

MODES = ("minor", "major", "full")


def opened(peer: IcebergPeer, table: str) -> IcebergTable:
    """The table by its directory, where it can be changed."""
    return load_iceberg_table(peer.metadata(table).partition("/metadata/")[0], name=table)


@pytest.mark.longer
def test_rows_are_as_before_after_each_rewrite_whatever_was_done(peer: IcebergPeer) -> None:
    for seed in range(100, 120 if shares.LONG else 101):
        story = Story(peer, seed)
        dice = random.Random(seed)
        peer.run(f"ALTER TABLE {story.table} SET TBLPROPERTIES ('self-optimizing.minor.trigger.file-count'='2')")
        for _ in range(12):
            story.step()
            if dice.random() < 0.5:
                continue
            before = assert_alike(peer, story.table)
            mode = dice.choice(MODES)
            result = opened(peer, story.table).compact(mode=mode)
            assert assert_alike(peer, story.table) == before, (seed, mode, result)
            kinds = {file.content for file in peer.files(story.table)}
            assert "equality_deletes" not in kinds, (seed, mode, result)
            if mode == "full":
                assert kinds <= {"data"}, (seed, result)
