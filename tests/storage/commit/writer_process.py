"""A process that commits to a table repeatedly: `writer_process.py <location> <user> <commits> [fault…]`.

Every commit adds one made-up file, named after the user and the number of the commit, so that a test can find missing
ones. Prints the snapshot id of each commit.
"""

import sys

from interbed.storage.commit.file_store_commit import FileStoreCommit
from interbed.storage.io.faults import Fault, FaultyFileIO
from interbed.storage.io.local import LocalFileIO
from interbed.storage.table.opening import open_store
from tests.storage.commit.tables import data_file, message


def main(location: str, user: str, commits: int, faults: list[str]) -> None:
    """Commit, with the given faults."""
    store = open_store(location, FaultyFileIO(LocalFileIO(), [Fault.parse(f) for f in faults]))
    commit = FileStoreCommit(store, user)
    for number in range(commits):
        ids = commit.commit([message(data_file(name=f"data-{user}-{number}.parquet"))], identifier=number)
        print(*ids, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
