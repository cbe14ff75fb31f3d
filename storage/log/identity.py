"""What tells a table from another one whose records are in the same topic."""

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.log.settings import LogSettings
from interbed.storage.meta.store import TableStore


def identity_of(store: TableStore) -> int:
    """When the table's first schema was made, in milliseconds since the epoch."""
    ids = store.schemas.ids()
    return store.schemas.schema(min(ids)).time_millis or 0 if ids else 0


def error_of_another_table(settings: LogSettings, store: TableStore) -> InvalidOptionError:
    """What readers of a topic get that has records of another table."""
    return InvalidOptionError(
        f"The {settings.place} is the log of another table than the one at {store.location}; set 'kafka.topic'."
    )
