"""Additions of a catalog and of higher layers to a table's file store: locks, publication of snapshots, changes of
schemas and versions, and the log of the rows of a writer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from interbed.storage.io.api import FileIO
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.snapshot.snapshot import CatalogLock, NoLock, SnapshotPublisher

if TYPE_CHECKING:
    import pyarrow as pa

    from interbed.storage.meta.schema.change import SchemaChange
    from interbed.storage.meta.schema.table_schema import TableSchema


class VersionKeeper(Protocol):
    """Catalog's changes of the versions of one branch of a table, in place of changes of its files."""

    def roll_back(self, version: int | str) -> None:
        """Make the snapshot of an id, or that of a tag, the newest; SnapshotNotFoundError, TagNotFoundError."""
        ...

    def alter(self, changes: "Sequence[SchemaChange]") -> None:
        """Create the next schema; raises as FileStore.alter."""
        ...

    def create_branch(self, name: str, tag: str | None) -> None:
        """Create a branch: empty, or with the rows of a tag; InvalidInputError, TagNotFoundError."""
        ...

    def delete_branch(self, name: str) -> None:
        """Delete a branch; BranchNotFoundError."""
        ...

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch; BranchNotFoundError, InvalidInputError, NotSupportedError."""
        ...

    def fast_forward(self, name: str) -> None:
        """Replace the state of the table by that of a branch; BranchNotFoundError."""
        ...


class WriteLog(Protocol):
    """Log of a writer's rows before they are committed, where the table's log is eventual (`log.consistency`).

    Not thread-safe.
    """

    def send(self, bucket: int, rows: "pa.RecordBatch", kinds: "pa.Array[Any] | None") -> None:
        """Send rows of a bucket with all columns of the table, and their kinds as int8, None for insertions.

        Raises LogUnavailableError, MissingExtraError, InvalidOptionError for a topic that is not that of a log.
        """
        ...

    def flush(self) -> None:
        """Wait until all sent rows are in the log; raises LogUnavailableError when some of them are not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEnvironment:
    """Additions of a catalog to a table's files. All are optional; without them the file system is the catalog.

    `lock` creates the lock that is held around the creation of a snapshot. `publisher` replaces that creation as a
    whole, for branches too if there are `versions`. `known_latest` returns the newest snapshot id that the catalog
    knows. `alter` creates the next schema, and `roll_back_schema` deletes the schemas after an id, where the catalog
    keeps a copy of the newest; both are for the main branch alone. `versions` returns the keeper of the versions of a
    branch, by its name, in a catalog that keeps the history of its tables. `file_options` are options of a catalog by
    which another process opens the files, if they are more than its user gave; they may have secrets.
    """

    lock: Callable[[], CatalogLock] | None = None
    publisher: Callable[[FileIO, TablePaths], SnapshotPublisher] | None = None
    known_latest: Callable[[], int | None] | None = None
    alter: "Callable[[Sequence[SchemaChange]], None] | None" = None
    roll_back_schema: "Callable[[int], TableSchema] | None" = None
    versions: Callable[[str], VersionKeeper] | None = None
    file_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def new_lock(self) -> CatalogLock:
        """Return a lock for changes of the table's history; without a catalog's lock it locks nothing."""
        return NoLock() if self.lock is None else self.lock()
