"""What a committer calls when it has made a snapshot, with pypaimon's names."""

from collections.abc import Sequence
from dataclasses import dataclass

from interbed.storage.meta.manifest.entry import ManifestEntry
from interbed.storage.meta.snapshot.snapshot import Snapshot
from interbed.storage.meta.store import TableStore
from interbed.storage.scan.manifest_reader import ManifestReader


@dataclass(frozen=True, slots=True)
class CommitCallbackContext:
    """A snapshot that was made, the files that it added and deleted, and the identifier of its commit."""

    snapshot: Snapshot
    commit_entries: Sequence[ManifestEntry]
    identifier: int


class CommitCallback:
    """Derive from this and override `call`, which may be called again for a snapshot after a failure."""

    def call(self, context: CommitCallbackContext) -> None:
        """A snapshot was made."""
        raise NotImplementedError(f"{type(self).__name__} has no method 'call'.")

    def close(self) -> None:
        """The committer is closed."""


def call_back(store: TableStore, ids: Sequence[int], callbacks: Sequence[CommitCallback]) -> None:
    """Call them for each of the snapshots that a commit has made."""
    reader = ManifestReader(store.file_io, store.paths)
    for snapshot_id in ids:
        snapshot = store.snapshots.snapshot(snapshot_id)
        entries = list(reader.entries(reader.delta(snapshot)))
        for callback in callbacks:
            callback.call(CommitCallbackContext(snapshot, entries, snapshot.commit_identifier))
