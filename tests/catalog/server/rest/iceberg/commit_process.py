"""A server process that dies during a commit: `python -m tests.catalog.server.rest.iceberg.commit_process DB WAREHOUSE
WHEN [NEW]`.

WHEN is `written`, between the metadata files and the swap, or `swapped`, between the swap and the response. The commit
sets the property `a` of the tables `one` and `two` in one transaction, which also creates the table NEW.
"""

import os
import signal
import sys
from collections.abc import Sequence

import msgspec

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.rest.iceberg.commits import TableCommit, TableCommitter
from interbed.catalog.server.rest.iceberg.metadata.updates import AssertCreate, SetProperties, TableUpdate
from interbed.catalog.server.rest.iceberg.names import IcebergName
from interbed.catalog.server.rest.iceberg.store import TableStore
from interbed.catalog.server.service.model import MetastoreTable
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.tables.pointers import PointerChange
from tests.catalog.server.rest.iceberg.rest_server import new_table_updates


def main() -> None:
    """Commit to both tables, and die."""
    db, root, when, *new = sys.argv[1:]
    swap = TableStore.swap

    def dying(self: TableStore, changes: Sequence[PointerChange], entries: Sequence[MetastoreTable], user: str) -> None:
        if when == "written":
            os.kill(os.getpid(), signal.SIGKILL)
        swap(self, changes, entries, user)
        os.kill(os.getpid(), signal.SIGKILL)

    TableStore.swap = dying  # type: ignore[method-assign]
    committer = TableCommitter(TableStore(Metastore(SqlRepository(db), root)))
    names = [IcebergName(catalog="hive", levels=("default",), name=name) for name in ("one", "two")]
    updates = [SetProperties(updates={"a": "1"})]
    commits = [TableCommit(name=name, requirements=[], updates=updates) for name in names]
    committer.commit([*commits, *(creation(name, root) for name in new)], None)


def creation(table: str, root: str) -> TableCommit:
    """Return the commit that creates a table in the namespace `default`."""
    name = IcebergName(catalog="hive", levels=("default",), name=table)
    updates = msgspec.convert(new_table_updates(f"{root}/{table}"), list[TableUpdate])
    return TableCommit(name=name, requirements=[AssertCreate()], updates=updates)


if __name__ == "__main__":
    main()
