"""One side of a table: what `Table.versions`, `Table.maintenance` and `Table.access` have in common."""

from typing import Protocol

from interbed.storage.meta.file_store import FileStore


class PartedTable(Protocol):
    """The table that a part works on."""

    name: str
    store: FileStore

    def refresh(self) -> None:
        """Take the newest schema."""
        ...


class TablePart:
    """Operations of one kind on a table. The table creates the object at each access."""

    def __init__(self, table: PartedTable) -> None:
        self._table = table

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._table.name

    @property
    def store(self) -> FileStore:
        """The table's files and metadata, with its newest schema."""
        return self._table.store

    def _announce(self) -> None:
        """Call the listeners of the table's versions after a change."""
        self.store.hooks.after_change(self.store)
