"""What tells a table from another one whose records are in the same topic."""

from interbed.storage.meta.store import TableStore


def identity_of(store: TableStore) -> int:
    """When the table's first schema was made, in milliseconds since the epoch."""
    ids = store.schemas.ids()
    return store.schemas.schema(min(ids)).time_millis or 0 if ids else 0
