"""Which tables this version reads and writes; others are refused by the option that makes them different."""

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.meta.store import TableStore

_REFUSED = {
    "row-tracking.enabled": "row tracking",
    "data-evolution.enabled": "data evolution",
    "pk-clustering-override": "clustering that overrides the primary key",
    "sequence.snapshot-ordering": "ordering by snapshots",
}
_SEQUENCE_MODE = "write.sequence-number-init-mode"


def check_readable(store: TableStore) -> None:
    """Raise NotSupportedError when reading the table needs what this version does not do."""
    options = store.options
    kind = options.text("type", "table").lower()
    if kind != "table":
        raise NotSupportedError(
            f"The table at {store.location} has 'type' = '{kind}'; this version knows 'table' only."
        )
    for key, what in _REFUSED.items():
        if options.boolean(key, False):
            raise NotSupportedError(f"The table at {store.location} has '{key}' = 'true'; {what} is not supported.")
    manifests = options.text("manifest.format", "avro").lower()
    if manifests != "avro":
        raise NotSupportedError(
            f"The table at {store.location} has 'manifest.format' = '{manifests}'; this version knows avro only."
        )


def check_writable(store: TableStore) -> None:
    """Raise NotSupportedError when writing the table needs what this version does not do."""
    check_readable(store)
    options = store.options
    mode = options.text(_SEQUENCE_MODE, "default").lower()
    if mode == "snapshot":
        raise NotSupportedError(
            f"The table at {store.location} has '{_SEQUENCE_MODE}' = '{mode}', which this version does not write."
        )
