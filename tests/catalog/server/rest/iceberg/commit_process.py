"""A server process that dies during a commit: `python -m tests.catalog.server.rest.iceberg.commit_process DB WAREHOUSE
WHEN`.

WHEN is `written`, between the metadata files and the swap, or `swapped`, between the swap and the response. The commit
sets the property `a` of the tables `one` and `two` in one transaction.
"""

import os
import signal
import sys
from collections.abc import Sequence

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.iceberg.commits import TableCommit, TableCommitter
from interbed.catalog.server.rest.iceberg.metadata.updates import SetProperties
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerChange, PointerService


def main() -> None:
    """Commit to both tables, and die."""
    db, root, when = sys.argv[1:]
    swap = PointerService.swap

    def dying(self: PointerService, changes: Sequence[PointerChange], user: str = "") -> None:
        if when == "written":
            os.kill(os.getpid(), signal.SIGKILL)
        swap(self, changes, user)
        os.kill(os.getpid(), signal.SIGKILL)

    PointerService.swap = dying  # type: ignore[method-assign]
    committer = TableCommitter(TableStore(Metastore(SqlRepository(db), root)))
    names = [IcebergName(catalog="hive", levels=("default",), name=name) for name in ("one", "two")]
    updates = [SetProperties(updates={"a": "1"})]
    committer.commit([TableCommit(name=name, requirements=[], updates=updates) for name in names], None)


if __name__ == "__main__":
    main()
