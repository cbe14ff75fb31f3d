"""A metastore process that dies during a rename: `python -m tests.catalog.server.service.rename_process DB WAREHOUSE
WHEN`.

WHEN is `before` or `after` the directory moves, or `committed`.
"""

import dataclasses
import os
import signal
import sys

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service import warehouse
from interbed.catalog.server.service.service import Metastore


def main() -> None:
    """Rename the table `old` of the default database to `new`."""
    db, root, when = sys.argv[1:]
    rename = warehouse.rename_directory

    def dying(old: str, new: str) -> bool:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = rename(old, new)
        if when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    warehouse.rename_directory = dying
    metastore = Metastore(SqlRepository(db), root)
    table = metastore.tables.get("hive", "default", "old")
    metastore.tables.alter("hive", "default", "old", dataclasses.replace(table, name="new"))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
