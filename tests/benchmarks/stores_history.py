"""An Iceberg table in an object store that got the main benchmark's changes one by one, from Iceberg's code in Spark.

Updates and deletes are written as position deletes ("merge-on-read"), as the changes of a stream are. Readers of this
table have as many changes to merge as readers of interbed's table.
"""

import csv
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from interbed.storage.io.resolve import file_io_for
from tests.benchmarks import data
from tests.support.peers.iceberg import CATALOG, IcebergPeer

_TABLE = f"{CATALOG}.db.history"
_MERGED_WHEN_READ = ", ".join(f"'write.{each}.mode'='merge-on-read'" for each in ("merge", "update", "delete"))


def written_with_history(directory: Path, place: str, options: Mapping[str, str]) -> str:
    """Return the metadata file of the table, in the folder `place` of the store that `options` open.

    `directory` has the rows of tests/benchmarks/data.py.
    """
    warehouse = directory / "iceberg-history"
    with IcebergPeer(warehouse) as peer:
        peer.run(
            f"CREATE TABLE {_TABLE} USING iceberg TBLPROPERTIES ('format-version'='2', {_MERGED_WHEN_READ}) AS "
            f"SELECT * FROM {_rows(directory, 'base')}"
        )
        for number in range(data.UPSERTS):
            peer.run(
                f"MERGE INTO {_TABLE} t USING {_rows(directory, f'upsert-{number}')} s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        peer.run(f"DELETE FROM {_TABLE} WHERE id IN (SELECT id FROM {_rows(directory, 'delete')})")
        made = Path(peer.metadata(_TABLE).removeprefix("file:"))
        # Metadata refer to files by absolute paths, so they are rewritten for their destination.
        ((_, listed, *_),) = peer.run(
            f"CALL {CATALOG}.system.rewrite_table_path(table => '{_TABLE.removeprefix(f'{CATALOG}.')}', "
            f"source_prefix => 'file:{warehouse}', target_prefix => '{place}')"
        )
    _copy(Path(listed.removeprefix("file:")), place, options)
    shutil.rmtree(warehouse)
    return f"{place}/{made.relative_to(warehouse)}"


def _rows(directory: Path, name: str) -> str:
    """Return a file of rows as a Spark relation."""
    path = directory / f"{name}.parquet"
    if not path.exists():
        pq.write_table(data.read(directory / f"{name}.arrow"), path)
    return f"parquet.`{path}`"


def _copy(listed: Path, place: str, options: Mapping[str, str]) -> None:
    """Copy the files that a CSV lists with their sources and targets."""
    file_io, root = file_io_for(place, options)
    for part in sorted(listed.glob("part-*") if listed.is_dir() else [listed]):
        with part.open(newline="") as lines:
            for source, target in csv.reader(lines):
                path = f"{root}{target.removeprefix(place)}"
                with open(source.removeprefix("file:"), "rb") as found, file_io.open_output(path) as copied:
                    shutil.copyfileobj(found, copied, 8 << 20)
