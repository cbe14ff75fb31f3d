"""Dropped tables and databases that are kept for a time: their value, and the part of a catalog that has them."""

from dataclasses import dataclass
from typing import Any

from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import NotSupportedError, plain_errors


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedEntry:
    """A dropped table or database that is kept. `name` is None for a database; times are seconds since the epoch.

    `present_location` is the directory that was moved aside. `database` is empty if the note about the drop cannot be
    read: such a directory is put back and purged by its id alone, and never expires. `with_database` is the id of the
    database that a table was dropped with.
    """

    id: str
    database: str
    name: str | None
    dropped_at: int
    expires_at: int | None
    present_location: str
    with_database: str | None = None

    @property
    def kind(self) -> str:
        """`table` or `database`; `unknown` without a readable note."""
        return "unknown" if not self.database else "database" if self.name is None else "table"

    @property
    def qualified(self) -> str:
        """The name with its database, for messages."""
        return self.database or "?" if self.name is None else f"{self.database}.{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry as commands print it."""
        return {
            "id": self.id,
            "database": self.database or None,
            "name": self.name,
            "kind": self.kind,
            "dropped_at": self.dropped_at,
            "expires_at": self.expires_at,
            "present_location": self.present_location,
            "with_database": self.with_database,
        }


class CatalogDrops:
    """The part of a catalog that has dropped objects; this base class has none."""

    name: str

    def list_dropped(self, database: str | None = None) -> list[DroppedEntry]:
        """Return the dropped tables and databases that can be put back, of one database or of all, the latest first.

        Raises NotSupportedError in a catalog on a metastore: `interbed metastore dropped` lists them.
        """
        raise self._no_dropped("dropped")

    def undrop_table(
        self, identifier: str | Identifier, *, new_name: str | None = None, drop_id: str | None = None
    ) -> None:
        """Put the latest dropped table or view of a name back, or the one of an id, with its files, perhaps under a new
        name.

        Raises TableNotFoundError if none is kept, TableExistsError, DatabaseNotFoundError, NotSupportedError unless
        the catalog is on a metastore of interbed's or keeps its tables in a file system.
        """
        raise self._no_dropped("undrop")

    def undrop_database(self, name: str, *, drop_id: str | None = None) -> None:
        """Put the latest dropped database of a name back, with the tables that were dropped with it.

        Raises as undrop_table.
        """
        raise self._no_dropped("undrop")

    def purge_dropped(self, name: str | None = None, *, drop_id: str | None = None, only_expired: bool = False) -> int:
        """Delete the files of a dropped object for good, or of all; return the number of objects that were deleted.

        `name` is `database.table` or that of a database. What cannot be deleted wholly is not counted, and logged.
        Raises TableNotFoundError, NotSupportedError in a catalog on a metastore.
        """
        raise self._no_dropped("purge")

    def _no_dropped(self, command: str) -> NotSupportedError:
        return NotSupportedError(
            f"The catalog '{self.name}' keeps no dropped tables itself: its server does, if it is `interbed server`, "
            f"where `interbed metastore {command}` does this."
        )
