"""The deletion vectors of one bucket of a primary-key table while it is compacted."""

from collections.abc import Sequence
from dataclasses import replace

import numpy.typing as npt

from interbed.storage.base.bucket_id import BucketId
from interbed.storage.files.deletion.index_file import read_vectors, write_vectors
from interbed.storage.files.deletion.vector import DeletionVector
from interbed.storage.meta.manifest.index_manifest import DELETION_VECTORS, IndexFileMeta
from interbed.storage.meta.store import TableStore


class BucketDeletions:
    """Starts from what the table's snapshot has; changes become one new index file, which takes the old one's place.

    Each index file is read once, when the first vector is asked for: who only decides what is due reads none. Not for
    use by several threads at once.
    """

    def __init__(self, store: TableStore, bucket_id: BucketId, files: Sequence[IndexFileMeta] = ()) -> None:
        self._store = store
        self._bucket_id = bucket_id
        self._files = tuple(files)
        self._read: dict[str, DeletionVector] | None = None
        self._changed = False

    @staticmethod
    def restore(store: TableStore, bucket_id: BucketId, index_files: Sequence[IndexFileMeta]) -> "BucketDeletions":
        """The bucket's vectors from its index files; what asks for them raises what read_vectors raises."""
        return BucketDeletions(store, bucket_id, [f for f in index_files if f.index_type == DELETION_VECTORS])

    def of(self, file_name: str) -> DeletionVector | None:
        """The vector of a data file, None when none of its rows is deleted."""
        return self._vectors.get(file_name)

    def delete(self, file_name: str, positions: npt.ArrayLike) -> None:
        """Mark rows of a data file as deleted; rows that are so already stay so."""
        old = self._vectors.get(file_name)
        new = DeletionVector.of(positions) if old is None else old.union(positions)
        if len(new) and new != old:
            self._vectors[file_name] = new
            self._changed = True

    def remove(self, file_name: str) -> None:
        """Forget the vector of a data file that is no longer the table's."""
        if self._vectors.pop(file_name, None) is not None:
            self._changed = True

    @property
    def _vectors(self) -> dict[str, DeletionVector]:
        if self._read is None:
            found: dict[str, DeletionVector] = {}
            for file in self._files:
                path = self._store.index_path(self._bucket_id, file)
                found.update(read_vectors(self._store.file_io, path, file.deletion_vectors or ()))
            self._read = found
        return self._read

    def finish(self) -> tuple[tuple[IndexFileMeta, ...], tuple[IndexFileMeta, ...]]:
        """Write what has changed since the last call: the new index files, and those that they replace."""
        if not self._changed:
            return (), ()
        replaced, new = self._files, []
        if self._vectors:
            file = self._store.new_index_file(self._bucket_id)
            bitmap64 = self._store.options.deletion_vectors_bitmap64
            written = write_vectors(self._store.file_io, file.path, self._vectors, bitmap64=bitmap64)
            new = [replace(written, external_path=file.external_path)]
        self._files = tuple(new)
        self._changed = False
        return self._files, replaced
