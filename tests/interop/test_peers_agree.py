"""The peers read each other's tables, within the limits that README.md names."""

from pathlib import Path
from typing import Any

import pytest

from tests.golden.values import SCALARS
from tests.interop.limits import PEERS, Peer, holds_key, holds_partition, values_held_by
from tests.support.peers.java import JavaPaimon, JavaTable
from tests.support.peers.json import comparable, parse_type
from tests.support.peers.pypaimon import PyPaimon, PyPaimonTable


class SharedWarehouse:
    """One warehouse, opened by each of the peers."""

    def __init__(self, java: JavaPaimon, python: PyPaimon, warehouse: Path) -> None:
        self._java, self._python, self._warehouse = java, python, warehouse

    def table(self, peer: Peer, name: str) -> JavaTable | PyPaimonTable:
        if peer == "java":
            return self._java.table(self._warehouse, f"db.{name}")
        assert peer != "interbed"
        return self._python.table(self._warehouse, f"db.{name}", peer)


@pytest.fixture
def peers(java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path) -> SharedWarehouse:
    return SharedWarehouse(java_paimon, pypaimon, tmp_path)


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("writer", PEERS)
def test_every_peer_reads_all_types_of_every_writer(peers: SharedWarehouse, writer: Peer, keyed: bool) -> None:
    held = values_held_by(*PEERS)
    columns = [("id", "INT NOT NULL"), *((f"c{i}", of) for i, (of, _) in enumerate(held))]
    types = [parse_type(of) for _, of in columns]
    options = {"bucket": "2", "write-only": "true"} if keyed else {}
    peers.table("java", "t").create(columns, primary_keys=["id"] if keyed else [], options=options)
    turns = max(len(values) for _, values in held)
    rows: list[list[Any]] = [[i, *(values[i % len(values)] for _, values in held)] for i in range(turns)]
    rows.append([turns, *(None for _ in held)])
    peers.table(writer, "t").write(rows)
    peers.table(writer, "t").write([[0, *rows[1][1:]]])
    rows = [[0, *rows[1][1:]], *(rows[1:] if keyed else rows)]
    for reader in PEERS:
        assert peers.table(reader, "t").read().comparable() == comparable(rows, types)


@pytest.mark.parametrize("writer", ["python", "rust"])
@pytest.mark.parametrize("of", [of for of in SCALARS if holds_key("python", of)])
def test_peers_put_equal_keys_into_equal_buckets(peers: SharedWarehouse, writer: Peer, of: str) -> None:
    columns = [("k", f"{of} NOT NULL"), ("v", "STRING")]
    peers.table("java", "t").create(columns, primary_keys=["k"], options={"bucket": "5", "write-only": "true"})
    keys = list(dict.fromkeys(SCALARS[of]))
    peers.table("java", "t").write([[key, "java"] for key in keys])
    peers.table(writer, "t").write([[key, writer] for key in keys])
    assert peers.table("java", "t").read().comparable() == comparable(
        [[key, writer] for key in keys], [parse_type(of) for _, of in columns]
    )


@pytest.mark.parametrize("writer", PEERS)
def test_peers_read_each_others_partitions(peers: SharedWarehouse, writer: Peer) -> None:
    held = [of for of in SCALARS if all(holds_partition(peer, of) for peer in PEERS)]
    columns = [("id", "INT"), *((f"p{i}", of) for i, of in enumerate(held))]
    types = [parse_type(of) for _, of in columns]
    peers.table("java", "t").create(columns, partition_keys=[name for name, _ in columns[1:]])
    rows: list[list[Any]] = [[i, *(SCALARS[of][i % len(SCALARS[of])] for of in held)] for i in range(8)]
    rows.append([8, *(None for _ in held)])
    peers.table(writer, "t").write(rows)
    for reader in PEERS:
        assert peers.table(reader, "t").read().comparable() == comparable(rows, types)


def test_all_peers_respect_a_deletion_by_pypaimon(peers: SharedWarehouse) -> None:
    columns = [("id", "INT NOT NULL"), ("v", "STRING"), ("kind", "STRING")]
    peers.table("java", "t").create(columns, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    peers.table("java", "t").write([[1, "a", "+I"], [2, "b", "+I"]])
    by_kind = {"rowkind.field": "kind"}
    peers.table("python", "t").write([[1, "a", "-D"], [3, "c", "+I"]], options=by_kind)
    for reader in PEERS:
        assert sorted(row[0] for row in peers.table(reader, "t").read().rows) == [2, 3]


@pytest.mark.parametrize("reader", PEERS)
def test_filters_projections_and_time_travel_agree(peers: SharedWarehouse, reader: Peer) -> None:
    columns = [("id", "INT NOT NULL"), ("name", "STRING"), ("ts", "TIMESTAMP(3)")]
    table = peers.table("java", "t")
    table.create(columns, primary_keys=["id"], options={"bucket": "1", "write-only": "true"})
    table.write([[i, None if i == 5 else f"n{i}", i * 1_000_000] for i in range(10)])
    table.write([[3, "changed", None]])
    seen = peers.table(reader, "t")

    def ids(node: dict[str, Any], **arguments: Any) -> list[int]:
        return sorted(row[0] for row in seen.read(columns=["id"], filter=node, **arguments).rows)

    assert ids({"op": ">=", "field": "id", "value": 7}) == [7, 8, 9]
    assert ids({"op": "=", "field": "name", "value": "changed"}) == [3]
    assert ids({"op": "is null", "field": "name"}) == [5]
    assert ids({"op": "in", "field": "ts", "value": [2_000_000, 4_000_000]}) == [2, 4]
    either = {"op": "or", "args": [{"op": "=", "field": "id", "value": i} for i in (1, 3)]}
    assert ids(either) == [1, 3]
    assert ids({"op": "=", "field": "name", "value": "n3"}, snapshot_id=1) == [3]
