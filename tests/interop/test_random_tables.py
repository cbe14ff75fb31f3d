"""Random tables, written in turns by every implementation, hold the same rows for each of them."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.limits import PEERS, Peer, holds_key, holds_partition, holds_value
from tests.interop.strategies import RANDOM, Story, append_stories, keyed_stories
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import TypeJson, comparable
from tests.support.peers.pypaimon import PyPaimon

# Java Paimon holds nearly every type, all four together fewer; limits.py knows.
CIRCLES: list[tuple[Peer, ...]] = [("interbed", "java"), ("interbed", *PEERS)]


class World:
    """A fresh table a story, seen by every peer."""

    def __init__(self, java: JavaPaimon, python: PyPaimon, directory: Path) -> None:
        self._java, self._python, self._directory = java, python, directory
        self._count = itertools.count()

    def tables(self, peers: tuple[Peer, ...]) -> dict[Peer, Any]:
        warehouse = self._directory / f"w{next(self._count)}"
        tables: dict[Peer, Any] = {}
        for peer in peers:
            if peer == "interbed":
                tables[peer] = interbed_table(warehouse, "db.t")
            elif peer == "java":
                tables[peer] = self._java.table(warehouse, "db.t")
            else:
                tables[peer] = self._python.table(warehouse, "db.t", peer)
        return tables


@pytest.fixture
def world(java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path) -> World:
    return World(java_paimon, pypaimon, tmp_path)


def held(by: tuple[Peer, ...], holds: Callable[[Peer, TypeJson], bool]) -> Callable[[TypeJson], bool]:
    return lambda of: all(holds(peer, of) for peer in by)


def limits(peers: tuple[Peer, ...]) -> dict[str, Any]:
    return {"value": held(peers, holds_value), "key": held(peers, holds_key), "partition": held(peers, holds_partition)}


def tell(story: Story, tables: dict[Peer, Any], data: st.DataObject) -> None:
    """Let a drawn peer make the table and each commit; every peer must see the model's rows after each."""
    creator = data.draw(st.sampled_from(list(tables)), label="creator")
    tables[creator].create(
        story.columns, primary_keys=story.primary_keys, partition_keys=story.partition_keys, options=story.options
    )
    compacted_after = data.draw(st.integers(1, len(story.commits)), label="compacted after")
    for number, commit in enumerate(story.commits, 1):
        kinds = [kind for kind, _ in commit]
        # pypaimon deletes through rowkind.field only, pypaimon-rust not at all.
        able = [peer for peer in tables if peer in ("interbed", "java") or "-D" not in kinds]
        writer = data.draw(st.sampled_from(able), label=f"writer {number}")
        rows = [row for _, row in commit]
        if writer in ("python", "rust"):
            tables[writer].write(rows)
        else:
            tables[writer].write(rows, kinds=kinds)
        check(story, tables, number)
        if number == compacted_after:
            compactor: Peer = data.draw(st.sampled_from(["interbed", "java"]), label="compactor")
            tables[compactor].compact()
            check(story, tables, number)


def check(story: Story, tables: dict[Peer, Any], commits: int) -> None:
    expected = comparable(story.rows_after(commits), story.types)
    for reader, table in tables.items():
        assert table.read().comparable() == expected, reader


@pytest.mark.parametrize("peers", CIRCLES, ids="-".join)
@pytest.mark.longer
def test_keyed_tables_hold_the_same_rows_for_all(world: World, peers: tuple[Peer, ...]) -> None:
    @RANDOM
    @given(story=keyed_stories(**limits(peers), dynamic="rust" not in peers), data=st.data())
    def run(story: Story, data: st.DataObject) -> None:
        tell(story, world.tables(peers), data)

    run()


@pytest.mark.parametrize("peers", CIRCLES, ids="-".join)
@pytest.mark.longer
def test_append_tables_hold_the_same_rows_for_all(world: World, peers: tuple[Peer, ...]) -> None:
    stories = append_stories(**limits(peers), null_partition_with_buckets="python" not in peers)

    @RANDOM
    @given(story=stories, data=st.data())
    def run(story: Story, data: st.DataObject) -> None:
        tell(story, world.tables(peers), data)

    run()
