"""Two Iceberg tables, written by Iceberg's own code and cached with the peers for the next run.

Both have the same rows in the same number of data files, and the same position deletes. One of them also has equality
deletes by id, committed after each of its files, so that those of one commit apply to all the files before. Ids are
scattered: each file has ids of the whole range, as in a table that is not sorted by its key.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.support.peers.cache import built_once, cache_directory, fingerprint
from tests.support.peers.iceberg import IcebergPeer, position_delete

FILES = 20
KEYS_OF_A_FILE = 10_000
POSITION_FILES_OF_A_FILE = 2
POSITIONS = 3_000
DELETES = {"all deletes": True, "position deletes": False}
"""Whether the table has equality deletes, by name."""

_COLUMNS = (
    "id BIGINT NOT NULL, amount BIGINT, price DOUBLE, tax DOUBLE, code STRING, city STRING, note STRING, "
    "made TIMESTAMP, changed TIMESTAMP"
)
_PROPERTIES = "'write.target-file-size-bytes'='10000000'"
"""Properties with which no data file counts as small."""
_STRIDE = 7919
"""Coprime to the numbers of rows, so that its multiples cover all ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergTables:
    """Metadata file of each table, the warehouse that Spark finds them in as `ice.db.`, and their names there."""

    warehouse: Path
    metadata: dict[str, str]
    names: dict[str, str]


def written_tables(rows: int) -> IcebergTables:
    """Return the tables; they are written if this machine lacks them."""
    name = f"iceberg-bench-{rows}-{fingerprint(Path(__file__))}"
    # Metadata refer to files by absolute paths, so the warehouse can't be built elsewhere and renamed.
    warehouse = cache_directory() / f"{name}-lake"

    def build(directory: Path) -> None:
        shutil.rmtree(warehouse, ignore_errors=True)
        (directory / "tables.json").write_text(json.dumps(_write(warehouse, rows)))

    found = json.loads((built_once(name, build) / "tables.json").read_text())
    return IcebergTables(warehouse=warehouse, metadata=found["metadata"], names=found["names"])


def _write(warehouse: Path, rows: int) -> dict[str, dict[str, str]]:
    names: dict[str, str] = {}
    metadata: dict[str, str] = {}
    with IcebergPeer(warehouse) as peer:
        for kind, by_key in DELETES.items():
            names[kind] = table = peer.new_table(_COLUMNS)
            _fill(peer, table, rows, by_key=by_key)
            peer.run(f"ALTER TABLE {table} SET TBLPROPERTIES ({_PROPERTIES})")
            metadata[kind] = peer.metadata(table)
    return {"names": names, "metadata": metadata}


def _fill(peer: IcebergPeer, table: str, rows: int, *, by_key: bool) -> None:
    dice = np.random.default_rng(11)
    size = rows // FILES
    paths: list[str] = []
    for number in range(FILES):
        peer.run(
            f"INSERT INTO {table} SELECT n * {_STRIDE} % {rows}, n % 1000, n * 37 % 1000003 / 100, rand(11) * 100, "
            "concat('code-', n % 997), concat('city of ', n % 5003), concat('a note about ', sha1(string(n))), "
            "timestamp_micros(1700000000000000 + n * 1000003), timestamp_micros(1710000000000000 + n * 7000009) "
            f"FROM (SELECT id AS n FROM range({number * size}, {(number + 1) * size}, 1, 1))"
        )
        (path,) = {file.path for file in peer.files(table) if file.content == "data"} - set(paths)
        paths.append(path)
        keys = dice.choice(rows, min(KEYS_OF_A_FILE, size // 4), replace=False).tolist()
        if by_key:
            peer.equality_delete(table, ["id"], [[key] for key in keys])
        peer.together(
            table,
            [
                position_delete([(of, place) for place in dice.choice(size, POSITIONS, replace=False).tolist()])
                for of in [path, *dice.choice(paths, POSITION_FILES_OF_A_FILE - 1).tolist()]
            ],
        )
