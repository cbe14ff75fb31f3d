"""A metastore process that dies during a drop or an undrop: `python -m tests.catalog.server.service.undrop_process DB
WAREHOUSE WORK WHEN`.

WORK is `drop_table`, `drop_database`, `undrop`, `undrop_database` or `purge`. WHEN is `before` or `after` the directory
is renamed or deleted, or `committed`.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service import warehouse
from interbed.catalog.server.service.directories import deletions, guard
from interbed.catalog.server.service.service import Metastore


def dying(action: Callable[..., Any], when: str) -> Callable[..., Any]:
    """Return the action, which ends the process before or after it is done."""

    def killed(*arguments: Any) -> Any:
        if when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = action(*arguments)
        if when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return killed


def main() -> None:
    """Do the work on the table `db.t` or its database."""
    db, root, work, when = sys.argv[1:]
    metastore = Metastore(SqlRepository(db), root, undrop_seconds=3600)
    warehouse.rename_directory = dying(warehouse.rename_directory, when)
    vars(deletions)["remove_tree"] = dying(guard.remove_tree, when)
    if work == "drop_table":
        metastore.tables.drop("hive", "db", "t", delete_data=True)
    elif work == "drop_database":
        metastore.databases.drop("hive", "db", delete_data=True, cascade=True)
    elif work == "undrop_database":
        metastore.dropped.undrop(metastore.dropped.find("hive", "db", None))
    elif work == "undrop":
        metastore.dropped.undrop(metastore.dropped.find("hive", "db", "t"))
    else:
        metastore.dropped.purge(metastore.dropped.find("hive", "db", "t"))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
