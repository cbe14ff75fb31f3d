"""Values of every type, extremes included, are equal for interbed and the peers as columns, keys and partitions."""

from pathlib import Path
from typing import Any

import pytest

from tests.golden.tables import ODD_STRINGS
from tests.golden.values import SCALARS
from tests.interop.limits import PEERS, Peer, holds_key, holds_partition, values_held_by
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.json import comparable, parse_type
from tests.support.peers.pypaimon import PyPaimon
from tests.support.shares import pairwise

# Java Paimon supports nearly every type, all peers together fewer.
CIRCLES: list[tuple[Peer, ...]] = [("interbed", "java"), ("interbed", *PEERS)]


@pytest.fixture
def tables(java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path) -> dict[Peer, Any]:
    """Return one table, opened by each of the peers."""
    return {
        "interbed": interbed_table(tmp_path, "db.t"),
        "java": java_paimon.table(tmp_path, "db.t"),
        "python": pypaimon.table(tmp_path, "db.t", "python"),
        "rust": pypaimon.table(tmp_path, "db.t", "rust"),
    }


@pytest.mark.parametrize(("circle", "keyed", "bucket"), pairwise(CIRCLES, [True, False], [None, "2"]))
def test_all_peers_read_all_types_before_and_after_a_compaction(
    tables: dict[Peer, Any], circle: tuple[Peer, ...], keyed: bool, bucket: str | None
) -> None:
    held = values_held_by(*circle)
    columns = [("id", "INT NOT NULL"), *((f"c{i}", of) for i, (of, _) in enumerate(held))]
    types = [parse_type(of) for _, of in columns]
    options = {"bucket": bucket or "1", "write-only": "true"} if keyed else {}
    if bucket and not keyed:
        options = {"bucket": bucket, "bucket-key": "id"}
    tables["interbed"].create(columns, primary_keys=["id"] if keyed else [], options=options)
    turns = max(len(values) for _, values in held)
    rows: list[list[Any]] = [[i, *(values[i % len(values)] for _, values in held)] for i in range(turns)]
    rows.append([turns, *(None for _ in held)])

    def assert_all_read(expected: list[list[Any]]) -> None:
        for reader in circle:
            assert tables[reader].read().comparable() == comparable(expected, types), reader

    tables["interbed"].write(rows)
    assert_all_read(rows)
    again = [[0, *rows[1][1:]], [turns + 1, *rows[2][1:]]]
    tables["java"].write(again)
    rows = [*(rows[1:] if keyed else rows), *again]
    if keyed:
        tables["interbed"].write([rows[3]], kinds=["-D"])
        rows.pop(3)
    assert_all_read(rows)
    tables["interbed"].compact()
    assert_all_read(rows)
    tables["interbed"].write(rows[-1:])
    tables["java"].compact()
    assert_all_read(rows if keyed else [*rows, rows[-1]])


@pytest.mark.sample(8)
@pytest.mark.parametrize("of", [of for of in SCALARS if holds_key("java", of)])
def test_interbed_and_java_replace_each_others_rows_by_keys_of_any_type(tables: dict[Peer, Any], of: str) -> None:
    columns = [("k", f"{of} NOT NULL"), ("v", "STRING")]
    types = [parse_type(t) for _, t in columns]
    tables["interbed"].create(columns, primary_keys=["k"], options={"bucket": "3", "write-only": "true"})
    # When Java Paimon merges files, it takes NaN for any other key and -0.0 for 0.0.
    keys = [key for key in dict.fromkeys(SCALARS[of]) if key not in ("NaN", "-0.0")]
    tables["java"].write([[key, "java"] for key in keys])
    tables["interbed"].write([[key, "interbed"] for key in keys])
    expected = comparable([[key, "interbed"] for key in keys], types)
    assert tables["java"].read().comparable() == expected
    assert tables["interbed"].read().comparable() == expected
    tables["interbed"].compact()
    tables["java"].write([[keys[0], "last"]])
    expected = comparable([[keys[0], "last"], *([key, "interbed"] for key in keys[1:])], types)
    assert tables["java"].read().comparable() == expected
    assert tables["interbed"].read().comparable() == expected


@pytest.mark.parametrize("legacy", ["true", "false"])
@pytest.mark.parametrize("circle", CIRCLES, ids="-".join)
def test_all_peers_find_partitions_of_any_type(tables: dict[Peer, Any], circle: tuple[Peer, ...], legacy: str) -> None:
    # TIME partitions under another name than Java's are a limit of pypaimon-rust.
    lacking = {"TIME(0)", "TIME(3)"} if legacy == "false" and "rust" in circle else set()
    held = [of for of in SCALARS if of not in lacking and all(holds_partition(peer, of) for peer in circle)]
    columns = [("id", "INT"), *((f"p{i}", of) for i, of in enumerate(held))]
    types = [parse_type(of) for _, of in columns]
    tables["interbed"].create(
        columns, partition_keys=[name for name, _ in columns[1:]], options={"partition.legacy-name": legacy}
    )
    rows: list[list[Any]] = [[i, *(SCALARS[of][i % len(SCALARS[of])] for of in held)] for i in range(8)]
    rows.append([8, *(None for _ in held)])
    for writer in ("interbed", "java"):
        tables[writer].write(rows)
    for reader in circle:
        assert tables[reader].read().comparable() == comparable([*rows, *rows], types), reader
    # Both put the rows of a partition into one directory, so either can overwrite the partition.
    tables["java"].write(rows, overwrite={})
    assert tables["interbed"].read().comparable() == comparable(rows, types)


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
def test_all_peers_find_partitions_whose_names_need_escaping(tables: dict[Peer, Any], keyed: bool) -> None:
    names = [name for name in ODD_STRINGS if name is not None or not keyed]
    columns = [("id", "INT NOT NULL"), ("p", "STRING NOT NULL" if keyed else "STRING"), ("v", "INT")]
    types = [parse_type(of) for _, of in columns]
    options = {"bucket": "1", "write-only": "true"} if keyed else {}
    tables["interbed"].create(columns, primary_keys=["p", "id"] if keyed else [], partition_keys=["p"], options=options)
    rows = [[i, name, i] for i, name in enumerate(names)]
    tables["interbed"].write(rows)
    tables["java"].write(rows)
    expected = comparable(rows if keyed else [*rows, *rows], types)
    for reader, table in tables.items():
        assert table.read().comparable() == expected, reader
    for name in names:
        condition = "p is null" if name is None else "p = '{}'".format(name.replace("'", "''"))
        found = tables["interbed"].read(filter=condition).comparable()
        assert found == [row for row in expected if row[1] == name], name
    tables["interbed"].compact()
    for reader, table in tables.items():
        assert table.read().comparable() == expected, reader
