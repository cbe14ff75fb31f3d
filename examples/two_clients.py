"""A catalog server and two programs that write one table at the same time.

The server keeps the names of databases and tables, and the locks under which snapshots are made. Two writers, each a
process with a connection of its own, deposit to the same accounts. The table adds up the deposits of an account
(merge engine `aggregation`), so that a writer need not read a balance before it changes it. Both commit again and
again to the same bucket; a commit that loses the race for the next snapshot tries the one after it. At the end no
deposit is lost.

    python examples/two_clients.py [--keep DIRECTORY]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import interbed
import interbed.testing

ACCOUNTS = 3
DEPOSITS = 5
"""Commits of each writer; each adds one to every account."""

SCHEMA = pa.schema([("account", pa.int64()), ("balance", pa.int64()), ("deposits", pa.int64())])

OPTIONS = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "fields.balance.aggregate-function": "sum",
    "fields.deposits.aggregate-function": "sum",
}


def open_catalog(uri: str, warehouse: str) -> interbed.Catalog:
    """The catalog as each program opens it."""
    return interbed.load_catalog("bank", metastore="hive", uri=uri, warehouse=warehouse)


def write(uri: str, warehouse: str, amount: int) -> None:
    """What each writer does."""
    rows = {"account": list(range(ACCOUNTS)), "balance": [amount] * ACCOUNTS, "deposits": [1] * ACCOUNTS}
    with open_catalog(uri, warehouse) as catalog:
        table = catalog.get_table("bank.accounts")
        for _ in range(DEPOSITS):
            table.upsert(pa.table(rows, schema=SCHEMA))
    print(f"    a writer has deposited {DEPOSITS} x {amount} to each account", flush=True)


def run(directory: Path) -> None:
    """Start the server and two writers, and look at the balances."""
    warehouse = f"file:{directory}/warehouse"
    with interbed.testing.metastore(warehouse=warehouse) as uri, open_catalog(uri, warehouse) as catalog:
        catalog.create_database("bank", ignore_if_exists=True)
        table = catalog.create_table("bank.accounts", SCHEMA, primary_keys=["account"], options=OPTIONS)
        print("The catalog server runs; two programs write.")
        amounts = (10, 100)
        writers = [
            subprocess.Popen([sys.executable, __file__, "--writer", uri, warehouse, str(amount)]) for amount in amounts
        ]
        codes = [writer.wait(timeout=120) for writer in writers]
        if any(codes):
            raise SystemExit("A writer failed.")
        for row in table.scan().to_arrow().sort_by("account").to_pylist():
            print(f"    account {row['account']}: {row['balance']} in {row['deposits']} deposits")
            assert (row["balance"], row["deposits"]) == (DEPOSITS * sum(amounts), 2 * DEPOSITS)
        appends = sum(snapshot.commit_kind.value == "APPEND" for snapshot in table.snapshots())
        print(f"No deposit was lost, in {appends} commits of two programs.")


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="where the lake is made and left")
    parser.add_argument("--writer", nargs=3, metavar=("URI", "WAREHOUSE", "AMOUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.writer:
        uri, warehouse, amount = arguments.writer
        write(uri, warehouse, int(amount))
        return
    with tempfile.TemporaryDirectory() as temporary:
        run(arguments.keep or Path(temporary))


if __name__ == "__main__":
    main()
