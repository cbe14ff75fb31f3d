"""Random tables, written in turns by all implementations, have the same rows for each of them."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.interop.limits import PEERS, Peer, holds_key, holds_partition, holds_value
from tests.interop.strategies import RANDOM, TableHistory, append_histories, keyed_histories
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import TypeJson, comparable
from tests.support.peers.pypaimon import PyPaimon

# Java Paimon alone supports nearly every type, all four together fewer: see limits.py.
CIRCLES: list[tuple[Peer, ...]] = [("interbed", "java"), ("interbed", *PEERS)]


class PeerWarehouse:
    """Warehouse with a new table for each example, opened by every peer."""

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
def peer_warehouse(java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path) -> PeerWarehouse:
    return PeerWarehouse(java_paimon, pypaimon, tmp_path)


def supported(by: tuple[Peer, ...], holds: Callable[[Peer, TypeJson], bool]) -> Callable[[TypeJson], bool]:
    return lambda of: all(holds(peer, of) for peer in by)


def limits(peers: tuple[Peer, ...]) -> dict[str, Any]:
    return {
        "value": supported(peers, holds_value),
        "key": supported(peers, holds_key),
        "partition": supported(peers, holds_partition),
    }


def replay(history: TableHistory, tables: dict[Peer, Any], data: st.DataObject) -> None:
    """Create the table and make each commit by a drawn peer; all peers must read the model's rows after each."""
    creator = data.draw(st.sampled_from(list(tables)), label="creator")
    tables[creator].create(
        history.columns,
        primary_keys=history.primary_keys,
        partition_keys=history.partition_keys,
        options=history.options,
    )
    compacted_after = data.draw(st.integers(1, len(history.commits)), label="compacted after")
    for number, commit in enumerate(history.commits, 1):
        kinds = [kind for kind, _ in commit]
        # pypaimon deletes only through rowkind.field, pypaimon-rust does not delete.
        able = [peer for peer in tables if peer in ("interbed", "java") or "-D" not in kinds]
        writer = data.draw(st.sampled_from(able), label=f"writer {number}")
        rows = [row for _, row in commit]
        if writer in ("python", "rust"):
            tables[writer].write(rows)
        else:
            tables[writer].write(rows, kinds=kinds)
        check(history, tables, number)
        if number == compacted_after:
            compactor: Peer = data.draw(st.sampled_from(["interbed", "java"]), label="compactor")
            tables[compactor].compact()
            check(history, tables, number)


def check(history: TableHistory, tables: dict[Peer, Any], commits: int) -> None:
    expected = comparable(history.rows_after(commits), history.types)
    for reader, table in tables.items():
        assert table.read().comparable() == expected, reader


@pytest.mark.parametrize("peers", CIRCLES, ids="-".join)
@pytest.mark.longer
def test_keyed_tables_have_the_same_rows_for_all_peers(peer_warehouse: PeerWarehouse, peers: tuple[Peer, ...]) -> None:
    @RANDOM
    @given(history=keyed_histories(**limits(peers), dynamic="rust" not in peers), data=st.data())
    def run(history: TableHistory, data: st.DataObject) -> None:
        replay(history, peer_warehouse.tables(peers), data)

    run()


@pytest.mark.parametrize("peers", CIRCLES, ids="-".join)
@pytest.mark.longer
def test_append_tables_have_the_same_rows_for_all_peers(peer_warehouse: PeerWarehouse, peers: tuple[Peer, ...]) -> None:
    histories = append_histories(**limits(peers), null_partition_with_buckets="python" not in peers)

    @RANDOM
    @given(history=histories, data=st.data())
    def run(history: TableHistory, data: st.DataObject) -> None:
        replay(history, peer_warehouse.tables(peers), data)

    run()
