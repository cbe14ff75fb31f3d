"""Appends to an Iceberg table through pyiceberg, run in concurrent processes by tests/peers/clients/test_pyiceberg.py.

    python pyiceberg_program.py URI TABLE WRITER THREADS COMMITS

A commit that lost a race against another one is retried on the current table, as users of pyiceberg do. It must succeed
in the end.
"""

import random
import sys
import threading
import time

import pyarrow as pa
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.exceptions import CommitFailedException

GIVES_UP_AFTER_SECONDS = 240


def append(uri: str, table: str, writer: str, commits: int) -> None:
    """Append rows, each in its own commit."""
    catalog = HiveCatalog(
        "there",
        uri=uri,
        **{"lock-check-min-wait-time": "0.02", "lock-check-max-wait-time": "0.5", "lock-check-retries": "30"},
    )
    for number in range(commits):
        row = pa.table({"id": pa.array([number], pa.int64()), "who": [writer]})
        deadline = time.monotonic() + GIVES_UP_AFTER_SECONDS
        while True:
            try:
                catalog.load_table(table).append(row)
                break
            except CommitFailedException:
                if time.monotonic() > deadline:
                    raise
                # Other writers retry, too: a random pause spreads the retries.
                time.sleep(random.uniform(0.01, 0.1))


def main(uri: str, table: str, writer: str, threads: int, commits: int) -> int:
    """Append from several threads; return the number of threads that failed."""
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            append(uri, table, f"{writer}/{number}", commits)
        except BaseException as error:
            failed.append(error)
            raise

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
