"""Value of a dropped table or database that is kept for a time, and can be put back."""

from dataclasses import dataclass
from typing import Any

from interbed.storage.base.errors import plain_errors


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
