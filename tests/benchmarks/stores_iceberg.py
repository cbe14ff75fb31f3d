"""Two columns of an Iceberg table in an object store, by pyiceberg and by interbed, each in a separate process.

python -m tests.benchmarks.stores_iceberg --stage pyiceberg METADATA PROPERTIES WARMING_METADATA
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.benchmarks.command import print_figures

COLUMNS = ("id", "amount")

_CHECKSUMS = {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"}
"""Settings against the default checksums of Arrow's client, which S3Proxy does not know."""


def written(rows: pa.Table, warehouse: str, properties: dict[str, str], directory: Path) -> str:
    """Return the metadata file of a new table with these rows; its catalog is a file of the directory."""
    from pyiceberg.catalog.sql import SqlCatalog

    os.environ.update(_CHECKSUMS)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{directory}/iceberg.db", warehouse=warehouse, **properties)
    catalog.create_namespace_if_not_exists("b")
    table = catalog.create_table(f"b.t{rows.num_rows}", rows.schema)
    table.append(rows)
    return str(table.metadata_location)


def read(engine: str, metadata: str, properties: dict[str, str]) -> int:
    """Read two columns, and return the number of rows."""
    if engine == "interbed":
        from interbed.iceberg.table import load_iceberg_table

        return load_iceberg_table(metadata, properties).scan(columns=COLUMNS).to_arrow().num_rows
    from pyiceberg.table import StaticTable

    found: Any = StaticTable.from_metadata(metadata, properties).scan(selected_fields=COLUMNS).to_arrow()
    return int(found.num_rows)


def main() -> None:
    """Read a small table, so that code is loaded, and then the measured table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stage", required=True, choices=["pyiceberg", "interbed"])
    parser.add_argument("metadata")
    parser.add_argument("properties", type=json.loads)
    parser.add_argument("warming")
    given = parser.parse_args()
    os.environ.update(_CHECKSUMS)
    read(given.stage, given.warming, given.properties)
    begun = time.perf_counter()
    rows = read(given.stage, given.metadata, given.properties)
    print_figures({"wall_s": time.perf_counter() - begun, "rows": rows})


if __name__ == "__main__":
    main()
