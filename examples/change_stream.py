"""Changes of a database, applied to a table as they come, and read again as changes.

A shop's database reports what happens to its orders: inserts, updates, deletes. They are written to a table with a
primary key in three batches. Then the program reads the table as it was after the first batch, and follows the
changes, as a job behind it would.

    python examples/change_stream.py [--keep DIRECTORY]
"""

import argparse
import tempfile
from pathlib import Path

import pyarrow as pa

import interbed

SCHEMA = pa.schema([("id", pa.int64()), ("customer", pa.string()), ("amount", pa.float64()), ("state", pa.string())])

BATCHES = [
    [
        (1, "ann", 10.0, "new", "+I"),
        (2, "bob", 20.0, "new", "+I"),
        (3, "cid", 30.0, "new", "+I"),
    ],
    [
        (1, "ann", 10.0, "paid", "+U"),
        (4, "dee", 40.0, "new", "+I"),
    ],
    [
        (2, "bob", 20.0, "new", "-D"),
        (3, "cid", 33.0, "paid", "+U"),
    ],
]


def change_rows(batch: list[tuple[int, str, float, str, str]]) -> pa.Table:
    """A batch as an Arrow table; the column `_row_kind` says what happened to each row."""
    schema = SCHEMA.append(pa.field("_row_kind", pa.string()))
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in batch], schema=schema)


def create_orders(warehouse: Path) -> interbed.Table:
    """The table; the changelog is looked up by compactions, so that readers see each row before and after an update."""
    catalog = interbed.load_catalog("lake", warehouse=f"file:{warehouse}")
    catalog.create_database("shop", ignore_if_exists=True)
    return catalog.create_table(
        "shop.orders",
        SCHEMA,
        primary_keys=["id"],
        options={"bucket": "1", "changelog-producer": "lookup"},
    )


def print_rows(title: str, rows: pa.Table) -> None:
    """The rows by their key."""
    print(title)
    for row in rows.sort_by("id").to_pylist():
        print("   ", *row.values())


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where the lake is made and left")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as temporary:
        run(keep or Path(temporary))


def run(warehouse: Path) -> None:
    """Write, travel, follow."""
    orders = create_orders(warehouse)
    for number, batch in enumerate(BATCHES, 1):
        orders.write_changes(change_rows(batch))
        if number == 1:
            orders.versions.create_tag("first-batch")
    print_rows("Orders now:", orders.scan().to_arrow())
    print_rows("Orders after the first batch:", orders.copy({"scan.tag-name": "first-batch"}).scan().to_arrow())

    print("Changes, snapshot by snapshot:")
    kinds = ["+I", "-U", "+U", "-D"]
    checkpoint = None
    for changes in orders.stream(from_snapshot=1, idle_seconds=0):
        for row in changes.to_arrow().to_pylist():
            print("   ", kinds[row.pop("_row_kind")], *row.values())
        checkpoint = changes.checkpoint
    # A job keeps this number with its own results and continues there after a restart.
    print(f"A restarted reader continues at {checkpoint}.")


if __name__ == "__main__":
    main()
